"""Compiles ``ops.cpp`` once per machine and torch version, and loads its operators as ``torch.ops.angelspec_cpu``.

The library lies in the cache folder under a name made of everything that decides its code: the sources, the flags, the
compiler, the CPU's instruction sets and the torch version. It is compiled under a temporary name and renamed, so that a
killed or a second process never leaves half a library or a stale lock behind.
"""

from __future__ import annotations

import functools
import hashlib
import platform
import subprocess
from pathlib import Path

import torch

from angelspec.hardware import cxx_compiler_path as find_compiler
from angelspec.io import atomic_path, default_cache_dir

SOURCES = ("ops.cpp", "linear.h", "attention.h", "vector.h")
FLAGS = ("-O3", "-march=native", "-std=c++20", "-fPIC", "-fopenmp", "-shared")


class CompilerMissing(RuntimeError):
    """No C++ compiler: the CPU kernels cannot be built here."""


def cache_folder() -> Path:
    """Where compiled code is kept: beside the fetched targets."""
    return default_cache_dir() / "compiled"


def _cpu_features() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
        return next(line for line in text.splitlines() if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        return platform.processor()


def fingerprint(compiler: str | None = None) -> str:
    """Changes with everything that decides the compiled code: sources, flags, compiler, processor, torch."""
    compiler = compiler or find_compiler() or ""
    folder = Path(__file__).parent
    parts = [(folder / name).read_text() for name in SOURCES]
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    parts += [*FLAGS, version, _cpu_features(), torch.__version__]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _compile(compiler: str, library: Path) -> None:
    from torch.utils.cpp_extension import include_paths, library_paths

    (lib,) = library_paths("cpu")[:1]
    with atomic_path(library) as temporary:
        command = [compiler, *FLAGS, *(f"-I{path}" for path in include_paths("cpu"))]
        command += [str(Path(__file__).parent / "ops.cpp"), "-o", str(temporary), f"-L{lib}", "-lc10", "-ltorch_cpu"]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            raise RuntimeError(
                f"the CPU kernels do not compile with {compiler} (exit {result.returncode}):"
                f" {result.stderr.strip()[-2000:]}\nUse another compiler (CXX=...) or dtype float32, which needs none."
            )


@functools.cache
def load() -> None:
    """Build if needed, load, and register shapes for tracing. Raises CompilerMissing without a compiler."""
    compiler = find_compiler()
    if compiler is None:
        raise CompilerMissing(
            "the CPU kernels need a C++ compiler (g++ or clang++; or name one in CXX): none was found"
        )
    library = cache_folder() / f"angelspec_cpu_{fingerprint(compiler)}.so"
    if not library.exists():
        _compile(compiler, library)
    torch.ops.load_library(str(library))

    @torch.library.register_fake("angelspec_cpu::packed_linear")
    def _(x: torch.Tensor, packed: torch.Tensor, width: int) -> torch.Tensor:
        return x.new_empty(*x.shape[:-1], width)

    @torch.library.register_fake("angelspec_cpu::ragged_attention")
    def _(q, k, v, k_cache, v_cache, slots, positions, scale, window) -> torch.Tensor:  # type: ignore[no-untyped-def]
        return torch.empty_like(q)
