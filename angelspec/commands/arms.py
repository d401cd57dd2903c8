"""From the name of an arm on the command line to its drafter."""

from __future__ import annotations

from collections.abc import Callable

from angelspec.decoding.drafter import Drafter
from angelspec.drafters.ar import ARDrafter
from angelspec.drafters.ngram import NGramDrafter

TRAINING_FREE: dict[str, Callable[[], Drafter]] = {"ar": ARDrafter, "ngram": NGramDrafter}


def make_drafter(arm: str) -> Drafter:
    """The drafter of an arm. Raises ValueError for an unknown name."""
    if arm not in TRAINING_FREE:
        raise ValueError(f"arm {arm!r} is unknown; there is {', '.join(TRAINING_FREE)}")
    return TRAINING_FREE[arm]()
