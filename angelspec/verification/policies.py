"""allocate(): how many draft rows of each request the target verifies in this step.

A policy is called with survival [R, N] (estimated probability that slots 1..k are all accepted), the batch, and a cost
model or None, and returns int64 [R]. The anchor row is always verified besides. The engine never verifies more than the
batch's limits, so a policy need not look at them.

`looks_at` declares what the choice depends on (`angelspec.decoding.exactness`): "history" for policies that ignore the
current survival, "prefix" when slot k is decided from slots 1..k, "batch" for anything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from angelspec.decoding.exactness import Looks


@dataclass(frozen=True)
class StepBatch:
    """What is known about a step before its draft is verified.

    positions   int64 [R], the anchors' sequence positions (context lengths)
    limits      int64 [R], draft rows that make sense: the answer's remaining length and what the drafter proposed
    other_rows  rows of this step that are not for these requests (prompt chunks)
    """

    positions: Tensor
    limits: Tensor
    other_rows: int = 0


class Policy(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def looks_at(self) -> Looks: ...

    def __call__(self, survival: Tensor, batch: StepBatch, costs: Any = None) -> Tensor: ...


@runtime_checkable
class ChoosesDraft(Protocol):
    """A policy that also says, before anything is drafted, how many tokens the drafter shall propose in a step.

    0 skips the drafter: an autoregressive step, after which the drafter has committed rows to catch up with.
    batch.limits are those of the full draft.
    """

    def draft_slots(self, batch: StepBatch, costs: Any = None) -> int: ...


@dataclass(frozen=True)
class Fixed:
    """The first n draft tokens of every request."""

    n: int
    looks_at: Looks = "history"

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ValueError(f"fixed depth is {self.n}; expected 0 or more draft rows")

    @property
    def name(self) -> str:
        return f"fixed{self.n}"

    def __call__(self, survival: Tensor, batch: StepBatch, costs: Any = None) -> Tensor:
        return torch.full((len(survival),), min(self.n, survival.shape[1]), dtype=torch.int64, device=survival.device)


@dataclass(frozen=True)
class Full:
    """Everything that was drafted."""

    name: str = "full"
    looks_at: Looks = "history"

    def __call__(self, survival: Tensor, batch: StepBatch, costs: Any = None) -> Tensor:
        return torch.full((len(survival),), survival.shape[1], dtype=torch.int64, device=survival.device)


@dataclass(frozen=True)
class Nothing:
    """No draft row: autoregressive steps that still pay for the draft. For tests and for measuring that price."""

    name: str = "none"
    looks_at: Looks = "history"

    def __call__(self, survival: Tensor, batch: StepBatch, costs: Any = None) -> Tensor:
        return torch.zeros(len(survival), dtype=torch.int64, device=survival.device)
