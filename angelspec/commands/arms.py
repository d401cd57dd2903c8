"""From the words on the command line to arms and drafters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from angelspec.decoding.drafter import Drafter
    from angelspec.targets.model import Target

TRAINING_FREE = ("ar", "ngram")
_FIXED = re.compile(r"(?P<arm>.+)-fixed(?P<slots>\d+)")


@dataclass(frozen=True)
class ArmChoice:
    """An arm by name: what drafts ("ar", "ngram" or a folder), and how many tokens at most (None: all it can)."""

    name: str
    source: str
    slots: int | None = None

    def drafter(self, target: Target, sample: bool = False) -> Drafter:
        """A new drafter; sample: draw drafts from the draft distribution (rule B)."""
        from angelspec.decoding.api import named_drafter

        return named_drafter(self.source, target, sample=sample, slots=self.slots)


def parse_arm(text: str) -> ArmChoice:
    """`ar`, `ngram`, `dfly=<folder>`, or a folder; a name that ends in -fixed<N> drafts N tokens.

    Raises ValueError for an unknown name and for a folder that is no trained drafter.
    """
    name, _, folder = text.strip().partition("=")
    fixed = _FIXED.fullmatch(name)
    base, slots = (fixed["arm"], int(fixed["slots"])) if fixed else (name, None)
    if not folder and base in TRAINING_FREE:
        return ArmChoice(name, base, slots)
    source = folder or name
    if not (Path(source) / "config.json").is_file():
        known = ", ".join(TRAINING_FREE)
        raise ValueError(
            f"arm {source!r} is unknown; there is {known}, or the folder of a trained drafter (dfly=folder)"
        )
    return ArmChoice(name if folder else Path(source).name, source, slots)
