"""The two C++ kernels of the CPU path: a linear layer with packed weights, and attention over a slotted KV cache.

They exist because a decoding step on a CPU is bound by reading the weights once, and library products miss that bound
by far when the CPU has no bfloat16 units. Measured on two Zen 3 cores, 576 x 3072: at 1 row 0.20 ms here (18 GB/s),
0.32 ms oneDNN bfloat16, 1.2 ms MKL float32; at 64 rows 2.5 ms, 15.1 ms and 3.6 ms. See ``linear.h`` and
``attention.h`` for how.
"""

from angelspec.kernels.cpu.build import CompilerMissing, find_compiler, load
from angelspec.kernels.cpu.linear import PackedLinear, pack, pack_linears, unpack

HEAD_SIZES = (16, 32, 64, 96, 128)  # the sizes ragged_attention is built for

__all__ = ["HEAD_SIZES", "CompilerMissing", "PackedLinear", "find_compiler", "load", "pack", "pack_linears", "unpack"]
