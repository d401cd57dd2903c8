"""MTP: one decoder layer rolled out over depths, trained on its own roll-outs (arXiv 2607.25852)."""

from angelspec.drafters.mtp.config import MTPConfig
from angelspec.drafters.mtp.model import MTP

__all__ = ["MTP", "MTPConfig"]
