"""The two ways in which a draft query meets its keys: over a packed batch in training, over a cache at inference.

Both compute, for every query of a block whose anchor sits at position a, ONE softmax over

    [ context keys of the same document at positions < a ; the block's own keys ].

Cost of training attention per layer, D documents of L context rows with P anchors each, n queries per block:
2 * 2 * D * (P*n) * (L + P*m) * heads * hd FLOP forward. The term P*m (m own keys per block) is the price of one dense
call per document: other blocks' keys are computed and masked. No logits are kept where torch has a fused kernel for
masked attention (CPU and CUDA); the mask takes D * (P*n) * (L + P*m) bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from angelspec.drafters.layers import Attend
from angelspec.training.layout import ContextGrid

SPARSE = 3  # gathering a slot's keys and values reads, writes and reads them again; a view reads once


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Grouped-query attention. q [D, n, heads, hd]; k, v [D, m, kv_heads, hd]; mask bool, broadcast to [D, 1, n, m]."""
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    if q.is_cuda:  # the fused CUDA kernels that take a mask want as many key heads as query heads
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True).transpose(1, 2)


def packed_attention(grid: ContextGrid, context_k: Tensor, context_v: Tensor, mask: Tensor) -> Attend:
    """Attention of A blocks to their context in a packed batch and to their own keys.

    context_k, context_v [M, kv_heads, hd] belong to `grid.rows`; mask is `grid.mask(queries, own keys)`. The function
    returned takes q [A, n, heads, hd] and own keys and values [A, m, kv_heads, hd].
    """
    documents, anchors, _ = grid.visible.shape
    context_k, context_v = (x[grid.padded] for x in (context_k, context_v))  # [D, L, kv_heads, hd]

    def place(x: Tensor) -> Tensor:
        """[A, n, h, hd] -> [D, P*n, h, hd]; unused cells are zero."""
        cells = x.new_zeros(documents * anchors, *x.shape[1:]).index_copy(0, grid.cells, x)
        return cells.view(documents, -1, *x.shape[2:])

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys = torch.cat([context_k, place(k)], dim=1)
        values = torch.cat([context_v, place(v)], dim=1)
        out = attention(place(q), keys, values, mask)
        return out.reshape(documents * anchors, *q.shape[1:]).index_select(0, grid.cells)

    return attend


@dataclass(frozen=True)
class CacheWindow:
    """Where R requests read and write a draft cache [slots, max_len, kv_heads, hd]; shared by all layers.

    A block writes its own n keys behind the committed ones, where later tokens will overwrite them, and sees the
    first `visible` rows of its slot: context and own keys lie together, without a copy. The slots of a dense batch
    are read as one view; only when they are scattered over more than `SPARSE` times as many slots are they gathered.

    slots, positions  [R, 1] and [R, n]: cache rows of the own keys
    lines             the cache slots that are read: a slice, or [R]
    places            [R] the request's place among those lines; None when it is the identity
    mask              [lines, 1, 1, width] bool
    """

    slots: Tensor
    positions: Tensor
    lines: slice | Tensor
    places: Tensor | None
    mask: Tensor

    @classmethod
    def build(cls, slots: Tensor, positions: Tensor, visible: Tensor, device: torch.device) -> CacheWindow:
        """slots [R], positions [R, n], visible [R] (at least 1): best on the CPU, so that no device is waited for."""
        low, high, width = int(slots.min()), int(slots.max()) + 1, int(visible.max())
        as_view = high - low <= SPARSE * len(slots)
        places = slots - low if as_view else torch.arange(len(slots), device=slots.device)
        height = high - low if as_view else len(slots)
        # A line without a request sees one row: an all-masked softmax would be NaN.
        reach = torch.ones(height, dtype=torch.int64, device=slots.device).index_copy(0, places, visible)
        mask = torch.arange(width, device=slots.device) < reach.unsqueeze(1)
        identity = height == len(slots) and bool((places.diff() == 1).all())
        return cls(
            slots=slots.unsqueeze(1).to(device),
            positions=positions.to(device),
            lines=slice(low, high) if as_view else slots.to(device),
            places=None if identity else places.to(device),
            mask=mask[:, None, None, :].to(device),
        )

    def attend(self, k_cache: Tensor, v_cache: Tensor) -> Attend:
        """Attention of one layer: q [R, n, heads, hd], own k and v [R, n, kv_heads, hd] -> [R, n, heads, hd]."""

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            k_cache[self.slots, self.positions] = k
            v_cache[self.slots, self.positions] = v
            width = self.mask.shape[-1]
            keys, values = k_cache[self.lines, :width], v_cache[self.lines, :width]
            if self.places is None:
                return attention(q, keys, values, self.mask)
            lines = q.new_zeros(len(self.mask), *q.shape[1:]).index_copy(0, self.places, q)
            return attention(lines, keys, values, self.mask).index_select(0, self.places)

        return attend
