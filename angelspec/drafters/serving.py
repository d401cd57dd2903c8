"""Drafters at work: the propose / commit half, over a cache of context keys and values per slot.

Committed rows are taken in late, in one batch at the next `propose` or when many have piled up. Block rows are
written behind the committed ones and overwritten by what is really committed, so a rejected draft leaves nothing that
anybody sees.

Drafts are the most likely tokens, or (`sample`) drawn from the draft distribution q under each request's own sampling
parameters, with the DRAFT stream of the request's seed. The confidence of a slot is max q, which ignores the token
drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from angelspec.decoding import philox
from angelspec.decoding.categorical import Categorical, Sampling
from angelspec.decoding.drafter import Anchors, Committed
from angelspec.decoding.exactness import DraftLooks, Head
from angelspec.decoding.proposal import Proposal
from angelspec.drafters.attention import CacheWindow
from angelspec.drafters.base import NeuralDrafter
from angelspec.drafters.dflash.model import BlockDrafter
from angelspec.drafters.mtp.model import MTP
from angelspec.targets.cache import KVCache
from angelspec.training.layout import slot_positions

PENDING_ROWS = 512  # committed rows that may wait before they are taken in, so that features do not pile up


@dataclass
class DraftState:
    """Per-slot state: the draft cache, (MTP) the newest final hidden state [slots, H], and committed rows that wait."""

    cache: KVCache
    newest: Tensor
    pending: list[Committed] = field(default_factory=list)


@dataclass(frozen=True)
class Drawn:
    """Drafts of n rows: tokens [n] (target ids), confidence [n] float32, and q [n, V_d] when something was drawn."""

    tokens: Tensor
    confidence: Tensor
    q: Tensor | None


class ServedDrafter:
    """A neural drafter behind the engine's interface. `slots` N may be smaller than what was trained."""

    name: str

    def __init__(self, drafter: NeuralDrafter, slots: int | None = None, sample: bool = False) -> None:
        """slots: tokens proposed at most (default: as trained); sample: draw drafts from q (for rejection sampling)."""
        trained = drafter.config.proposals
        slots = trained if slots is None else slots
        if not 1 <= slots <= trained:
            raise ValueError(f"slots is {slots}; this drafter was trained for 1 to {trained} proposals.")
        self.drafter = drafter.eval()
        self.slots, self.sample = slots, sample
        self.name = drafter.config.model_type.removeprefix("angelspec_")
        self.layer_ids = drafter.config.target_layer_ids

    @property
    def looks_at(self) -> DraftLooks:
        """What the engine must know to keep the law of the output, see angelspec.decoding.exactness."""
        drawn: Head = "sequential" if self.sequential else "parallel"
        return DraftLooks(head=drawn if self.sample else "deterministic", confidence="distribution")

    @property
    def sequential(self) -> bool:
        """Whether the distribution of a slot depends on the tokens drafted before it."""
        return True

    def new_state(self, target: Any, slots: int, max_len: int) -> DraftState:
        """A cache of max_len committed rows per slot, and room for the last block's own keys behind them."""
        c, weight = self.drafter.config, self.drafter.norm.weight
        cache = KVCache.allocate(
            c.num_layers,
            slots,
            max_len + c.block_size,
            c.num_kv_heads,
            c.head_dim,
            dtype=weight.dtype,
            device=weight.device,
        )
        return DraftState(cache, torch.zeros(slots, c.hidden_size, dtype=weight.dtype, device=weight.device))

    def reset(self, state: DraftState, slots: Tensor) -> None:
        """Forget these slots [n]. Cache rows need no clearing: nobody sees a row before it is written anew."""
        state.newest[slots] = 0
        gone = torch.zeros(state.cache.slots, dtype=torch.bool)
        gone[slots] = True
        state.pending = [kept for rows in state.pending if len((kept := _select(rows, ~gone[rows.slots.cpu()])).slots)]

    def write(self, state: DraftState, rows: Committed, keys_values: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Put keys and values [n, kv_heads, hd] per layer where the rows belong."""
        for layer, (k, v) in enumerate(keys_values):
            state.cache.k[layer][rows.slots, rows.positions] = k
            state.cache.v[layer][rows.slots, rows.positions] = v

    def draw(self, logits: Tensor, sampling: Sampling, positions: Tensor, anchors: Tensor) -> Drawn:
        """Tokens for n rows of draft logits [n, V_d], meant for sequence positions [n] of blocks anchored at [n].

        The number drawn for a position depends on the anchor too: a position may be drafted again after a rejection.
        """
        temperature = torch.where(sampling.temperature > 0, sampling.temperature, 1.0).unsqueeze(1)
        confidence = (logits.float() / temperature).softmax(-1).amax(-1)
        if not self.sample or sampling.all_greedy:
            return Drawn(self.drafter.to_target_ids(logits.argmax(-1)), confidence, None)
        law = Categorical.from_logits(logits, sampling)
        ids = law.sample(philox.uniform(sampling.seed, positions, philox.DRAFT, draw=anchors))
        return Drawn(self.drafter.to_target_ids(ids), confidence, law.probs())

    def proposal(self, slots: list[Drawn]) -> Proposal:
        """One Drawn of R rows per slot -> the proposal, with q over the target's vocabulary."""
        tokens = torch.stack([slot.tokens for slot in slots], dim=1)
        confidence = torch.stack([slot.confidence for slot in slots], dim=1)
        laws = [slot.q for slot in slots if slot.q is not None]
        if not laws:
            return Proposal(tokens, confidence)
        q = torch.stack(laws, dim=1)  # [R, N, V_d]
        if self.drafter.d2t is not None:
            q = q.new_zeros(*q.shape[:2], self.drafter.config.vocab_size).index_copy(2, self.drafter.d2t, q)
        return Proposal(tokens, confidence, q)

    def _device(self) -> torch.device:
        return self.drafter.norm.weight.device


class ServedBlockDrafter(ServedDrafter):
    """DFlash and DFly: one pass over anchor and masks, then the head, slot by slot where it is sequential."""

    drafter: BlockDrafter

    @property
    def sequential(self) -> bool:
        return self.drafter.sequential_head

    @torch.no_grad()
    def commit(self, state: DraftState, committed: Committed) -> None:
        """Take in the rows of one step, now or later."""
        state.pending.append(committed)
        if sum(len(rows.slots) for rows in state.pending) >= PENDING_ROWS:
            self.catch_up(state)

    @torch.no_grad()
    def catch_up(self, state: DraftState) -> None:
        """Compute context keys and values of the rows that wait."""
        rows = _take_pending(state, self._device())
        if rows is not None:
            self.write(state, rows, self.drafter.context_keys_values(rows.features, rows.positions))

    @torch.no_grad()
    def propose(
        self, state: DraftState, anchors: Anchors, slots: int, sampling: Sampling, target_kv: KVCache | None = None
    ) -> Proposal:
        """`slots` tokens for each of R requests; costs slots + 1 rows of the backbone and `slots` of the head each."""
        self.catch_up(state)
        own = slot_positions(anchors.positions, slots + 1)  # [R, slots + 1]
        window = CacheWindow.build(anchors.slots, own, anchors.positions + slots + 1, self._device())
        tokens, positions = anchors.tokens.to(self._device()), anchors.positions.to(self._device())
        hidden = self.drafter.backbone(
            tokens, positions, slots + 1, lambda layer: window.attend(state.cache.k[layer], state.cache.v[layer])
        )
        if not self.sequential:
            return self._all_at_once(hidden, sampling, positions)
        drawn, previous = [], tokens
        for slot in range(slots):
            logits = self.drafter.logits(self.drafter.refine(hidden[:, slot], previous))
            drawn.append(self.draw(logits, sampling, positions + slot + 1, positions))
            previous = drawn[-1].tokens
        return self.proposal(drawn)

    def _all_at_once(self, hidden: Tensor, sampling: Sampling, positions: Tensor) -> Proposal:
        requests, slots, _ = hidden.shape
        owner = torch.arange(requests, device=hidden.device).repeat_interleave(slots)
        at = slot_positions(positions, slots + 1)[:, 1:].flatten()
        drawn = self.draw(self.drafter.logits(hidden.flatten(0, 1)), sampling.rows(owner), at, positions[owner])
        columns = [
            Drawn(drawn.tokens[k::slots], drawn.confidence[k::slots], None if drawn.q is None else drawn.q[k::slots])
            for k in range(slots)
        ]
        return self.proposal(columns)


class ServedMTP(ServedDrafter):
    """MTP: a causal decoder over its own cache; depth d writes its key at position S-1+d.

    A row's key needs the token after it, which for the newest row is the anchor: rows wait until the next `propose`.
    """

    drafter: MTP

    @torch.no_grad()
    def commit(self, state: DraftState, committed: Committed) -> None:
        """Keep final hidden states [n, H]; the newest of each slot is where its chain starts."""
        slots = committed.slots
        last = torch.cat([slots[1:] != slots[:-1], slots.new_ones(1, dtype=torch.bool)])
        hidden = committed.final_hidden.to(state.newest.dtype)
        state.newest[slots[last]] = hidden[last]
        no_features = committed.features[:, :0]
        state.pending.append(Committed(slots, committed.positions, committed.tokens, no_features, hidden))

    def catch_up(self, state: DraftState, history: Tensor) -> None:
        """Compute depth-0 keys and values of the rows that wait; history [slots, width] has the token after each."""
        rows = _take_pending(state, self._device())
        if rows is not None:
            following = history.to(self._device())[rows.slots, rows.positions + 1]
            self.write(state, rows, [self.drafter.context_keys_values(following, rows.final_hidden, rows.positions)])

    @torch.no_grad()
    def propose(
        self, state: DraftState, anchors: Anchors, slots: int, sampling: Sampling, target_kv: KVCache | None = None
    ) -> Proposal:
        """`slots` depths for each of R requests; each costs one row of the layer and one of the head per request."""
        self.catch_up(state, anchors.history)
        device = self._device()
        tokens, anchored = anchors.tokens.to(device), anchors.positions.to(device)
        hidden = state.newest[anchors.slots]
        drawn = []
        for depth in range(slots):
            row = (anchors.positions - 1).clamp(min=0) + depth  # an anchor without context starts at position 0
            window = CacheWindow.build(anchors.slots, row.unsqueeze(1), row + 1, device)
            hidden = self.drafter.step(
                tokens, hidden, row.to(device), window.attend(state.cache.k[0], state.cache.v[0])
            )
            drawn.append(self.draw(self.drafter.logits(hidden), sampling, anchored + depth + 1, anchored))
            tokens = drawn[-1].tokens
        return self.proposal(drawn)


def serve(drafter: NeuralDrafter, slots: int | None = None, sample: bool = False) -> ServedDrafter:
    """The drafter behind the engine's interface (angelspec.decoding.drafter.Drafter)."""
    kind = ServedMTP if isinstance(drafter, MTP) else ServedBlockDrafter
    return kind(drafter, slots, sample)


def _take_pending(state: DraftState, device: torch.device) -> Committed | None:
    """All rows that wait, as one batch on `device`; none are left."""
    waiting, state.pending = state.pending, []
    if not waiting:
        return None
    columns = ("slots", "positions", "tokens", "features", "final_hidden")
    return Committed(*(torch.cat([getattr(rows, name) for rows in waiting]).to(device) for name in columns))


def _select(rows: Committed, keep: Tensor) -> Committed:
    """The rows where keep [n] (on the CPU) is True."""
    picked = [x[keep.to(x.device)] for x in (rows.slots, rows.positions, rows.tokens, rows.features, rows.final_hidden)]
    return Committed(*picked)
