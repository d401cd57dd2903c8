"""Prompt lookup decoding (Saxena, 2023): the training-free control.

The last n committed tokens are searched for in the text before them; the tokens that followed their latest earlier
occurrence are proposed. The longest n that occurs wins.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from angelspec.decoding.categorical import Sampling
from angelspec.decoding.drafter import Anchors, Committed
from angelspec.decoding.exactness import DraftLooks
from angelspec.decoding.proposal import Proposal
from angelspec.targets.cache import KVCache


class NGramDrafter:
    """Looks for n-grams of max_n down to min_n tokens. Its only state is the committed text, which the engine holds."""

    name = "ngram"
    layer_ids: tuple[int, ...] = ()
    looks_at = DraftLooks("deterministic", "history")

    def __init__(self, slots: int = 7, max_n: int = 3, min_n: int = 1) -> None:
        if slots < 1 or not 1 <= min_n <= max_n:
            raise ValueError(
                f"slots {slots}, min_n {min_n}, max_n {max_n}; expected slots >= 1 and 1 <= min_n <= max_n"
            )
        self.slots, self.max_n, self.min_n = slots, max_n, min_n

    def new_state(self, target: Any, slots: int, max_len: int) -> None:
        return None

    def reset(self, state: None, slots: Tensor) -> None:
        pass

    def propose(self, state: None, anchors: Anchors, slots: int, sampling: Sampling, target_kv: KVCache) -> Proposal:
        """The same confidence in every slot: n / (n + 1) for a match of n tokens."""
        width = int(anchors.positions.max()) + 1
        text = anchors.history[anchors.slots, :width]
        size, follows = self._match(text, anchors.positions)
        length = anchors.positions + 1
        # Copying past the anchor repeats the period: after "a b a b" the match one "a b" back gives "a b a b ...".
        period = (length - follows).clamp(min=1)
        source = follows.unsqueeze(1) + torch.arange(slots, device=text.device) % period.unsqueeze(1)
        tokens = text.gather(1, source.clamp(max=width - 1))
        confidence = (size / (size + 1.0)).unsqueeze(1).expand(-1, slots)
        return Proposal(tokens, confidence.float(), lengths=torch.where(size > 0, slots, 0))

    def commit(self, state: None, committed: Committed) -> None:
        pass

    def _match(self, text: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        """n of the longest n-gram at the end that occurred before (0: none), and the index behind it, both [R]."""
        requests, width = text.shape
        place = torch.arange(width, device=text.device)
        run = torch.ones_like(text, dtype=torch.bool)  # run[r, i]: the n tokens that end at i equal the last n
        size = torch.zeros_like(last)
        follows = torch.zeros_like(last)
        for n in range(1, self.max_n + 1):
            wanted = text.gather(1, (last - n + 1).clamp(min=0).unsqueeze(1))
            shifted = text.roll(n - 1, 1)  # shifted[r, i] = text[r, i - n + 1]
            run = run & (shifted == wanted) & (place >= n - 1)
            earlier = run & (place < last.unsqueeze(1))
            found = earlier.any(1) & (n >= self.min_n)
            latest = torch.where(earlier, place, -1).amax(1)
            size = torch.where(found, n, size)
            follows = torch.where(found, latest + 1, follows)
        return size, follows
