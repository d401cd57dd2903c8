"""Configuration of DFlash (arXiv 2602.06036)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from angelspec.drafters.config import DrafterConfig, target_sizes


@dataclass(frozen=True, kw_only=True)
class DFlashConfig(DrafterConfig):
    """L layers over T captured target layers; the block is one anchor and B-1 copies of the mask token."""

    architecture: ClassVar[str] = "AngelSpecDFlash"
    model_type: ClassVar[str] = "angelspec_dflash"

    mask_token_id: int  # a token that never occurs in text

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.mask_token_id < self.vocab_size:
            raise ValueError(
                f"mask_token_id is {self.mask_token_id}; expected an id of the vocabulary of {self.vocab_size}."
            )
        if not self.target_layer_ids:
            raise ValueError("target_layer_ids is empty; a block drafter reads at least one layer of the target.")

    @classmethod
    def for_target(
        cls, target: Any, identity: Mapping[str, Any], *, draft_vocab_size: int | None = None, **fields: Any
    ) -> Self:
        """Sizes from the target's Hugging Face config `target`; `fields` are the drafter's own or override a size."""
        return cls(**{**target_sizes(target, identity, draft_vocab_size), "qk_norm": True, **fields})
