"""Exact greedy acceptance without decoding: replay a drafter on text that the target wrote greedily.

Under greedy decoding a draft token is accepted when it equals the token that the target writes there, and that token is on record. The
drafter sees the target's features of committed text only, which is the recorded text whatever was drafted. So the number of tokens that a
round accepts is a function of its anchor alone, and the rounds of a document are a walk over that function:

    a = first answer token;   repeat:  n = accepted(a);  commit min(n + 1, rest) tokens;  a <- a + n + 1;   until the answer ends.

`accepted` comes from the training forward for all anchors at once. It feeds the true predecessors, where decoding would feed the drafted
ones; up to the first mismatch they are the same, and behind it nothing counts. tau equals that of live greedy decoding with this drafter,
the last round of an answer (cut by its end) included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from angelspec.data.packing import Document, pack
from angelspec.losses.vocabulary import slot_terms
from angelspec.training.layout import candidate_anchors

ANCHORS_PER_PASS = 256


@dataclass(frozen=True)
class Rollout:
    """Rounds of one document: accepted draft tokens, and committed tokens (accepted + the target's own, cut at the answer's end)."""

    accepted: tuple[int, ...]
    committed: tuple[int, ...]

    @property
    def tau(self) -> float:
        """Committed tokens per target pass."""
        return sum(self.committed) / len(self.committed)


def rollout(drafter: nn.Module, document: Document, slots: int | None = None) -> Rollout | None:
    """Replay greedy decoding of one document; None when its answer has fewer than two tokens, so that there is no round.

    slots: draft tokens verified per round, at most what the drafter was trained for (its number when None). A block drafter always
    drafts all its slots here; the first `slots` of them count.
    """
    return walk(accepted_tokens(drafter, document, slots), len(document))


@torch.no_grad()
def accepted_tokens(drafter: nn.Module, document: Document, slots: int | None = None) -> dict[int, int]:
    """Accepted draft tokens of a round, for every position of the document that can be an anchor."""
    device = next(drafter.parameters()).device
    batch = pack([document]).to(device)
    accepted: dict[int, int] = {}
    candidates = candidate_anchors(batch)
    for anchors in candidates.split(ANCHORS_PER_PASS) if len(candidates) else ():
        draft = drafter.training_forward(batch, anchors)
        valid = draft.valid if slots is None else draft.valid[:, :slots]
        shape = valid.shape
        labels = draft.labels[:, : shape[1]].reshape(-1)
        hidden = draft.hidden[:, : shape[1]].reshape(len(labels), -1)
        _, seen = slot_terms(hidden, labels, drafter.head, ())
        lengths = (seen.correct.view(shape) & valid).cumprod(-1).sum(-1)
        accepted |= dict(zip(anchors.tolist(), lengths.tolist(), strict=True))
    return accepted


def walk(accepted: dict[int, int], length: int) -> Rollout | None:
    """Rounds over a document of `length` tokens, from its first possible anchor to its last token."""
    if not accepted:
        return None
    anchor, rounds = min(accepted), []
    while anchor < length - 1:
        rounds.append((accepted[anchor], min(accepted[anchor] + 1, length - 1 - anchor)))
        anchor += rounds[-1][1]
    return Rollout(*(tuple(column) for column in zip(*rounds, strict=True)))


def tau_by_domain(
    documents: Sequence[tuple[str, Document]], slots: int | None = None
) -> Callable[[nn.Module], list[dict[str, Any]]]:
    """Evaluation for the trainer: tau and acceptance on held-out greedy answers, by domain and over `all` of them.

    documents: (domain, document). Rows: domain, tau (tokens per round over all rounds), prompts, rounds.
    """

    def evaluation(drafter: nn.Module) -> list[dict[str, Any]]:
        rollouts = [(domain, rollout(drafter, document, slots)) for domain, document in documents]
        kept = [(domain, one) for domain, one in rollouts if one is not None]
        domains = sorted({domain for domain, _ in kept})
        return [_summary("all", [one for _, one in kept])] + [
            _summary(name, [one for domain, one in kept if domain == name]) for name in domains if len(domains) > 1
        ]

    return evaluation


def _summary(domain: str, rollouts: Iterable[Rollout]) -> dict[str, Any]:
    committed = [tokens for one in rollouts for tokens in one.committed]
    tau = sum(committed) / len(committed) if committed else 0.0
    return {"domain": domain, "tau": tau, "prompts": len(list(rollouts)), "rounds": len(committed)}
