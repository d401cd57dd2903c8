"""Run one notebook for the workflow: parameters in, declared outputs, HTML, provenance and the executed notebook out.

    python workflow/scripts/run_notebook.py notebooks/09_machine.py \
        --parameters '{"scale": "smoke"}' --executed logs/09_machine.ipynb --html out.html --provenance out.json \
        --outputs out/rows.json --threads 2

The source is the percent-format ``.py`` (an ``.ipynb`` works too). The executed notebook is a *log*: it survives a
failure with the failing cell in it. Everything else appears whole, or not at all.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # a bare checkout has nothing installed

from angelspec.io import is_alive  # noqa: E402
from angelspec.jobs import (  # noqa: E402
    PARENT,
    Heartbeat,
    LockBusy,
    die_with_parent,
    exclusive,
    machine,
    skip_uri_grammar,
    use_threads,
)

KERNEL, LANGUAGE = "python3", "python"
HEARTBEAT_S = float(os.environ.get("ANGELSPEC_HEARTBEAT_S", "10"))
START_TIMEOUT_S = 300  # a cold import of torch from a slow disk
_SCRATCH_PREFIX = "angelspec-kernel-"
_KERNEL_CODE = (
    "from angelspec.jobs import die_with_parent; die_with_parent(); "
    "from ipykernel.kernelapp import launch_new_instance; launch_new_instance()"
)


class NotebookError(RuntimeError):
    """The notebook cannot be run, or did not do what it was asked to. One line for the user."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    die_with_parent()
    signal.signal(signal.SIGTERM, _stop)
    use_threads(options.threads)
    skip_uri_grammar()
    try:
        with exclusive(f"{options.executed}.lock") as lock, machine(alone=options.timed):
            run(options, lock)
    except (NotebookError, LockBusy) as error:
        print(f"{Path(options.notebook).name}: {error}", file=sys.stderr)
        return 1
    return 0


def run(options: argparse.Namespace, lock: Path) -> None:
    """Execute, check, render, record. ``lock`` is a file that was written when the work began."""
    started = time.monotonic()
    began_ns = lock.stat().st_mtime_ns  # the file system's own clock, which decides what counts as newer
    parameters = read_parameters(options.parameters)
    notebook = read_notebook(options.notebook)
    check_parameters(notebook, parameters)
    with _private_jupyter():
        executed = execute(notebook, parameters, options.executed, options.notebook)
    check_outputs([path for path in options.outputs if path not in (options.html, options.provenance)], began_ns)
    from angelspec.io import atomic_write_text
    from angelspec.provenance import write_provenance

    if options.html:
        atomic_write_text(options.html, render(executed, Path(options.notebook).stem))
    if options.provenance:
        write_provenance(
            options.provenance,
            config=parameters,
            seeds=parameters.get("seed"),
            inputs=[options.notebook, *options.inputs],
            extra={"notebook": options.notebook, "threads": options.threads, "timed": options.timed},
            duration_s=time.monotonic() - started,
        )


def read_parameters(given: str) -> dict[str, Any]:
    """JSON text, or the name of a JSON file. JSON and not YAML: there 1e-4 is a text and ``on`` a boolean."""
    text = given if given.lstrip().startswith("{") else Path(given).read_text(encoding="utf-8")
    try:
        parameters = json.loads(text)
    except json.JSONDecodeError as error:
        raise NotebookError(f"the parameters are not JSON ({error}): {text[:80]}") from None
    if not isinstance(parameters, dict):
        raise NotebookError(f"the parameters are a {type(parameters).__name__}, expected an object of names and values")
    return parameters


def read_notebook(path: str | Path) -> Any:
    """The notebook without outputs, with the one kernel that is used here."""
    import jupytext

    notebook = jupytext.read(path)
    notebook.metadata["kernelspec"] = {"name": KERNEL, "display_name": "Python 3", "language": LANGUAGE}
    notebook.metadata["language_info"] = {"name": LANGUAGE}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def declared_parameters(notebook: Any) -> set[str]:
    """Names assigned in the cell tagged ``parameters``; empty without such a cell."""
    tagged = [cell.source for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    if len(tagged) > 1:
        raise NotebookError(f"{len(tagged)} cells are tagged parameters, expected one")
    nodes = ast.walk(ast.parse("\n".join(tagged)))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def check_parameters(notebook: Any, parameters: dict[str, Any]) -> None:
    """What is passed must be exactly what the cell tagged ``parameters`` declares.

    papermill only warns about an unknown name, and keeps a default silently when a name is missing: both would give
    numbers that the configuration does not describe.
    """
    declared = declared_parameters(notebook)
    unknown, missing = sorted(set(parameters) - declared), sorted(declared - set(parameters))
    if unknown:
        raise NotebookError(f"unknown parameter {', '.join(unknown)}; the notebook declares: {_names(declared)}")
    if missing:
        raise NotebookError(f"missing parameter {', '.join(missing)}; the rule passes: {_names(parameters)}")


def execute(notebook: Any, parameters: dict[str, Any], executed: str | Path, source: str) -> Any:
    """Run all cells with papermill; the growing notebook is written to ``executed``. Returns the executed notebook.

    Raises:
        NotebookError: a cell failed, or the kernel died; says which cell and where the notebook is.
    """
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.engines import NBClientEngine, papermill_engines
    from traitlets.config import Config

    class ObservedEngine(NBClientEngine):
        """papermill's engine. Keeps the manager, from which the heartbeat reads the running cell."""

        @classmethod
        def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **kwargs: Any) -> Any:
            seen.append(nb_man)
            nb_man.nb.metadata.papermill["input_path"] = source  # papermill stores the whole notebook there
            return super().execute_managed_notebook(nb_man, kernel_name, **kwargs)

    seen: list[Any] = []
    papermill_engines.register("observed", ObservedEngine)
    logging.getLogger("papermill").setLevel(logging.ERROR)  # its check of parameters does not read all type comments
    Path(executed).parent.mkdir(parents=True, exist_ok=True)
    # TCP ports of kernels that start together collide now and then. So do sockets, unless they are named: a manager
    # without a connection file calls them kernel-ipc-1, -2, ... in the working folder, which all kernels share.
    ipc = {"transport": "ipc", "ip": str(Path(os.environ["JUPYTER_RUNTIME_DIR"]) / "k")}
    with Heartbeat(Path(source).stem, lambda: _progress(seen[-1].nb if seen else notebook), HEARTBEAT_S) as heart:
        heart.say(f"starts with {os.environ['ANGELSPEC_THREADS']} threads")
        try:
            result = papermill.execute_notebook(
                notebook,
                str(executed),
                parameters=parameters,
                engine_name="observed",
                kernel_name=KERNEL,
                language=LANGUAGE,
                progress_bar=False,
                start_timeout=START_TIMEOUT_S,
                cwd=str(Path.cwd()),
                config=Config({"KernelManager": ipc, "AsyncKernelManager": ipc}),
            )
        except papermill.PapermillExecutionError as error:
            reason = f"{error.ename}: {' '.join(error.evalue.split())[:300]}"
            raise NotebookError(f"cell {error.exec_count} failed with {reason}; open {executed} to see it") from None
        except (DeadKernelError, RuntimeError) as error:  # a RuntimeError if it dies before the first cell
            if not isinstance(error, DeadKernelError) and "Kernel died" not in str(error):
                raise
            where = _progress(seen[-1].nb if seen else notebook)
            raise NotebookError(f"the kernel died ({where}): out of memory, or killed; see {executed}") from None
        heart.say("done")
    return result


