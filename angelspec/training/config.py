"""Configuration of one training run: plain frozen dataclasses, read strictly from JSON or YAML values."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from angelspec.losses.objective import Objective
from angelspec.training.batches import BatchConfig
from angelspec.training.optim import OptimiserConfig
from angelspec.training.schedule import Schedule


@dataclass(frozen=True)
class Stage:
    """One objective for a share of the budget. Shares are relative: they need not add up to 1."""

    objective: Objective
    share: float = 1.0


BLOCK_STAGES = (Stage(Objective(lk_hybrid=1.0, slots="d-pace"), 0.8), Stage(Objective(e2e=1.0), 0.2))
"""AngelSpec's recipe for block drafters: LK hybrid weighted by D-PACE, then end-to-end TV (arXiv 2607.25852). The
shares are ours.
"""


def mtp_stages(depths: int) -> tuple[Stage, ...]:
    """AngelSpec's end-to-end recipe for MTP: 0.1 CE + TV, averaged depth by depth, plus end-to-end TV of whole
    chains.
    """
    objective = Objective(ce=0.1, tv=1.0, e2e=1.0, depth_weights=(1 / depths,) * depths, complete_chains=True)
    return (Stage(objective),)


@dataclass(frozen=True)
class TrainingConfig:
    """A run ends after `steps`, or after `minutes` of training if that is given and reached first (then speed decides
    how far the run gets, and it can no longer be repeated bit by bit). `accumulate` micro-batches make one step; each
    is normalised on its own over all processes, and their mean is followed. autocast: bfloat16 products where the
    device multiplies bfloat16 natively. checkpoint_every, evaluate_every, in steps (0: never).
    """

    steps: int
    minutes: float | None = None
    batches: BatchConfig = field(default_factory=BatchConfig)
    accumulate: int = 1
    stages: tuple[Stage, ...] = BLOCK_STAGES
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    schedule: Schedule = field(default_factory=Schedule)
    autocast: Literal["auto", "on", "off"] = "auto"
    seed: int = 42
    checkpoint_every: int = 100
    keep_checkpoints: int = 2
    evaluate_every: int = 0

    def __post_init__(self) -> None:
        if self.steps < 1 or self.accumulate < 1 or self.keep_checkpoints < 1:
            raise ValueError(f"steps, accumulate and keep_checkpoints must be at least 1, got {self}.")
        if not self.stages or any(stage.share <= 0 for stage in self.stages):
            raise ValueError("A run needs at least one stage, each with a share above 0.")
        if self.minutes is not None and self.minutes <= 0:
            raise ValueError(f"minutes must be above 0 or null, got {self.minutes}.")

    def objective(self, progress: float) -> Objective:
        """Objective in force when the share `progress` of the budget is used up."""
        total, end = sum(stage.share for stage in self.stages), 0.0
        for stage in self.stages:
            end += stage.share / total
            if progress < end:
                return stage.objective
        return self.stages[-1].objective

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainingConfig:
        """Build from plain values; an unknown key or a value that does not fit is an error that names it."""
        return read_values(cls, values, "training")


def read_values(kind: Any, value: Any, where: str) -> Any:
    """`value` as an instance of the annotated type `kind`."""
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        if not isinstance(value, Mapping):
            raise ValueError(f"{where}: got {value!r}, expected a mapping with some of the keys {', '.join(hints)}.")
        if unknown := sorted(value.keys() - hints.keys()):
            raise ValueError(f"{where}: unknown key {', '.join(unknown)}; known are {', '.join(hints)}.")
        required = {f.name for f in dataclasses.fields(kind) if f.default is f.default_factory is dataclasses.MISSING}
        if missing := sorted(required - value.keys()):
            raise ValueError(f"{where}: {', '.join(missing)} is missing.")
        return kind(**{key: read_values(hints[key], item, f"{where}.{key}") for key, item in value.items()})
    if get_origin(kind) in (types.UnionType, Union):
        return (
            None if value is None else read_values(next(k for k in get_args(kind) if k is not type(None)), value, where)
        )
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise ValueError(f"{where}: got {value!r}, expected one of {list(get_args(kind))}.")
        return value
    if get_origin(kind) is dict:
        if not isinstance(value, Mapping):
            raise ValueError(f"{where}: got {value!r}, expected a mapping.")
        return {str(key): read_values(get_args(kind)[1], item, f"{where}.{key}") for key, item in value.items()}
    if get_origin(kind) is tuple:
        if not isinstance(value, list | tuple):
            raise ValueError(f"{where}: got {value!r}, expected a list.")
        return tuple(read_values(get_args(kind)[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if isinstance(value, bool) != (kind is bool) or not isinstance(value, (int, float) if kind is float else kind):
        raise ValueError(f"{where}: got {value!r}, expected {kind.__name__}.")
    return kind(value)
