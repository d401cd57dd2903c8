"""The KV cache: one preallocated tensor pair per layer, written in place."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class KVCache:
    """Keys and values of ``slots`` sequences of at most ``max_len`` positions.

    Attributes:
        k, v: per layer one tensor [slots, max_len, kv_heads, head_dim]. Keys are stored after the rotary embedding.

    Nothing is ever cleared: a row at position p sees positions <= p only, and a sequence writes its positions in order,
    so what an earlier owner of the slot or a rejected row left behind is overwritten before it can be seen.
    """

    k: tuple[torch.Tensor, ...]
    v: tuple[torch.Tensor, ...]
    slots: int
    max_len: int

    @classmethod
    def allocate(
        cls,
        layers: int,
        slots: int,
        max_len: int,
        kv_heads: int,
        head_dim: int,
        *,
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> KVCache:
        """Zeros, not empty memory: a masked score is ``-inf + q.k``, which is NaN if k holds a NaN."""
        if slots < 1 or max_len < 1:
            raise ValueError(f"a cache needs at least one slot and one position, got slots={slots}, max_len={max_len}")
        shape = (slots, max_len, kv_heads, head_dim)
        k = tuple(torch.zeros(shape, dtype=dtype, device=device) for _ in range(layers))
        v = tuple(torch.zeros(shape, dtype=dtype, device=device) for _ in range(layers))
        return cls(k, v, slots, max_len)

    def nbytes(self) -> int:
        """Bytes held by all layers."""
        return sum(tensor.nbytes for tensor in (*self.k, *self.v))
