"""DFlash: a whole block from one pass over the target's hidden states (arXiv 2602.06036)."""

from angelspec.drafters.dflash.config import DFlashConfig
from angelspec.drafters.dflash.model import DFlash

__all__ = ["DFlash", "DFlashConfig"]
