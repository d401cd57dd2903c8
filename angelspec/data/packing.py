"""Packing: several documents end to end in one row of tokens, and no way to see across the border between two.

Documents are kept apart in three places, and all three are needed: *attention* (a query sees its own document only),
*positions* (each document starts at 0, so that rotary angles are those of the document alone) and *labels* (the token
after the last one of a document is no label of it). With them a packed row computes exactly what its documents compute
one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from angelspec.training.types import PackedBatch

IGNORED = -100  # the label that torch.nn.functional.cross_entropy leaves out by default


@dataclass(frozen=True)
class Document:
    """A prompt with its answer, and what the target computed while it read them.

    tokens       [n]         int64 ids of prompt + answer
    supervised   [n]         bool, true where the target wrote the token
    features     [n-1, T, H] layer outputs after reading token t; the last token was never fed to the target
    final_hidden [n-1, H]    after the final norm
    lse          [n-1]       float32 log-sum-exp of the logits
    """

    tokens: Tensor
    supervised: Tensor
    features: Tensor
    final_hidden: Tensor
    lse: Tensor

    def __post_init__(self) -> None:
        n = len(self.tokens)
        lengths = {
            "supervised": (len(self.supervised), n),
            "features": (len(self.features), n - 1),
            "final_hidden": (len(self.final_hidden), n - 1),
            "lse": (len(self.lse), n - 1),
        }
        for name, (found, expected) in lengths.items():
            if found != expected:
                raise ValueError(f"A document of {n} tokens needs {expected} rows of {name}; it has {found}.")

    def __len__(self) -> int:
        return len(self.tokens)

    def truncate(self, length: int) -> Document:
        """The first `length` tokens. The row of the new last token is dropped, as for every last token."""
        if length >= len(self):
            return self
        kept = length - 1
        return Document(
            self.tokens[:length],
            self.supervised[:length],
            self.features[:kept],
            self.final_hidden[:kept],
            self.lse[:kept],
        )


def plan_bins(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Which documents share a row: first fit, longest first. Returns indices into `lengths`, every one exactly once.

    First-fit decreasing needs at most 11/9 of the fewest possible rows, plus one. The plan depends on the lengths
    alone, so that it can be made again after a restart.

    Raises ValueError for a document that is empty or longer than `capacity` (truncate or drop it before).
    """
    if capacity < 1:
        raise ValueError(f"The capacity of a row must be at least 1 token; it is {capacity}.")
    for index, length in enumerate(lengths):
        if not 1 <= length <= capacity:
            raise ValueError(
                f"Document {index} has {length} tokens and a row takes 1 to {capacity}: truncate or drop it."
            )
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    bins: list[list[int]] = []
    free: list[int] = []
    for index in order:
        place = next((place for place, room in enumerate(free) if lengths[index] <= room), len(bins))
        if place == len(bins):
            bins.append([])
            free.append(capacity)
        bins[place].append(index)
        free[place] -= lengths[index]
    return [sorted(members) for members in bins]


def pack(documents: Sequence[Document]) -> PackedBatch:
    """Lay documents end to end: S = sum of their lengths. Rows of last tokens (never fed to the target) are zero."""
    if not documents:
        raise ValueError("There is no document to pack.")
    sizes = torch.tensor([len(document) for document in documents])
    return PackedBatch(
        tokens=torch.cat([document.tokens for document in documents]).long(),
        positions=torch.cat([torch.arange(int(size)) for size in sizes]),
        documents=torch.repeat_interleave(torch.arange(len(documents)), sizes),
        supervised=torch.cat([document.supervised for document in documents]).bool(),
        features=_with_last_row([document.features for document in documents]),
        final_hidden=_with_last_row([document.final_hidden for document in documents]),
        lse=_with_last_row([document.lse for document in documents]),
    )


def attention_allowed(documents: Tensor, positions: Tensor) -> Tensor:
    """[S, S] bool, true where the query of row i may see the key of row j: same document, and not later than i."""
    same = documents[:, None] == documents[None, :]
    return same & (positions[None, :] <= positions[:, None])


def shifted_labels(batch: PackedBatch, shift: int) -> Tensor:
    """[S] label of each row: the token `shift` places on, or IGNORED where that leaves the document or is unsupervised.

    shift 1 is next-token prediction; a block drafter's slot k takes shift k from its anchor; MTP depth d takes 1 + d.
    """
    if shift < 1:
        raise ValueError(f"A label lies at least one token ahead; shift is {shift}.")
    labels = torch.full_like(batch.tokens, IGNORED)
    if shift >= len(batch):
        return labels
    inside = batch.documents[shift:] == batch.documents[:-shift]
    taught = inside & batch.supervised[shift:]
    labels[:-shift] = torch.where(taught, batch.tokens[shift:], labels[:-shift])
    return labels


def _with_last_row(parts: Sequence[Tensor]) -> Tensor:
    """Concatenate, each part followed by one row of zeros."""
    padded = [tensor for part in parts for tensor in (part, part.new_zeros((1, *part.shape[1:])))]
    return torch.cat(padded)
