"""The target: an unmodified transformers causal LM with a ragged forward pass over a KV cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from angelspec.targets import attention
from angelspec.targets.cache import KVCache
from angelspec.targets.ragged import build_context
from angelspec.targets.rows import Forward, Rows
from angelspec.targets.spec import UnsupportedTarget
from angelspec.targets.support import attention_windows, check_supported


@dataclass(frozen=True)
class TargetDims:
    """The sizes a drafter needs to know about its target."""

    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    intermediate_size: int
    rope_parameters: dict[str, Any]
    rms_norm_eps: float

    @classmethod
    def from_config(cls, config: Any) -> TargetDims:
        heads = config.num_attention_heads
        return cls(
            hidden_size=config.hidden_size,
            num_layers=config.num_hidden_layers,
            num_heads=heads,
            num_kv_heads=getattr(config, "num_key_value_heads", None) or heads,
            head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
            vocab_size=config.vocab_size,
            intermediate_size=config.intermediate_size,
            rope_parameters=dict(config.rope_parameters),
            rms_norm_eps=config.rms_norm_eps,
        )


def default_layer_ids(num_layers: int, count: int) -> tuple[int, ...]:
    """``count`` decoder layers spread from layer 1 to the third last: round(1 + i * (num_layers - 4) / (count - 1)).

    Layer id k is the OUTPUT of decoder layer k, ``hidden_states[k + 1]`` in transformers' numbering. The rule is that
    of AngelSpec's released drafters (arXiv 2607.25852): 36 layers and 5 features give 1, 9, 17, 25, 33.

    Raises:
        ValueError: when the layers are too few for ``count`` different ids.
    """
    last = num_layers - 3
    ids = (max(last, 0),) if count == 1 else tuple(round(1 + i * (num_layers - 4) / (count - 1)) for i in range(count))
    if count < 1 or len(set(ids)) != count or ids[0] < 0 or ids[-1] >= num_layers or list(ids) != sorted(ids):
        raise ValueError(f"{num_layers} layers cannot give {count} different features by the default rule: got {ids}")
    return ids


class Target:
    """A causal LM and its tokenizer. Weights are read-only; all state lives in the KV caches the caller holds."""

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        identity: Mapping[str, str],
        *,
        backend: str = "torch",
        cache_dtype: torch.dtype | None = None,
    ) -> None:
        """Switch ``model`` (any supported transformers causal LM, in eval mode) to the ragged attention.

        Raises:
            UnsupportedTarget: when the architecture does something the ragged forward would silently get wrong.
            ValueError: for an unknown attention backend.
        """
        if backend not in attention.BACKENDS:
            raise ValueError(f"attention backend {backend!r} is unknown; there is {', '.join(attention.BACKENDS)}")
        check_supported(model)
        attention.register()
        model.set_attn_implementation(attention.ATTENTION_NAME)
        self.model = model.eval().requires_grad_(False)
        self.config = model.config
        self.tokenizer = tokenizer
        self.identity = dict(identity)
        self.dims = TargetDims.from_config(model.config)
        self.backend = backend
        self.embed_tokens: nn.Embedding = model.get_input_embeddings()
        self.lm_head: nn.Module = model.get_output_embeddings()
        self.layers: nn.ModuleList = model.base_model.layers
        self.final_norm: nn.Module = model.base_model.norm
        self.device: torch.device = self.embed_tokens.weight.device
        self.dtype: torch.dtype = self.final_norm.weight.dtype
        self.cache_dtype = cache_dtype or self.dtype
        self.compile_seconds = 0.0  # spent by load_target on compiling for this process; 0 when the cache had it
        self.compiled = False
        self.eos_ids = _eos_ids(model, tokenizer)
        self.windows = attention_windows(model.config)
        if backend != "torch" and self.windows != (None,):
            raise UnsupportedTarget(f"sliding-window layers need the torch attention backend, got {backend!r}")
        self._taps = _LayerTaps(self.layers)

    def new_cache(self, slots: int, max_len: int) -> KVCache:
        """An empty cache for ``slots`` sequences of at most ``max_len`` positions (what the model was made for)."""
        limit = getattr(self.config, "max_position_embeddings", None)
        if limit is not None and max_len > limit:
            raise ValueError(f"max_len {max_len} is beyond the target's {limit} positions; use at most that")
        d = self.dims
        return KVCache.allocate(
            d.num_layers, slots, max_len, d.num_kv_heads, d.head_dim, dtype=self.cache_dtype, device=self.device
        )

    @torch.no_grad()
    def forward(
        self,
        rows: Rows,
        cache: KVCache,
        *,
        logit_rows: torch.Tensor | None = None,
        layer_ids: tuple[int, ...] = (),
    ) -> Forward:
        """Run n rows through the model, writing their keys and values into ``cache``.

        Args:
            rows: tokens, positions and slots [n]; on the CPU for best speed.
            logit_rows: int64 indices into the n rows whose logits are wanted; None = all rows, empty = none.
            layer_ids: decoder layers (0-based) whose outputs are returned as features.

        Raises:
            ValueError: rows that do not fit the cache, an unknown layer id.
        """
        self._check_layer_ids(layer_ids)
        heads_per_kv = self.dims.num_heads // self.dims.num_kv_heads
        context = build_context(rows, cache, backend=self.backend, heads_per_kv=heads_per_kv, windows=self.windows)
        self._taps.select(layer_ids)
        tokens, n = rows.tokens.to(self.device), len(rows)
        if self.compiled and n == 1:  # a compiled layer takes at least two rows; the second one repeats the first
            tokens, context = tokens.repeat(2), context.repeated(2)
        hidden = self.model.base_model(
            input_ids=tokens.unsqueeze(0), position_ids=context.positions.unsqueeze(0), use_cache=False, ragged=context
        ).last_hidden_state[0, :n]
        wanted = hidden if logit_rows is None else hidden.index_select(0, logit_rows.to(self.device))
        logits = self.lm_head(wanted)
        return Forward(
            logits=logits if logits.dtype == torch.float64 else logits.float(),
            features=self._taps.collect(hidden),
            final_hidden=hidden,
        )

    def _check_layer_ids(self, layer_ids: tuple[int, ...]) -> None:
        wrong = [k for k in layer_ids if type(k) is not int or not 0 <= k < self.dims.num_layers]
        if wrong or len(set(layer_ids)) != len(layer_ids):
            raise ValueError(
                f"layer ids {layer_ids!r}: expected different integers in 0..{self.dims.num_layers - 1}"
                " (0 = output of the first decoder layer)"
            )


class _LayerTaps:
    """Forward hooks on the named decoder layers. They stay in place until other layers are asked for."""

    def __init__(self, layers: nn.ModuleList) -> None:
        self._layers = layers
        self._ids: tuple[int, ...] = ()
        self._handles: list[Any] = []
        self._captured: dict[int, torch.Tensor] = {}

    def select(self, layer_ids: tuple[int, ...]) -> None:
        self._captured.clear()
        if layer_ids == self._ids:
            return
        for handle in self._handles:
            handle.remove()
        self._handles = [self._layers[k].register_forward_hook(self._hook(k)) for k in layer_ids]
        self._ids = layer_ids

    def _hook(self, layer_id: int) -> Any:
        def keep(module: nn.Module, args: Any, output: Any) -> None:
            self._captured[layer_id] = output[0] if isinstance(output, tuple) else output

        return keep

    def collect(self, like: torch.Tensor) -> torch.Tensor:
        """Features [n, T, H] of the pass that just ran; the references to the layers' outputs are dropped."""
        if not self._ids:
            return like.new_empty(like.shape[0], 0, like.shape[1])
        features = torch.stack([self._captured[k][0, : like.shape[0]] for k in self._ids], dim=1)
        self._captured.clear()
        return features


def _eos_ids(model: nn.Module, tokenizer: Any) -> tuple[int, ...]:
    """Every token that ends an answer, by the generation config, the model config or the tokenizer."""
    found: set[int] = set()
    for source in (getattr(model, "generation_config", None), model.config, tokenizer):
        value = getattr(source, "eos_token_id", None)
        if value is not None:
            found.update(value if isinstance(value, list | tuple) else [value])
    return tuple(sorted(found))
