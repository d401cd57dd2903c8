"""Configuration of DFly (AngelSpec, arXiv 2607.25852) and of its ablations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from angelspec.drafters.dflash.config import DFlashConfig


@dataclass(frozen=True, kw_only=True)
class DFlyConfig(DFlashConfig):
    """DFlash, plus a context of its own for every layer, plus a head that knows the token before its slot.

    `fusion` and `head` are independent switches: without both, DFly is DFlash.
    """

    architecture: ClassVar[str] = "AngelSpecDFly"
    model_type: ClassVar[str] = "angelspec_dfly"

    fusion: bool = True
    head: Literal["correction", "markov", "none"] = "correction"
    head_size: int | None = None  # width I of the correction, rank r of the Markov head; None: H, or 256

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head not in ("correction", "markov", "none"):
            raise ValueError(f"head is {self.head!r}; expected correction, markov or none.")
        if self.fusion and self.num_layers < 1:
            raise ValueError(f"num_layers is {self.num_layers}; expected at least 1.")
