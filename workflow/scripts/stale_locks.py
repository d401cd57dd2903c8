"""Make the plain command work after a kill: remove Snakemake's locks when the run that made them is dead.

A killed Snakemake leaves ``.snakemake/locks``, and the next run stops with LockException. Those files do not say whose
they are. So each run holds a shared ``flock`` for its whole life (the kernel drops it with the process); a run that can
have that lock alone for a moment knows that nobody else is alive, and clears what it finds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from pathlib import Path

_held: list[int] = []  # open descriptors: closing one would drop the lock


def hold_and_clear(folder: str | Path = ".snakemake") -> bool:
    """Join the runs of this working folder; returns whether stale locks were removed."""
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    descriptor = os.open(folder / "angelspec.alive", os.O_RDWR | os.O_CREAT, 0o644)
    _held.append(descriptor)
    removed = False
    locks = folder / "locks"
    if any(locks.glob("*.lock")) and _alone(descriptor):
        shutil.rmtree(locks)
        locks.mkdir()
        removed = True
        print("removed the locks of a run that was killed", file=sys.stderr)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return removed


def _alone(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
