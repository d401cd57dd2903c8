"""A throw-away copy of the repository's code, and ways to run Snakemake in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("Snakefile", "angelspec", "config", "kernels", "notebooks", "profiles", "workflow", "environment.yml")
SNAKEMAKE = [sys.executable, "-m", "snakemake"]


def copy_checkout(folder: Path) -> Path:
    """What a fresh clone has, without results, caches and history."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        else:
            shutil.copy(source, folder / part)
    return folder


def environment() -> dict[str, str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("ANGELSPEC_", "PYTHONPATH"))}
    kept = {key: os.environ[key] for key in ("ANGELSPEC_CACHE",) if key in os.environ}
    return {**clean, **kept, "ANGELSPEC_HEARTBEAT_S": "1", "HF_HUB_OFFLINE": "1"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return copy_checkout(tmp_path / "angelspec")


@pytest.fixture(scope="module")
def shared_checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_checkout(tmp_path_factory.mktemp("checkout") / "angelspec")


@pytest.fixture(scope="session")
def snakemake() -> Callable[..., subprocess.CompletedProcess[str]]:
    """``snakemake(folder, *arguments)`` runs it there to the end; the output is text, both streams together."""

    def run(folder: Path, *arguments: str, timeout: float = 280) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*SNAKEMAKE, *arguments],
            cwd=folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
        )

    return run