def check_outputs(paths: Sequence[str], began_ns: int) -> None:
    """Every declared output exists and is of this run, not left over from another."""
    for path in paths:
        if not os.path.exists(path):
            raise NotebookError(f"the notebook ended without writing {path}, which the rule declares as its output")
        if os.stat(path).st_mtime_ns < began_ns:
            raise NotebookError(f"{path} is older than this run: the notebook did not write it")


def render(notebook: Any, title: str) -> str:
    """The executed notebook as one HTML page."""
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(template_name="lab", exclude_input_prompt=True, exclude_output_prompt=True)
    return exporter.from_notebook_node(notebook, resources={"metadata": {"name": title}})[0]


@contextlib.contextmanager
def _private_jupyter() -> Iterator[None]:
    """A kernel of *this* interpreter that dies with us, and a short place for its sockets, through Jupyter's variables.

    A ``python3`` kernel spec in the user's home would otherwise win and run another environment. Socket names are
    limited to about 100 characters, so the place is the temporary folder and not the results.
    """
    base = Path(tempfile.gettempdir())
    for left in base.glob(f"{_SCRATCH_PREFIX}*"):
        pid = left.name.removeprefix(_SCRATCH_PREFIX).split("-")[0]
        if pid.isdecimal() and not is_alive(int(pid)):
            shutil.rmtree(left, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{_SCRATCH_PREFIX}{os.getpid()}-"))
    specification = {
        "argv": [sys.executable, "-c", _KERNEL_CODE, "-f", "{connection_file}"],
        "display_name": "Python 3",
        "language": LANGUAGE,
        "env": {
            PARENT: str(os.getpid()),
            "TQDM_DISABLE": "1",  # bars of libraries would fill the pages; long work prints lines
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        },
    }
    folder = scratch / "kernels" / KERNEL
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(json.dumps(specification), encoding="utf-8")
    os.environ["JUPYTER_PATH"], os.environ["JUPYTER_RUNTIME_DIR"] = str(scratch), str(scratch / "run")
    (scratch / "run").mkdir(mode=0o700)
    try:
        yield
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _progress(notebook: Any) -> str:
    """``cell 4/12: last line it printed`` for the running cell, counting code cells."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, cell in enumerate(cells, start=1):
        if cell.metadata.get("papermill", {}).get("status") == "running":
            printed = "".join(output.get("text", "") for output in cell.outputs if output.output_type == "stream")
            last = (printed.strip() or cell.source.strip() or " ").splitlines()[-1]
            return f"cell {number}/{len(cells)}: {last[-100:]}"
    done = sum(cell.execution_count is not None for cell in cells)
    return f"{done} of {len(cells)} cells done" if done else "the kernel starts"


def _names(names: Any) -> str:
    return ", ".join(sorted(names)) or "none"


def _stop(number: int, frame: object) -> None:
    raise SystemExit(128 + number)  # unwinds, so that the kernel is shut down and the lock removed


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run one notebook for the workflow.")
    parser.add_argument("notebook", help="percent-format .py, or .ipynb")
    parser.add_argument("--parameters", default="{}", metavar="JSON", help="JSON object, or a file that holds one")
    parser.add_argument("--executed", required=True, help="where the executed notebook goes (the rule's log)")
    parser.add_argument("--html", help="render the executed notebook to this page")
    parser.add_argument("--provenance", help="write what made the outputs to this JSON file")
    parser.add_argument("--inputs", nargs="*", default=[], help="files that go into the provenance with their digest")
    parser.add_argument("--outputs", nargs="*", default=[], help="files that the notebook has to write")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--timed", action="store_true", help="measures time: have the machine alone")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
