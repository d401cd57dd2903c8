"""Autoregressive decoding as a drafter, so that a speed-up is measured against the same engine, sampler and batch."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from angelspec.decoding.categorical import Sampling
from angelspec.decoding.drafter import Anchors, Committed
from angelspec.decoding.exactness import DraftLooks
from angelspec.decoding.proposal import Proposal
from angelspec.targets.cache import KVCache


class ARDrafter:
    """Proposes nothing and remembers nothing."""

    name = "ar"
    slots = 0
    layer_ids: tuple[int, ...] = ()
    looks_at = DraftLooks("deterministic", "history")

    def new_state(self, target: Any, slots: int, max_len: int) -> None:
        return None

    def reset(self, state: None, slots: Tensor) -> None:
        pass

    def propose(self, state: None, anchors: Anchors, slots: int, sampling: Sampling, target_kv: KVCache) -> Proposal:
        return Proposal.empty(len(anchors.tokens), anchors.tokens.device)

    def commit(self, state: None, committed: Committed) -> None:
        pass
