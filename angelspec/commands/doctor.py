"""``angelspec doctor``: what this machine has, which scales can run here, and what is missing."""

from __future__ import annotations


def command() -> None:
    """Check this machine: Python, torch, device, compiler, cores, memory, disk, network."""
    from angelspec.device import choose_policy

    print(choose_policy().describe())
