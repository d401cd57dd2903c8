"""Learning rate as a function of progress: a pure function, so that there is no scheduler state to save.

Progress x in [0, 1] is the share of the budget that is used up. With r = lowest / highest rate and warm-up share w:

    warm-up   x < w            lr = x / w                                       (all schedules)
    constant                   lr = 1
    cosine    y = (x-w)/(1-w)  lr = r + (1-r) (1 + cos(pi y)) / 2
    WSD       x < 1-d          lr = 1                                           warm-up, stable, decay
              else             lr = r + (1-r) (1 - sqrt((x - (1-d)) / d))
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Schedule:
    """Shape of the learning rate. `warmup` and `decay` are shares of the budget, `floor` is the lowest rate over the
    highest.
    """

    shape: Literal["cosine", "wsd", "constant"] = "cosine"
    warmup: float = 0.04
    decay: float = 0.2
    floor: float = 0.1

    def __post_init__(self) -> None:
        if self.shape not in ("cosine", "wsd", "constant"):
            raise ValueError(f"schedule {self.shape!r} is unknown; use cosine, wsd or constant.")
        if not (0 <= self.warmup < 1 and 0 < self.decay <= 1 - self.warmup and 0 <= self.floor <= 1):
            raise ValueError(
                f"A schedule needs 0 <= warmup < 1, 0 < decay <= 1 - warmup and 0 <= floor <= 1, got {self}."
            )

    def factor(self, progress: float, step_share: float = 0.0) -> float:
        """Learning rate at `progress`, as a factor of the highest rate. `step_share` (one step's share of the budget)
        keeps the very first step of a warm-up from being wasted on a rate of zero.
        """
        if progress < self.warmup:
            return min(1.0, (progress + step_share) / self.warmup)
        match self.shape:
            case "cosine":
                y = min(1.0, (progress - self.warmup) / (1 - self.warmup))
                return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * y)) / 2
            case "wsd" if progress > 1 - self.decay:
                y = min(1.0, (progress - (1 - self.decay)) / self.decay)
                return self.floor + (1 - self.floor) * (1 - math.sqrt(y))
        return 1.0
