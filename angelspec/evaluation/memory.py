"""Peak memory of a stretch of a run."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

_PROC = Path("/proc/self")


def reset_peak(device: torch.device) -> None:
    """Forget the peak so far. Where the system cannot (no /proc, or not permitted), the peak of the process remains."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    try:
        (_PROC / "clear_refs").write_text("5")  # 5 resets the high-water mark, see proc(5)
    except OSError:
        return


def peak_bytes(device: torch.device) -> int:
    """Peak bytes since the last reset: allocated by torch on a GPU, resident in this process elsewhere."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        lines = (_PROC / "status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration, ValueError):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
