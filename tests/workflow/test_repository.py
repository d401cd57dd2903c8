"""What holds the workflow together besides code: paired notebooks, pins, sizes, profiles."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SYNC = [sys.executable, str(ROOT / "workflow" / "scripts" / "sync_notebooks.py")]
SOURCES = sorted((ROOT / "notebooks").glob("[0-9]*.py"))


def test_notebooks_are_in_step_with_their_sources() -> None:
    result = subprocess.run([*SYNC, "--check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_a_pair_out_of_step_is_noticed_and_repaired(tmp_path: Path) -> None:
    (tmp_path / "01_a.py").write_text('# %% tags=["parameters"]\na = 1\n# %% [markdown]\n# text\n')
    (tmp_path / "02_gone.ipynb").write_text("{}")
    command = [*SYNC, "--folder", str(tmp_path)]
    first = subprocess.run([*command, "--check"], capture_output=True, text=True)
    assert first.returncode == 1
    assert "01_a.ipynb is missing" in first.stderr and "02_gone.ipynb has no source" in first.stderr
    (tmp_path / "02_gone.ipynb").unlink()
    assert subprocess.run(command).returncode == 0
    page = json.loads((tmp_path / "01_a.ipynb").read_text())
    assert [cell["cell_type"] for cell in page["cells"]] == ["code", "markdown"]
    assert page["cells"][0]["metadata"] == {"tags": ["parameters"]} and page["cells"][0]["outputs"] == []
    assert page["metadata"]["kernelspec"]["name"] == "python3"
    page["cells"][0]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["x"]}]
    (tmp_path / "01_a.ipynb").write_text(json.dumps(page))
    assert subprocess.run([*command, "--check"], capture_output=True).returncode == 1


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_notebook_is_short_and_checks_its_claims(source: Path) -> None:
    cells = [cell for cell in source.read_text().split("\n# %%") if not cell.startswith(" [markdown]")][1:]
    assert len(cells) <= 25
    assert max(sum(bool(line.strip()) for line in cell.splitlines()[1:]) for cell in cells) <= 25
    assert "assert " in cells[-1], "the last cell asserts the claims of the page"
    assert source.read_text().count('tags=["parameters"]') == 1


def test_the_jobs_environment_has_the_pins_of_the_lock() -> None:
    lock = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    lock = {name.lower().replace("_", "-"): version for name, version in lock.items()}
    document = yaml.safe_load((ROOT / "workflow" / "envs" / "angelspec.yaml").read_text())
    pins = [line for entry in document["dependencies"] if isinstance(entry, dict) for line in entry["pip"]]
    named = dict(line.split(";")[0].strip().split("==") for line in pins if "==" in line)
    assert {name: lock.get(name.lower()) for name in named} == named
    project = (ROOT / "pyproject.toml").read_text().partition("dependencies = [")[2].partition("]")[0]
    direct = {re.split(r"[<>=;\[ ]", line)[0] for line in re.findall(r'"([^"]+)"', project)}
    assert set(named) == direct


def test_sizes() -> None:
    assert len((ROOT / "Snakefile").read_text().splitlines()) <= 60
    for path in (ROOT / "workflow" / "rules").glob("*.smk"):
        assert len(path.read_text().splitlines()) <= 150, path.name


def test_every_rule_says_what_it_needs() -> None:
    for path in (ROOT / "workflow" / "rules").glob("*.smk"):
        for rule in re.split(r"^rule ", path.read_text(), flags=re.MULTILINE)[1:]:
            name = rule.split(":")[0]
            for word in ("log:", "conda:", "threads:", "mem_mb=", "disk_mb=", "runtime="):
                assert word in rule, f"{path.name}: rule {name} has no {word}"
            assert "code=code(" in rule or name == "fetch_target", f"rule {name} does not see changes of its code"


def test_profiles_hold_only_options_that_snakemake_has() -> None:
    from snakemake.cli import get_argument_parser

    known = {word.lstrip("-") for action in get_argument_parser()._actions for word in action.option_strings}
    for path in (ROOT / "profiles").glob("*/profile.yaml"):
        assert set(yaml.safe_load(path.read_text())) <= known, path
    assert yaml.safe_load((ROOT / "profiles/default/profile.yaml").read_text())["rerun-incomplete"] is True
