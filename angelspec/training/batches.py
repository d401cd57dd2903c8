"""From answers on disk to packed batches: data order, packing and anchors, all of it repeatable from a seed and a
position.

A *sequence* is some whole documents laid end to end, at most `max_length` tokens; a *batch* is a number of sequences.
Documents never see each other (see angelspec.data.packing), so a batch is simply all its sequences in one row of
tokens.

Every random choice is keyed by (seed, epoch, sequence): the order of the documents by the epoch, the anchors of a
sequence by its own number. Nothing depends on what was drawn before, on the process that draws, or on a global
generator, so the whole random state of a run is the seed and the position {epoch, sequence}.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Protocol

import torch
from torch import Tensor

from angelspec.data.packing import Document, pack
from angelspec.training.layout import candidate_anchors, sample_anchors
from angelspec.training.types import PackedBatch


class NothingToTrainOn(ValueError):
    """No document has a token that could be learned."""


class DocumentStore(Protocol):
    """Documents by number: angelspec.data.records.AnswerStore, or anything that computes features when asked."""

    def document(self, place: int) -> Document:
        """Document number `place`, with the target's features."""
        ...


@dataclass(frozen=True)
class BatchConfig:
    """sequences: per optimiser step and micro-batch, over all processes. max_length: tokens of a sequence; longer
    documents are cut. anchors: per sequence, uniform without replacement among the tokens that an answer token
    follows. labels: supervised tokens that must follow an anchor inside its document (1 trains on the ends of answers
    too; N asks for whole blocks, as the paper does).
    """

    sequences: int = 2
    max_length: int = 1024
    anchors: int = 64
    labels: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise ValueError(f"{field.name} must be at least 1, got {getattr(self, field.name)}.")


@dataclass
class Position:
    """Where the data order stands: the next sequence to be handed out."""

    epoch: int = 0
    sequence: int = 0


class Batches:
    """Endless batches of one store. `position` is all that a checkpoint needs; assign it to resume."""

    def __init__(
        self, store: DocumentStore, lengths: Sequence[tuple[int, int]], config: BatchConfig, seed: int
    ) -> None:
        """lengths: (prompt tokens, answer tokens) of every document of the store, in order. Documents that have no
        anchor within `max_length` tokens are left out; `dropped` counts them. Raises NothingToTrainOn when none is
        left.
        """
        self.config, self.seed, self.position = config, seed, Position()
        self._store = store
        self._lengths = {
            place: min(prompt + answer, config.max_length)
            for place, (prompt, answer) in enumerate(lengths)
            if _anchor_count(prompt, min(prompt + answer, config.max_length), config.labels) > 0
        }
        self.dropped = len(lengths) - len(self._lengths)
        if not self._lengths:
            raise NothingToTrainOn(
                f"None of {len(lengths)} documents has {config.labels} or more answer tokens after an anchor within"
                f" max_length={config.max_length}: check the answers, or raise max_length."
            )
        self._epoch, self._order = -1, []

    def next(self, rank: int = 0, world: int = 1) -> tuple[PackedBatch, Tensor]:
        """The share of process `rank` of the next batch, and its anchors [A]. All processes must call it equally
        often.
        """
        if self.config.sequences < world:
            raise ValueError(f"sequences={self.config.sequences} cannot be shared by {world} processes; raise it.")
        sequences = [self._advance() for _ in range(self.config.sequences)][rank::world]
        batches = [pack([self._document(place) for place in places]) for places, _ in sequences]
        anchors, offset = [], 0
        for batch, (_, key) in zip(batches, sequences, strict=True):
            candidates = candidate_anchors(batch, self.config.labels)
            anchors.append(sample_anchors(candidates, self.config.anchors, keyed_generator(self.seed, *key)) + offset)
            offset += len(batch)
        return concatenate(batches), torch.cat(anchors)

    def _advance(self) -> tuple[list[int], tuple[int, int]]:
        """Documents of the next sequence, and its key (epoch, sequence)."""
        if self.position.epoch != self._epoch:
            self._epoch, self._order = self.position.epoch, self._arrange(self.position.epoch)
        key = (self.position.epoch, self.position.sequence)
        places = self._order[self.position.sequence]
        last = self.position.sequence + 1 == len(self._order)
        self.position = Position(self._epoch + 1, 0) if last else Position(self._epoch, self.position.sequence + 1)
        return places, key

    def _arrange(self, epoch: int) -> list[list[int]]:
        """Documents of an epoch in random order, cut into sequences of at most max_length tokens (next fit)."""
        places = list(self._lengths)
        order = torch.randperm(len(places), generator=keyed_generator(self.seed, epoch)).tolist()
        sequences, room = [], 0
        for place in (places[i] for i in order):
            if self._lengths[place] > room:
                sequences.append([])
                room = self.config.max_length
            sequences[-1].append(place)
            room -= self._lengths[place]
        return sequences

    def _document(self, place: int) -> Document:
        return self._store.document(place).truncate(self.config.max_length)


def concatenate(batches: Sequence[PackedBatch]) -> PackedBatch:
    """Batches end to end, their documents numbered through."""
    shift, documents = 0, []
    for batch in batches:
        documents.append(batch.documents + shift)
        shift += int(batch.documents[-1]) + 1
    columns = {
        f.name: torch.cat([getattr(b, f.name) for b in batches]) for f in fields(PackedBatch) if f.name != "documents"
    }
    return PackedBatch(documents=torch.cat(documents), **columns)


def _anchor_count(prompt: int, length: int, labels: int) -> int:
    """Rows of a document that angelspec.training.layout.candidate_anchors will find: from the last prompt token on
    (row 0 has no context) to the last one that `labels` answer tokens follow.
    """
    return length - labels - max(prompt - 1, 1)


def keyed_generator(*key: int) -> torch.Generator:
    """A generator that is a function of `key` alone."""
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "little", signed=True))
