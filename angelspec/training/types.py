"""The three values that travel through training: a packed batch, the draft head, and the hidden states of the drafts.

Everything is a plain dataclass of tensors. One *chain* is one run of N consecutive proposals that is verified from the
left: a block of a block drafter (one per anchor) or the depths of MTP at one position. The losses know chains only,
never the drafter that made them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor


@dataclass(frozen=True)
class PackedBatch:
    """Documents (prompt + answer) laid end to end, with what the target computed while it read them.

    tokens       [S]        int64, token ids in the target's vocabulary
    positions    [S]        int64, position inside the own document, from 0
    documents    [S]        int64, number of the document in this batch, non-decreasing from 0
    supervised   [S]        bool, True where the token was written by the target (an answer token)
    features     [S, T, H]  outputs of the T captured target layers after reading the token at that row
    final_hidden [S, H]     target hidden state after the final norm; the LM head makes the next token's logits of it
    lse          [S]        float32, log-sum-exp of those logits over the whole target vocabulary

    The last token of a document was never fed to the target: its rows of features, final_hidden and lse are zero. No
    context and no teacher ever points at them.
    """

    tokens: Tensor
    positions: Tensor
    documents: Tensor
    supervised: Tensor
    features: Tensor
    final_hidden: Tensor
    lse: Tensor

    def to(self, device: torch.device | str) -> PackedBatch:
        """The same batch with every tensor on `device`."""
        return PackedBatch(**{f.name: getattr(self, f.name).to(device) for f in fields(self)})

    def __len__(self) -> int:
        return self.tokens.numel()


@dataclass(frozen=True)
class DraftHead:
    """The frozen LM head, restricted to the draft vocabulary.

    weight [V_d, H] rows of the target's LM head; d2t [V_d] int64 target id of each draft id; t2d [V] int64 draft id,
    -1 where there is none.
    """

    weight: Tensor
    d2t: Tensor
    t2d: Tensor

    @classmethod
    def restrict(cls, lm_head_weight: Tensor, d2t: Tensor | None = None) -> DraftHead:
        """Head over the target ids `d2t` [V_d] (all of them when None), taken from `lm_head_weight` [V, H]."""
        vocab = lm_head_weight.shape[0]
        if d2t is None:
            identity = torch.arange(vocab, device=lm_head_weight.device)
            return cls(lm_head_weight.detach(), identity, identity)
        t2d = torch.full((vocab,), -1, dtype=torch.int64, device=lm_head_weight.device)
        t2d[d2t] = torch.arange(d2t.numel(), device=lm_head_weight.device)
        return cls(lm_head_weight.detach()[d2t].contiguous(), d2t, t2d)


@dataclass(frozen=True)
class DraftHidden:
    """What a drafter's training forward hands to the losses: C chains of N slots.

    hidden       [C, N, H]  draft hidden states right before the frozen LM head (they carry the gradient)
    labels       [C, N]     int64, the true token of the slot, in the target's vocabulary
    teacher_rows [C, N]     int64, row of PackedBatch.final_hidden whose next-token law is the teacher of the slot
    valid        [C, N]     bool; a chain is valid up to its first False and not beyond. Labels and rows of invalid
                            slots are arbitrary but in range.

    Chain c belongs to anchor c. Slot k = 1..N of the chain with anchor a: label tokens[a+k], teacher row a+k-1. For
    MTP slot k is depth k-1.
    """

    hidden: Tensor
    labels: Tensor
    teacher_rows: Tensor
    valid: Tensor


@runtime_checkable
class TrainableDrafter(Protocol):
    """What the trainer needs of a drafter (an nn.Module)."""

    head: DraftHead

    def training_forward(self, batch: PackedBatch, anchors: Tensor) -> DraftHidden:
        """Draft from every anchor [A] (rows of the batch, increasing): chain c of the result starts at anchor c."""
        ...
