"""Facts about the machine: processor, cores, memory, compiler, GPU. Nothing here identifies the machine or its user."""

from __future__ import annotations

import functools
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

_CPUINFO = Path("/proc/cpuinfo")
# The features that decide which matrix kernels run, in the spelling of Linux (x86 and ARM).
NOTEWORTHY_FLAGS = ("avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "bf16", "sve")
NATIVE_BF16_FLAGS = ("avx512_bf16", "amx_bf16", "bf16")


@functools.cache
def cpu_flags() -> tuple[str, ...]:
    """The noteworthy features of this processor; empty where the system does not tell (macOS)."""
    for key, value in _cpuinfo_lines():
        if key in ("flags", "Features"):
            present = set(value.split())
            return tuple(flag for flag in NOTEWORTHY_FLAGS if flag in present)
    return ()


@functools.cache
def cpu_model() -> str:
    """Trade name of the processor, or its architecture when unknown."""
    for key, value in _cpuinfo_lines():
        if key == "model name" and value:
            return value
    if platform.system() == "Darwin":
        name = _output_of("sysctl", "-n", "machdep.cpu.brand_string")
        if name:
            return name
    return platform.processor() or platform.machine()


def available_cores() -> int:
    """Logical cores this process may use: CPU affinity and the cgroup quota (containers, SLURM) respected."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    quota = _cgroup_quota()
    return max(1, min(affinity, int(quota)) if quota else affinity)


def physical_cores() -> int:
    """Physical cores among the available ones: two hyper-threads share one matrix unit, so they count once."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    cores: set[tuple[str, str]] = set()
    entry: dict[str, str] = {}
    for key, value in [*_cpuinfo_lines(), ("processor", "end")]:
        if key == "processor" and "core id" in entry:
            if allowed is None or int(entry["processor"]) in allowed:
                cores.add((entry.get("physical id", "0"), entry["core id"]))
            entry = {}
        entry[key] = value
    if not cores and platform.system() == "Darwin":
        counted = _output_of("sysctl", "-n", "hw.physicalcpu")
        return min(int(counted), available_cores()) if counted.isdecimal() else available_cores()
    return min(len(cores), available_cores()) if cores else available_cores()


def memory_bytes() -> int:
    """Memory of the machine, or the limit of the cgroup where that is lower; 0 when unknown."""
    total = 0
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _read(Path("/sys/fs/cgroup/memory.max"))
    return min(total, int(limit)) if limit.isdecimal() and total else total


def cxx_compiler_path() -> str | None:
    """Path of the C++ compiler torch would call (``$CXX``, else g++, clang++ or c++ on the path), or None."""
    candidates = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "clang++", "c++"]
    return next((path for name in candidates if (path := shutil.which(name))), None)


@functools.cache
def cxx_compiler() -> str | None:
    """Name of that compiler, without its folder, or None."""
    path = cxx_compiler_path()
    return path and Path(path).name


def gpu_names() -> list[str]:
    """Names of the CUDA (or ROCm) devices torch sees; ``["Apple GPU"]`` for MPS."""
    import torch

    if torch.cuda.is_available():
        return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return ["Apple GPU"] if torch.backends.mps.is_available() else []


def describe_hardware() -> dict[str, Any]:
    """The facts that explain a speed; what provenance.json records. Memory in GiB."""
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "cpu": cpu_model(),
        "cpu_flags": list(cpu_flags()),
        "cores": available_cores(),
        "physical_cores": physical_cores(),
        "memory_gib": round(memory_bytes() / 2**30, 1),
        "gpus": gpu_names(),
        "cxx_compiler": cxx_compiler(),
    }


def _cpuinfo_lines() -> list[tuple[str, str]]:
    lines = (line.partition(":") for line in _read(_CPUINFO).splitlines())
    return [(key.strip(), value.strip()) for key, separator, value in lines if separator]


def _cgroup_quota() -> float | None:
    """Cores granted by cgroup v2 ("max 100000" means no limit), or None."""
    quota, _, period = _read(Path("/sys/fs/cgroup/cpu.max")).partition(" ")
    return int(quota) / int(period) if quota.isdecimal() and period.isdecimal() else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _output_of(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
