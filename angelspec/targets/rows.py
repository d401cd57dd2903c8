"""What goes into a target's forward pass and what comes out."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Rows:
    """The rows of one forward pass over the whole batch: no padding, any number of rows per request.

    Attributes:
        tokens: int64 [n], the token each row feeds.
        positions: int64 [n], its position in its sequence (also the place in the slot where its key and value go).
        slots: int64 [n], the cache slot of its request. Rows of one slot are contiguous, their positions increase.

    A row sees the cache positions of its slot up to its own, those written in this same pass included. Whatever lies
    at later positions is invisible, so rows that were rejected need no clean-up: they are overwritten later.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor

    def __len__(self) -> int:
        return self.tokens.shape[0]

    @classmethod
    def concatenate(cls, pieces: list[tuple[int, int, list[int]]]) -> Rows:
        """Rows from ``(slot, first position, tokens)`` pieces, one piece per slot, in the given order."""
        tokens = [token for _, _, piece in pieces for token in piece]
        positions = [start + i for _, start, piece in pieces for i in range(len(piece))]
        slots = [slot for slot, _, piece in pieces for _ in piece]
        return cls(*(torch.tensor(values, dtype=torch.int64) for values in (tokens, positions, slots)))


@dataclass(frozen=True)
class Forward:
    """Result of one forward pass over n rows.

    Attributes:
        logits: float32 [len(logit_rows), V], only for the rows asked for (float64 when the target runs in float64).
        features: [n, T, H], outputs of the T named decoder layers (the residual stream), in the order asked for.
        final_hidden: [n, H], after the final norm: what the LM head reads.
    """

    logits: torch.Tensor
    features: torch.Tensor
    final_hidden: torch.Tensor
