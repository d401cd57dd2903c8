"""Which architectures the ragged forward computes exactly. Everything else is refused, never guessed."""

from __future__ import annotations

from typing import Any

from torch import nn

from angelspec.targets.spec import UnsupportedTarget

# Config fields that change logits or attention outside the path Target.forward takes, with their neutral values.
_MUST_BE_NEUTRAL = {
    "final_logit_softcapping": (None,),
    "attn_logit_softcapping": (None,),
    "logits_scaling": (None, 1, 1.0),
    "logit_scale": (None, 1, 1.0),
    "kv_lora_rank": (None,),
    "num_kv_shared_layers": (None, 0),
}
_LAYER_TYPES = {"full_attention", "sliding_attention"}


def check_supported(model: nn.Module) -> None:
    """Raise :class:`UnsupportedTarget` with the reason if ``model`` cannot be a target."""
    name, config = type(model).__name__, model.config
    base = getattr(model, "base_model", None)
    if not getattr(model, "_supports_attention_backend", False):
        raise UnsupportedTarget(f"{name} does not route its attention through transformers' attention registry")
    parts = {part: getattr(base, part, None) for part in ("embed_tokens", "layers", "norm")}
    parts["lm_head"] = model.get_output_embeddings()
    missing = [part for part, module in parts.items() if not isinstance(module, nn.Module)]
    if missing:
        raise UnsupportedTarget(f"{name} is not a plain decoder: it has no {', '.join(missing)}")
    for field, neutral in _MUST_BE_NEUTRAL.items():
        value = getattr(config, field, None)
        if value not in neutral:
            raise UnsupportedTarget(f"{name} has {field}={value!r}, which the ragged forward does not compute")
    other = sorted(set(getattr(config, "layer_types", None) or ()) - _LAYER_TYPES)
    if other:
        raise UnsupportedTarget(
            f"{name} has layers of type {', '.join(other)}; only full and sliding attention have a KV cache here"
        )


def attention_windows(config: Any) -> tuple[int | None, ...]:
    """The sliding windows that occur in the model's layers; None stands for full attention."""
    window = getattr(config, "sliding_window", None)
    if window is None or getattr(config, "use_sliding_window", True) is False:
        return (None,)
    types = getattr(config, "layer_types", None)
    if types is None:
        return (window, None)
    return tuple({window if kind == "sliding_attention" else None for kind in types})
