"""What the engine asks of a drafter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from angelspec.decoding.categorical import Sampling
from angelspec.decoding.exactness import DraftLooks
from angelspec.decoding.proposal import Proposal
from angelspec.targets.cache import KVCache


@dataclass(frozen=True)
class Anchors:
    """The R requests to draft for. The anchor is the last committed token; the target has not read it yet.

    tokens, positions, slots   int64 [R]: anchor token, its sequence position S, its row in every per-slot table
    history                    int64 [slots, width]: history[slot, :S + 1] is the committed text of a slot; read only.
                               What lies behind is left over from rejected drafts
    """

    tokens: Tensor
    positions: Tensor
    slots: Tensor
    history: Tensor


@dataclass(frozen=True)
class Committed:
    """Rows of newly committed tokens that the target has read: n rows, those of one slot in order, without gaps.

    slots, positions, tokens   int64 [n]
    features                   [n, T, H]: outputs of the drafter's layer_ids; final_hidden [n, H]: after the final norm
    """

    slots: Tensor
    positions: Tensor
    tokens: Tensor
    features: Tensor
    final_hidden: Tensor


class Drafter(Protocol):
    """Proposes tokens. All state is per slot, lives in what `new_state` returns, and is passed in.

    The engine calls `reset` when a slot changes hands, `commit` after every step with the rows that step committed
    (prompt rows included), and `propose` when it wants drafts. A drafter may do its work on committed rows late, at the
    next `propose`: steps that do not draft then cost it nothing. `propose` must leave no trace of its drafts in the
    state: they may all be rejected.
    """

    name: str
    slots: int  # N, tokens proposed at most; 0 means that it is never asked
    layer_ids: tuple[int, ...]  # target layers whose outputs `commit` wants
    looks_at: DraftLooks

    def new_state(self, target: Any, slots: int, max_len: int) -> Any:
        """State for `slots` sequences of at most `max_len` tokens."""

    def reset(self, state: Any, slots: Tensor) -> None:
        """Forget the sequences of these slots, int64 [n]."""

    def propose(self, state: Any, anchors: Anchors, slots: int, sampling: Sampling, target_kv: KVCache) -> Proposal:
        """`slots` tokens for each request; `target_kv` is the target's cache, to look at."""

    def commit(self, state: Any, committed: Committed) -> None:
        """Take in the rows of one step."""
