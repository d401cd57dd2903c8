"""Configuration of MTP with test-time training of its depths (AngelSpec, arXiv 2607.25852)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from angelspec.drafters.config import DrafterConfig, target_sizes


@dataclass(frozen=True, kw_only=True)
class MTPConfig(DrafterConfig):
    """One decoder layer of the target's shape, used for every depth. D = block_size - 1 depths are trained."""

    architecture: ClassVar[str] = "AngelSpecMTP"
    model_type: ClassVar[str] = "angelspec_mtp"

    on_policy: bool = True  # depths after the first are fed the drafter's own argmax token; False: the true token

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_layers != 1:
            raise ValueError(f"num_layers is {self.num_layers}; MTP has one layer, used again at every depth.")
        if self.target_layer_ids:
            raise ValueError("target_layer_ids must be empty: MTP reads the target's final hidden state only.")

    @classmethod
    def for_target(
        cls,
        target: Any,
        identity: Mapping[str, Any],
        *,
        depths: int = 4,
        draft_vocab_size: int | None = None,
        **fields: Any,
    ) -> Self:
        """Sizes from the target's Hugging Face config `target`; `fields` are the drafter's own or override a size."""
        sizes = target_sizes(target, identity, draft_vocab_size)
        own = {"num_layers": 1, "target_layer_ids": (), "block_size": depths + 1, "qk_norm": False}
        return cls(**{**sizes, **own, **fields})
