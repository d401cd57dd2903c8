"""DFly: DFlash with a context per layer and a predecessor-conditioned head (arXiv 2607.25852)."""

from angelspec.drafters.dfly.config import DFlyConfig
from angelspec.drafters.dfly.model import DFly

__all__ = ["DFly", "DFlyConfig"]
