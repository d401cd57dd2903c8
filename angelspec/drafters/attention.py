"""The two ways in which a draft query meets its keys: over a packed batch in training, over a cache at inference.

Both compute, for every query of a block whose anchor sits at position a, ONE softmax over

    [ context keys of the same document at positions < a ; the block's own keys ].

Cost of training attention per layer, D documents of L context rows with P anchors each, n queries per block:
2 * 2 * D * (P*n) * (L + P*m) * heads * hd FLOP forward. The term P*m (m own keys per block) is the price of one dense
call per document: other blocks' keys are computed and masked. No logits are kept where torch has a fused kernel for
masked attention (CPU and CUDA); the mask takes D * (P*n) * (L + P*m) bytes.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from angelspec.drafters.layers import Attend
from angelspec.training.layout import ContextGrid


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Grouped-query attention. q [D, n, heads, hd], k and v [D, m, kv_heads, hd], mask bool broadcast to [D, 1, n, m]."""
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
