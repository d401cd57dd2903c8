"""The real workflow at scale smoke, from the bare command to the report."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .conftest import Run, copy_checkout, nobody_left

Snakemake = Callable[..., subprocess.CompletedProcess[str]]
PAGES = {"00_primer": "primer", "01_data_specialization": "data_specialization", "09_machine": "machine"}  # rule
pytestmark = pytest.mark.timeout(560)  # the first test of this module waits for the whole run
SMOKE = ("--cores", "2", "--config", "scale=smoke")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the repository in which the bare command was killed once and then ran to the end.

    The target comes from this machine's cache, so that nothing is downloaded twice.
    """
    folder = copy_checkout(tmp_path_factory.mktemp("smoke") / "angelspec")
    results = folder / "results" / "smoke" / "answers"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANGELSPEC_CACHE", os.environ.get("ANGELSPEC_CACHE") or str(Path.home() / ".cache" / "angelspec"))
        first = Run(folder, *SMOKE)
        first.wait_for(lambda: "(Rule: answer_shard)" in first.log.read_text())
        done = {path: path.stat().st_mtime_ns for path in results.rglob("answers-*.parquet")}
        time.sleep(random.Random(20260727).uniform(0.0, 8.0))  # somewhere in the next shard or page
        first.process.kill()
        first.end()
        assert done and nobody_left(folder)
        second = Run(folder, *SMOKE)
        status, text = second.end()
        assert status == 0, text[-4000:]
        assert "removed the locks of a run that was killed" in text and "steps (100%) done" in text
        assert {path: path.stat().st_mtime_ns for path in done} == done, "a finished shard was answered again"
        assert nobody_left(folder)
        yield folder


def test_pages_answers_and_numbers_are_there(finished: Path) -> None:
    results = finished / "results" / "smoke"
    for name in PAGES:
        page = (results / "notebooks" / f"{name}.html").read_text()
        provenance = json.loads((results / "provenance" / f"{name}.json").read_text())
        assert "<html" in page and len(provenance["code_digest"]) == 64
        executed = json.loads((finished / "logs" / "smoke" / f"{name}.ipynb").read_text())
        assert not [
            out for cell in executed["cells"] for out in cell.get("outputs", []) if out["output_type"] == "error"
        ]
    shards = sorted(path.name for path in (results / "answers" / "train").glob("answers-*.parquet"))
    assert shards == ["answers-00000.parquet"]
    rows = json.loads((results / "summary.json").read_text())
    assert {row["scale"] for row in rows} == {"smoke"} and {"machine"} <= {row["claim"] for row in rows}
    for path in results.rglob("*.svg"):
        assert path.with_suffix(".pdf").is_file() and path.stat().st_size > 1000


def test_a_second_run_has_nothing_to_do_and_an_edit_runs_its_stage(finished: Path, snakemake: Snakemake) -> None:
    source = finished / "angelspec" / "plotting" / "style.py"
    before = source.read_text()
    source.write_text(before + "\n\n# a remark\n")
    assert "Nothing to be done" in snakemake(finished, *SMOKE, "--dry-run").stdout
    source.write_text(before + "\n\nNEW = 1\n")
    plan = snakemake(finished, *SMOKE, "--dry-run", "--quiet", "host", "reason", "rules").stdout
    source.write_text(before)
    stages = {line.split()[0] for line in plan.splitlines() if line.split()[1:] and line.split()[1].isdigit()}
    assert set(PAGES.values()) <= stages, "all pages draw figures"
    assert not stages & {"prompts", "answer_shard", "fetch_target"}, "answers do not depend on the figures' style"


def test_the_report_has_every_figure_with_its_caption(finished: Path, snakemake: Snakemake) -> None:
    result = snakemake(finished, *SMOKE, "--report", "report.html")
    assert result.returncode == 0, result.stdout
    text = (finished / "report.html").read_text()
    for figure in (finished / "results" / "smoke" / "figures").glob("*.svg"):
        assert figure.name in text
        caption = finished / "workflow" / "report" / f"{figure.stem[3:]}.rst"
        assert " ".join(caption.read_text().split()[:5]) in text, f"caption of {figure.name}"


def test_a_big_scale_can_be_planned(finished: Path, snakemake: Snakemake) -> None:
    result = snakemake(finished, "--cores", "2", "--config", "scale=gpu", "--dry-run", "--quiet")
    assert result.returncode == 0, result.stdout[-2000:]


def test_the_linter_is_content(finished: Path, snakemake: Snakemake) -> None:
    result = snakemake(finished, "--lint")
    assert result.returncode == 0, result.stdout
    assert "Congratulations" in result.stdout
