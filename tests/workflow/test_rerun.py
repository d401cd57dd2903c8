"""An edit of library code runs exactly the stages that use it again; an edit of comments runs nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

SNAKEFILE = """
include: "workflow/rules/common.smk"


rule all:
    input:
        "out/left.txt",
        "out/right.txt",


rule left:
    output:
        "out/left.txt",
    params:
        code=code("angelspec/left.py"),
    shell:
        "echo left >> ledger.txt; echo {params.code} > {output}"


rule right:
    output:
        "out/right.txt",
    params:
        code=code("angelspec/right.py"),
    shell:
        "echo right >> ledger.txt; echo {params.code} > {output}"
"""


@pytest.fixture
def two_stages(checkout: Path) -> Path:
    package = checkout / "angelspec"
    (checkout / "Snakefile").write_text(SNAKEFILE)
    (package / "left.py").write_text("from angelspec.below import value\n\nLEFT = value()\n")
    (package / "right.py").write_text("RIGHT = 1\n")
    (package / "below.py").write_text('"""Docstring."""\n\n\ndef value() -> int:\n    return 1\n')
    return checkout


def test_exactly_the_stale_stage_runs_again(two_stages: Path, snakemake: Run) -> None:
    below = two_stages / "angelspec" / "below.py"

    def jobs_run() -> list[str]:
        ledger = two_stages / "ledger.txt"
        ledger.unlink(missing_ok=True)
        result = snakemake(two_stages, "--cores", "2")
        assert result.returncode == 0, result.stdout
        return sorted(ledger.read_text().split()) if ledger.exists() else []

    assert jobs_run() == ["left", "right"]
    below.write_text('"""Another docstring."""\n\n\ndef value() -> int:\n    # a comment\n    return 1\n')
    assert jobs_run() == [], "comments and docstrings do nothing"
    below.write_text("def value() -> int:\n    return 2\n")
    assert jobs_run() == ["left"], "an import two steps down makes the left stage stale, and only that"
