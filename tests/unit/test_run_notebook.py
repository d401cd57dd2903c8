"""The notebook runner: what goes in is checked, what comes out is whole, and a failure is one line."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUNNER = ROOT / "workflow" / "scripts" / "run_notebook.py"
NOTEBOOK = """\
# ---
# jupyter:
#   kernelspec:
#     display_name: Somebody's
#     language: python
#     name: personal-kernel
# ---
# %% [markdown]
# # Title
# %% tags=["parameters"]
out: str = "x.json"  # where
rate: float = 0.5
words: list = []
task: str | None = None
# %%
import json, os

print("working", flush=True)
if task == "fail":
    raise ValueError("the claim does not hold")
# %%
if task != "write nothing":
    names = ("ANGELSPEC_THREADS", "OMP_NUM_THREADS", "JUPYTER_RUNTIME_DIR")
    with open(out, "w") as file:
        json.dump([rate, words, os.getcwd(), *(os.environ[name] for name in names)], file)
"""


@pytest.fixture(scope="module")
def runner() -> Any:
    specification = importlib.util.spec_from_file_location("run_notebook", RUNNER)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    path = tmp_path / "page.py"
    path.write_text(NOTEBOOK)
    return path


def run(notebook: Path, parameters: dict[str, Any], *more: str) -> subprocess.CompletedProcess[str]:
    folder = notebook.parent
    command = [sys.executable, str(RUNNER), str(notebook), "--parameters", json.dumps(parameters)]
    command += ["--executed", str(folder / "log" / "page.ipynb"), "--html", str(folder / "page.html")]
    command += ["--provenance", str(folder / "page.json"), "--outputs", str(folder / "out.json"), *more]
    environment = {**os.environ, "ANGELSPEC_HEARTBEAT_S": "0.2"}
    return subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=folder, env=environment)


def test_a_run_gives_page_log_data_and_provenance(notebook: Path) -> None:
    folder = notebook.parent
    given = {"out": str(folder / "out.json"), "rate": 1e-4, "words": ["a", 1, None], "task": None}
    result = run(notebook, given, "--threads", "3", "--timed", "--inputs", str(notebook))
    assert result.returncode == 0, result.stderr
    rate, words, cwd, threads, openmp, sockets = json.loads((folder / "out.json").read_text())
    assert (rate, words, threads, openmp) == (1e-4, ["a", 1, None], "3", "3")
    assert Path(cwd) == folder and not Path(sockets).exists(), "the kernel's private folder is removed"
    executed = json.loads((folder / "log" / "page.ipynb").read_text())
    assert executed["metadata"]["kernelspec"]["name"] == "python3"
    assert executed["metadata"]["papermill"]["input_path"] == str(notebook)
    assert "working" in (folder / "page.html").read_text()
    provenance = json.loads((folder / "page.json").read_text())
    assert provenance["config"]["rate"] == 1e-4 and provenance["extra"]["threads"] == 3
    assert str(folder) not in (folder / "page.json").read_text() or folder.is_relative_to(ROOT)
    assert "[page 0:00:00] starts with 3 threads" in result.stderr and "done" in result.stderr
    assert sorted(path.name for path in (folder / "log").iterdir()) == ["page.ipynb"], "no lock is left"


def test_kernels_that_run_at_the_same_time_do_not_meet(tmp_path: Path) -> None:
    """Two runners in one working folder, as the workflow starts them, each with its own sockets."""
    source = NOTEBOOK + "\n# %%\nimport time\ntime.sleep(3)\nprint(sorted(os.listdir()))\n"
    started = []
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(source)
        command = [sys.executable, str(RUNNER), f"{name}.py", "--executed", f"{name}.ipynb", "--html", f"{name}.html"]
        parameters = {"out": f"{name}.out", "rate": 1.0, "words": [name], "task": None}
        command += ["--parameters", json.dumps(parameters), "--provenance", f"{name}.json", "--outputs", f"{name}.out"]
        started.append(subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True))
    for name, process in zip("ab", started, strict=True):
        _, log = process.communicate(timeout=200)
        assert process.returncode == 0, log
        assert json.loads((tmp_path / f"{name}.out").read_text())[:2] == [1.0, [name]]
        assert "ipc" not in (tmp_path / f"{name}.ipynb").read_text().split("time.sleep(3)")[-1]


def test_a_failing_cell_is_one_line_and_the_log_shows_it(notebook: Path) -> None:
    result = run(notebook, {"out": "out.json", "rate": 1, "words": [], "task": "fail"})
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert last.startswith("page.py: cell 3 failed with ValueError: the claim does not hold; open ")
    assert "Traceback" not in result.stderr
    assert "the claim does not hold" in (notebook.parent / "log" / "page.ipynb").read_text()
    assert not (notebook.parent / "page.html").exists() and not (notebook.parent / "page.json").exists()


def test_an_output_that_is_not_of_this_run_is_an_error(runner: Any, tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    old.write_text("{}")
    began = old.stat().st_mtime_ns + 1
    with pytest.raises(runner.NotebookError, match="is older than this run"):
        runner.check_outputs([str(old)], began)
    with pytest.raises(runner.NotebookError, match="ended without writing"):
        runner.check_outputs([str(tmp_path / "none.json")], began)
    runner.check_outputs([str(old)], began - 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rat": 1}, "unknown parameter rat; the notebook declares: out, rate, task, words"),
        ({"rate": ...}, "missing parameter rate; the rule passes: out, task, words"),
    ],
)
def test_parameters_must_be_exactly_those_declared(runner: Any, notebook: Path, change: dict, message: str) -> None:
    given = {"out": "o", "rate": 1, "words": [], "task": None, **change}
    given = {key: value for key, value in given.items() if value is not ...}
    with pytest.raises(runner.NotebookError, match=message):
        runner.check_parameters(runner.read_notebook(notebook), given)


def test_a_notebook_declares_its_parameters_in_one_cell(runner: Any, tmp_path: Path) -> None:
    path = tmp_path / "two.py"
    path.write_text('# %% tags=["parameters"]\na = 1\n# %% tags=["parameters"]\nb = 2\n')
    with pytest.raises(runner.NotebookError, match="2 cells are tagged parameters"):
        runner.declared_parameters(runner.read_notebook(path))


def test_parameters_are_json_text_or_a_json_file(runner: Any, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('{"lr": 1e-4}')
    assert runner.read_parameters(str(tmp_path / "p.json")) == {"lr": 1e-4} == runner.read_parameters('{"lr": 1e-4}')
    with pytest.raises(runner.NotebookError, match="are not JSON"):
        runner.read_parameters("{lr: 1e-4}")
    (tmp_path / "p.json").write_text("[1]")
    with pytest.raises(runner.NotebookError, match="are a list, expected an object"):
        runner.read_parameters(str(tmp_path / "p.json"))


def test_progress_names_the_running_cell_and_its_last_line(runner: Any, notebook: Path) -> None:
    page = runner.read_notebook(notebook)
    assert runner._progress(page) == "the kernel starts"
    cells = [cell for cell in page.cells if cell.cell_type == "code"]
    cells[0].execution_count = 1
    assert runner._progress(page) == "1 of 3 cells done"
    cells[1].metadata["papermill"] = {"status": "running"}
    cells[1].outputs = [type(cells[1])(output_type="stream", name="stdout", text="step 1\nstep 2\n")]
    assert runner._progress(page) == "cell 2/3: step 2"
