"""AR: the drafter that proposes nothing."""

from angelspec.drafters.ar.model import ARDrafter

__all__ = ["ARDrafter"]
