"""Ragged attention behind transformers' attention registry, so that no modelling file is forked.

A model whose ``config._attn_implementation`` is ``angelspec_ragged`` calls :func:`ragged_attention_forward` in every
layer. It hands over to the backend named in the context, which writes the new keys and values into the cache and
attends: ``torch`` (anywhere) or ``cpu`` (the C++ kernel of kernels/cpu, float32 activations).

No mask function is registered under the name, on purpose: transformers then skips mask building altogether (with one
it would look for packed sequences in the position ids, which makes a GPU wait in every pass).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from transformers import AttentionInterface

from angelspec.targets.ragged import LayerContext, RaggedContext, Segment

ATTENTION_NAME = "angelspec_ragged"

# (q [n, heads, hd], key, value [n, kv_heads, hd], caches [slots, max_len, kv_heads, hd], context, scale, window)
# -> [n, heads, hd]
Tensors = tuple[torch.Tensor, torch.Tensor]
Backend = Callable[[torch.Tensor, Tensors, Tensors, Any, float, int | None], torch.Tensor]


def torch_attention(
    q: torch.Tensor, new: Tensors, cache: Tensors, context: RaggedContext, scale: float, window: int | None
) -> torch.Tensor:
    """Scaled dot-product attention of n ragged rows against their slots, by padded SDPA calls.

    Row i with slot s and position p attends to k[s, 0..p] and v[s, 0..p] (the last ``window`` of them if given).

    Args:
        q: [n, heads, head_dim].
        new: key and value of the rows, [n, kv_heads, head_dim] each; written into the cache first.
        cache: the layer's keys and values, [slots, max_len, kv_heads, head_dim] each.

    Returns:
        [n, heads, head_dim].
    """
    k, v = cache
    for stored, fresh in zip(cache, new, strict=True):
        stored.view(-1, *stored.shape[2:]).index_copy_(0, context.cache_rows, fresh)
    if len(context.segments) == 1 and context.segments[0].gather is None:
        return _attend(q, k, v, context.segments[0], scale, window)
    out = torch.empty_like(q)
    for segment in context.segments:
        padded = q if segment.gather is None else q.index_select(0, segment.gather)
        answer = _attend(padded, k, v, segment, scale, window)
        out.index_copy_(0, segment.rows, answer.index_select(0, segment.places))
    return out


def _attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, segment: Segment, scale: float, window: int | None
) -> torch.Tensor:
    """One padded call: q [R*M, heads, hd] -> [R*M, heads, hd]. The heads that share a key head become rows."""
    slots, rows, length = segment.shape
    kv_heads, size = k.shape[2], k.shape[3]
    group = q.shape[1] // kv_heads
    keys = k[segment.slots, :length].transpose(1, 2)
    values = v[segment.slots, :length].transpose(1, 2)
    queries = q.reshape(slots, rows, kv_heads, group, size).transpose(1, 2).reshape(slots, kv_heads, rows * group, size)
    out = F.scaled_dot_product_attention(queries, keys, values, attn_mask=segment.masks[window], scale=scale)
    return out.view(slots, kv_heads, rows, group, size).transpose(1, 2).reshape(slots * rows, kv_heads * group, size)


def cpu_attention(
    q: torch.Tensor,
    new: Tensors,
    cache: Tensors,
    context: RaggedContext | LayerContext,
    scale: float,
    window: int | None,
) -> torch.Tensor:
    """The same by the C++ kernel: q, keys and values float32, the cache float32 or bfloat16."""
    key, value = new
    return torch.ops.angelspec_cpu.ragged_attention(
        q.contiguous(),
        key.contiguous(),
        value.contiguous(),
        *cache,
        context.slots,
        context.positions,
        scale,
        window or 0,
    )


BACKENDS: dict[str, Backend] = {"torch": torch_attention, "cpu": cpu_attention}


def ragged_attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    ragged: RaggedContext | LayerContext | None = None,
    sliding_window: int | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """What transformers calls: query [1, heads, n, hd], key and value [1, kv_heads, n, hd] -> [1, n, heads, hd].

    Raises:
        ValueError: when the model is called without a ragged context, or asks for something that changes the softmax.
    """
    if ragged is None:
        raise ValueError(
            "this model's attention reads a KV cache through Target.forward; for a plain transformers call"
            " switch it back first: model.set_attn_implementation('sdpa')"
        )
    for name in ("softcap", "s_aux"):
        if kwargs.get(name) is not None:
            raise ValueError(f"the layer asks for {name!r} attention, which the ragged attention does not do")
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    new = key[0].transpose(0, 1), value[0].transpose(0, 1)
    cache = ragged.layer_cache(module.layer_idx)
    out = BACKENDS[ragged.backend](query[0].transpose(0, 1), new, cache, ragged, scale, sliding_window)
    return out.unsqueeze(0), None


def register() -> None:
    """Make the name known to transformers. Idempotent."""
    AttentionInterface.register(ATTENTION_NAME, ragged_attention_forward)
