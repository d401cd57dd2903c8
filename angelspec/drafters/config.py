"""What a drafter is: every size and convention that its folder's config.json states.

One frozen dataclass per method, all derived from DrafterConfig. Sizes come from the target, never from a table of
known models. The JSON form is complete (no defaults are filled in at load) and versioned, and a key that is not known
is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

FORMAT_VERSION = 1
BLOCK_CONVENTION = (
    "block_size counts the anchor: 1 anchor + (block_size - 1) proposals, slot k predicts position anchor + k"
)


@dataclass(frozen=True, kw_only=True)
class DrafterConfig:
    """Fields of every drafter. `block_size` is B: the anchor and N = B-1 proposals (for MTP, N depths)."""

    architecture: ClassVar[str]
    model_type: ClassVar[str]

    hidden_size: int  # H, the target's
    intermediate_size: int  # width of the SwiGLU of a layer
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int  # V, the target's
    draft_vocab_size: int  # V_d; equal to V when there is no draft vocabulary
    rms_norm_eps: float
    hidden_act: str
    rope_parameters: dict[str, Any]  # as in transformers: rope_type, rope_theta, ...
    max_position_embeddings: int
    num_layers: int  # L
    qk_norm: bool  # RMS-normalise queries and keys per head
    block_size: int  # B
    target_layer_ids: tuple[int, ...]  # T captured layers; id k is the OUTPUT of decoder layer k, 0-based
    target: dict[str, Any]  # identity of the target: kind, name, revision, digest

    def __post_init__(self) -> None:
        if self.block_size < 2:
            raise ValueError(f"block_size is {self.block_size}; expected at least 2: the anchor and one proposal.")
        if self.num_heads % self.num_kv_heads:
            raise ValueError(f"{self.num_heads} query heads cannot share {self.num_kv_heads} key/value heads evenly.")
        if not 1 <= self.draft_vocab_size <= self.vocab_size:
            raise ValueError(f"draft_vocab_size is {self.draft_vocab_size}; expected 1 to {self.vocab_size}.")

    @property
    def proposals(self) -> int:
        """N, tokens proposed per block."""
        return self.block_size - 1

    def to_dict(self) -> dict[str, Any]:
        """The content of config.json."""
        head = {
            "architectures": [self.architecture],
            "model_type": self.model_type,
            "format_version": FORMAT_VERSION,
            "block_convention": BLOCK_CONVENTION,
        }
        return head | {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Read config.json strictly: this architecture, this version, exactly these keys."""
        values = dict(json.loads(json.dumps(raw)))  # plain JSON types, and a copy
        for key, expected in (
            ("architectures", [cls.architecture]),
            ("model_type", cls.model_type),
            ("format_version", FORMAT_VERSION),
            ("block_convention", BLOCK_CONVENTION),
        ):
            found = values.pop(key, None)
            if found != expected:
                raise ValueError(
                    f"config.json: {key} is {found!r}, expected {expected!r}; convert or retrain the drafter."
                )
        known = {field.name for field in fields(cls)}
        if values.keys() != known:
            missing, unknown = sorted(known - values.keys()), sorted(values.keys() - known)
            raise ValueError(f"config.json of a {cls.model_type}: missing keys {missing}, unknown keys {unknown}.")
        values["target_layer_ids"] = tuple(values["target_layer_ids"])
        return cls(**values)


def target_sizes(config: Any, identity: Mapping[str, Any], draft_vocab_size: int | None = None) -> dict[str, Any]:
    """The fields of DrafterConfig that the target decides, from its Hugging Face `config`.

    A target whose layer types rotate differently (sliding and full attention) gives the parameters of full attention:
    the drafter attends over everything.
    """
    heads = config.num_attention_heads
    rope = dict(config.rope_parameters)
    rope = dict(rope["full_attention"]) if "full_attention" in rope else rope
    return {
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_heads": heads,
        "num_kv_heads": getattr(config, "num_key_value_heads", None) or heads,
        "head_dim": getattr(config, "head_dim", None) or config.hidden_size // heads,
        "vocab_size": config.vocab_size,
        "draft_vocab_size": draft_vocab_size or config.vocab_size,
        "rms_norm_eps": getattr(config, "rms_norm_eps", 1e-6),
        "hidden_act": getattr(config, "hidden_act", "silu"),
        "rope_parameters": rope,
        "max_position_embeddings": config.max_position_embeddings,
        "target": dict(identity),
    }
