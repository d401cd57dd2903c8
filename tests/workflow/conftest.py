"""A throw-away copy of the repository's code, and ways to run Snakemake in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
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


class Run:
    """One run of Snakemake in the background."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder, self.log = folder, folder / f"run-{time.monotonic_ns()}.log"
        with self.log.open("w") as stream:
            self.process = subprocess.Popen(
                [*SNAKEMAKE, *arguments], cwd=folder, env=environment(), stdout=stream, stderr=subprocess.STDOUT
            )

    def wait_for(self, what: Callable[[], object]) -> None:
        deadline = time.monotonic() + 200
        while not what():
            assert self.process.poll() is None, f"ended early:\n{self.log.read_text()}"
            assert time.monotonic() < deadline, f"waited in vain:\n{self.log.read_text()}"
            time.sleep(0.02)

    def kill(self, whom: str) -> None:
        for process in processes(self.folder):
            if role(process) == whom:
                process.kill()

    def end(self) -> tuple[int, str]:
        return self.process.wait(timeout=280), self.log.read_text()


def processes(folder: Path) -> list[psutil.Process]:
    """Everything alive that works in ``folder``, this test apart."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.status() != "zombie" and Path(process.cwd()) == folder:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def role(process: psutil.Process) -> str:
    try:
        words = " ".join(process.cmdline())
    except psutil.Error:
        return "gone"
    return "kernel" if "ipykernel" in words else "runner" if "run_notebook.py" in words else "snakemake"


def nobody_left(folder: Path) -> bool:
    deadline = time.monotonic() + 5
    while processes(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not processes(folder)
