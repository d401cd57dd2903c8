"""Mistakes in the configuration end the real workflow with one line; all scales of it validate."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("sceed=1", "config: sceed: unknown key, did you mean seed?"),
        ("scale=labtop", "config: scale: 'labtop' is a str, expected one of smoke, laptop,"),
        (
            "sampling={temperature: 1e-4}",
            "config: sampling.temperature: '1e-4' is a str, expected a number; YAML reads",
        ),
        ("seed=-1", "config: seed: -1 is less than the minimum of 0"),
    ],
)
def test_a_mistake_is_one_readable_line(shared_checkout: Path, snakemake: Run, given: str, expected: str) -> None:
    result = snakemake(shared_checkout, "--dry-run", "--cores", "1", "--config", given)
    told = [line for line in result.stdout.splitlines() if not line.startswith(("Using workflow", "Config file"))]
    assert result.returncode == 1
    assert len(told) == 1, result.stdout
    assert told[0].startswith(expected)
    assert "Traceback" not in result.stdout
