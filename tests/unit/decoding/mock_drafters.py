"""Drafters whose quality is known: always right, always wrong, random, repeating. And a policy without reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from angelspec.decoding import philox
from angelspec.decoding.categorical import Categorical, Sampling
from angelspec.decoding.drafter import Anchors, Committed
from angelspec.decoding.exactness import DraftLooks
from angelspec.decoding.proposal import Proposal
from angelspec.decoding.request import Answer
from angelspec.verification.policies import StepBatch


class MockDrafter:
    """Asks for features like a neural drafter does, and checks that every committed row arrives once and in order."""

    slots = 4
    layer_ids: tuple[int, ...] = (0, 2)
    looks_at = DraftLooks("deterministic", "history")
    name = "mock"

    def new_state(self, target: Any, slots: int, max_len: int) -> dict[str, Tensor]:
        self.vocab = target.dims.vocab_size
        return {"seen": torch.zeros(slots, dtype=torch.int64)}

    def reset(self, state: dict[str, Tensor], slots: Tensor) -> None:
        state["seen"][slots] = 0

    def propose(
        self, state: dict[str, Tensor], anchors: Anchors, slots: int, sampling: Sampling, target_kv: Any
    ) -> Proposal:
        assert state["seen"][anchors.slots].equal(anchors.positions), "every position before the anchor was committed"
        tokens = self.draft(anchors, slots, sampling)
        return Proposal(tokens, torch.full(tokens.shape, 0.5), self.q(anchors, tokens))

    def commit(self, state: dict[str, Tensor], committed: Committed) -> None:
        assert committed.features.shape[:2] == (len(committed.slots), len(self.layer_ids))
        for slot, position in zip(committed.slots.tolist(), committed.positions.tolist(), strict=True):
            assert state["seen"][slot] == position
            state["seen"][slot] += 1

    def draft(self, anchors: Anchors, slots: int, sampling: Sampling) -> Tensor:
        raise AssertionError("each mock says what it drafts")

    def q(self, anchors: Anchors, tokens: Tensor) -> Tensor | None:
        return None


class Right(MockDrafter):
    """Knows the answers. `shift` 1 makes every token wrong."""

    def __init__(self, answers: Sequence[Answer], shift: int = 0) -> None:
        self.texts = [[*a.prompt_ids, *a.token_ids] for a in answers]
        self.shift = shift

    def draft(self, anchors: Anchors, slots: int, sampling: Sampling) -> Tensor:
        tokens = torch.zeros(len(anchors.tokens), slots, dtype=torch.int64)
        for row, (slot, at) in enumerate(zip(anchors.slots.tolist(), anchors.positions.tolist(), strict=True)):
            committed = anchors.history[slot, : at + 1].tolist()
            follow = next(t[at + 1 : at + 1 + slots] for t in self.texts if t[: at + 1] == committed)
            tokens[row, : len(follow)] = torch.tensor(follow)
        return (tokens + self.shift) % self.vocab


class Repeating(MockDrafter):
    """The anchor, again and again."""

    def draft(self, anchors: Anchors, slots: int, sampling: Sampling) -> Tensor:
        return anchors.tokens.unsqueeze(1).repeat(1, slots)


class Random(MockDrafter):
    """Draws every slot from one fixed distribution over the vocabulary."""

    looks_at = DraftLooks("parallel", "history")

    def new_state(self, target: Any, slots: int, max_len: int) -> dict[str, Tensor]:
        state = super().new_state(target, slots, max_len)
        logits = torch.randn(1, self.vocab, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
        self.distribution = Categorical.from_masses(logits.exp())
        return state

    def draft(self, anchors: Anchors, slots: int, sampling: Sampling) -> Tensor:
        at = (anchors.positions.unsqueeze(1) + torch.arange(1, slots + 1)).flatten()
        again = anchors.positions.repeat_interleave(slots)
        u = philox.uniform(sampling.seed.repeat_interleave(slots), at, philox.DRAFT, again)
        many = Categorical(self.distribution.weights.expand(len(u), -1), self.distribution.total.expand(len(u)))
        return many.sample(u).view(-1, slots)

    def q(self, anchors: Anchors, tokens: Tensor) -> Tensor:
        return self.distribution.probs().expand(*tokens.shape, -1)


class Ragged:
    """Depths without reason, different for every request and step."""

    name = "ragged"
    looks_at = "history"

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(6)

    def __call__(self, survival: Tensor, batch: StepBatch, costs: Any = None) -> Tensor:
        return torch.randint(0, survival.shape[1] + 1, (len(survival),), generator=self.generator)
