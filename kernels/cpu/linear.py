"""Linear layers with packed weights, bfloat16 or float32, and float32 arithmetic on a CPU (the kernel is ``linear.h``).

Cost of one call with ``rows`` inputs: 2 (bfloat16) or 4 (float32) * K * width bytes of weights, read once, and
2 * rows * K * width FLOP.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from angelspec.kernels.cpu.build import load


def pack(weight: Tensor, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Reorder a weight [width, K] into the kernel's panels of 2 * LANES output columns; missing columns are zeros.

    bfloat16: int32 [panels, K, LANES], where the word at [p, k, lane] carries column ``lane`` of panel p in its lower
    and column ``lane + LANES`` in its upper half. float32: float32 [panels, K, 2 * LANES].
    """
    load()
    lanes = torch.ops.angelspec_cpu.lanes()
    width, depth = weight.shape
    panels = -(-width // (2 * lanes))
    if dtype == torch.float32:
        full = torch.zeros(panels * 2 * lanes, depth)
        full[:width] = weight.detach()
        return full.view(panels, 2 * lanes, depth).transpose(1, 2).contiguous()
    if dtype != torch.bfloat16:
        raise ValueError(f"weights can be packed as bfloat16 or float32, not {dtype}")
    bits = torch.zeros(panels * 2 * lanes, depth, dtype=torch.int32)
    bits[:width] = weight.detach().to(torch.bfloat16).view(torch.int16).to(torch.int32) & 0xFFFF
    low, high = bits.view(panels, 2, lanes, depth).unbind(1)  # [panels, LANES, K] each
    return (low | (high << 16)).transpose(1, 2).contiguous()


def unpack(packed: Tensor, width: int) -> Tensor:
    """The weight [width, K] that ``pack`` stored, as bfloat16 or float32."""
    words = packed.transpose(1, 2)  # [panels, LANES or 2 * LANES, K]
    if packed.dtype == torch.float32:
        return words.flatten(0, 1)[:width].contiguous()
    halves = torch.stack([words << 16, words & -65536], dim=1)  # [panels, 2, LANES, K]: float32 bit patterns
    return halves.contiguous().view(torch.float32).flatten(0, 2)[:width].to(torch.bfloat16)


class PackedLinear(nn.Module):
    """Stands in for an ``nn.Linear`` at inference: x [..., K] float32 -> [..., width] float32."""

    packed: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Linear, dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        self.in_features, self.out_features, self.dtype = linear.in_features, linear.out_features, dtype
        self.register_buffer("packed", pack(linear.weight, dtype), persistent=False)
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach().float(), persistent=False)

    @property
    def weight(self) -> Tensor:
        """The weight [width, K], unpacked anew at each call: for inspection and export, not for the hot path."""
        return unpack(self.packed, self.out_features)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.ops.angelspec_cpu.packed_linear(x.contiguous(), self.packed, self.out_features)
        return y if self.bias is None else y + self.bias

    def extra_repr(self) -> str:
        bias = self.bias is not None
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={bias}, weights={self.dtype}"


def pack_linears(model: nn.Module, dtype: torch.dtype = torch.bfloat16) -> int:
    """Replace every ``nn.Linear`` below ``model`` in place; return how many. Tied weights share one packed copy."""
    done: dict[int, PackedLinear] = {}
    count = 0
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is not nn.Linear:
                continue
            key = child.weight.data_ptr()
            if key not in done or child.bias is not None:
                done[key] = PackedLinear(child, dtype)
            setattr(module, name, done[key])
            count += 1
    return count
