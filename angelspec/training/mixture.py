"""Which answers a drafter is trained on: domains in given shares, up to a budget of answer tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from angelspec.data.packing import Document
from angelspec.data.records import AnswerRecord
from angelspec.training.batches import DocumentStore, keyed_generator


class Selection:
    """Some documents of a store, numbered from 0."""

    def __init__(self, store: DocumentStore, places: Sequence[int]) -> None:
        self._store, self._places = store, list(places)

    def __len__(self) -> int:
        return len(self._places)

    def document(self, place: int) -> Document:
        return self._store.document(self._places[place])


def choose_answers(
    records: Sequence[AnswerRecord], weights: Mapping[str, float] | None, answer_tokens: int | None, seed: int
) -> list[int]:
    """Places of the chosen records, increasing.

    weights: domain -> share of the answer tokens (any scale; None takes all domains as they come). Without a budget,
    every record of a domain with a weight above 0 is taken. With one, each domain gives random records until its share
    is reached, and all it has when that is less. Raises ValueError for a domain without records.
    """
    domains = sorted({record.domain for record in records})
    if weights is None:
        groups = {None: range(len(records))}
        shares: dict[str | None, float] = {None: 1.0}
    else:
        shares = {name: weight for name, weight in weights.items() if weight > 0}
        groups = {name: [i for i, record in enumerate(records) if record.domain == name] for name in shares}
        if absent := [name for name, group in groups.items() if not group]:
            raise ValueError(
                f"There is no answer in the domain {', '.join(absent)}; the answers hold {', '.join(domains)}."
            )
    chosen: list[int] = []
    for number, (name, group) in enumerate(groups.items()):
        budget = None if answer_tokens is None else answer_tokens * shares[name] / sum(shares.values())
        order = torch.randperm(len(group), generator=keyed_generator(seed, number)).tolist()
        spent = 0
        for place in (group[i] for i in order):
            if budget is not None and spent >= budget:
                break
            chosen.append(place)
            spent += len(records[place].response_ids)
    return sorted(chosen)
