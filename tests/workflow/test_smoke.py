"""The real workflow at scale smoke, from the bare command to the report."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .conftest import copy_checkout

Run = Callable[..., subprocess.CompletedProcess[str]]
SMOKE = ("--cores", "2", "--config", "scale=smoke")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, snakemake: Run) -> Iterator[Path]:
    """A copy of the repository in which the bare command has run; the target comes from this machine's cache."""
    folder = copy_checkout(tmp_path_factory.mktemp("smoke") / "angelspec")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANGELSPEC_CACHE", os.environ.get("ANGELSPEC_CACHE") or str(Path.home() / ".cache" / "angelspec"))
        result = snakemake(folder, *SMOKE)
        assert result.returncode == 0, result.stdout[-4000:]
        assert "steps (100%) done" in result.stdout, "the bare command ran nothing"
        yield folder


def test_pages_answers_and_numbers_are_there(finished: Path) -> None:
    results = finished / "results" / "smoke"
    for source in (finished / "notebooks").glob("[0-9]*.py"):
        page = (results / "notebooks" / f"{source.stem}.html").read_text()
        provenance = json.loads((results / "provenance" / f"{source.stem}.json").read_text())
        assert "<html" in page and len(provenance["code_digest"]) == 64
        executed = json.loads((finished / "logs" / "smoke" / f"{source.stem}.ipynb").read_text())
        assert not [
            out for cell in executed["cells"] for out in cell.get("outputs", []) if out["output_type"] == "error"
        ]
    shards = sorted(path.name for path in (results / "answers" / "train").glob("answers-*.parquet"))
    assert shards == ["answers-00000.parquet", "answers-00001.parquet"]
    rows = json.loads((results / "summary.json").read_text())
    assert {row["scale"] for row in rows} == {"smoke"} and {"machine"} <= {row["claim"] for row in rows}
    for path in results.rglob("*.svg"):
        assert path.with_suffix(".pdf").is_file() and path.stat().st_size > 1000


def test_a_second_run_has_nothing_to_do_and_an_edit_runs_its_stage(finished: Path, snakemake: Run) -> None:
    source = finished / "angelspec" / "plotting" / "style.py"
    before = source.read_text()
    source.write_text(before + "\n\n# a remark\n")
    assert "Nothing to be done" in snakemake(finished, *SMOKE, "--dry-run").stdout
    source.write_text(before + "\n\nNEW = 1\n")
    plan = snakemake(finished, *SMOKE, "--dry-run", "--quiet", "host", "reason", "rules").stdout
    source.write_text(before)
    stages = {line.split()[0] for line in plan.splitlines() if line.split()[1:] and line.split()[1].isdigit()}
    pages = {"primer", "data_specialization", "machine"}
    assert pages <= stages, "all pages draw figures"
    assert not stages & {"prompts", "answer_shard", "fetch_target"}, "answers do not depend on the figures' style"


def test_the_report_has_figures_with_captions(finished: Path, snakemake: Run) -> None:
    result = snakemake(finished, *SMOKE, "--report", "report.html")
    assert result.returncode == 0, result.stdout
    text = (finished / "report.html").read_text()
    for caption in (finished / "workflow" / "report").glob("*.rst"):
        words = " ".join(caption.read_text().replace("*", "").split()[:3])
        if caption.name != "workflow.rst":
            assert words.split()[-1] in text and caption.stem in text.replace("-", "_") or words in text, caption.name


@pytest.mark.parametrize("scale", ["laptop", "reference", "overnight", "gpu", "paper"])
def test_every_scale_can_be_planned(finished: Path, snakemake: Run, scale: str) -> None:
    if scale == "paper":
        pytest.skip("thousands of shards take minutes to plan; its block is validated in test_config")
    result = snakemake(finished, "--cores", "2", "--config", f"scale={scale}", "--dry-run", "--quiet")
    assert result.returncode == 0, result.stdout[-2000:]


def test_the_linter_is_content(finished: Path, snakemake: Run) -> None:
    result = snakemake(finished, "--lint")
    assert result.returncode == 0, result.stdout
    assert "Congratulations" in result.stdout
