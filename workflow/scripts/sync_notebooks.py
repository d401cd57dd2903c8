"""Write the paired ``.ipynb`` of every notebook source, or check (``--check``) that each is in step.

The ``.py`` is the source. The copy has no outputs, no execution counts, the kernel ``python3`` and cell ids that depend
on the position only, so that the same source gives the same bytes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from angelspec.io import atomic_write_text  # noqa: E402
from angelspec.jobs import skip_uri_grammar  # noqa: E402


def paired_text(source: Path) -> str:
    """The ``.ipynb`` that belongs to a percent-format source, as text."""
    skip_uri_grammar()
    import jupytext
    import nbformat

    notebook = jupytext.read(source)
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    notebook.nbformat_minor = 5
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02d}"
        cell.metadata = nbformat.from_dict({"tags": cell.metadata["tags"]} if cell.metadata.get("tags") else {})
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return nbformat.writes(notebook, version=4) + "\n"


def out_of_step(folder: Path) -> list[str]:
    """One line per pair that is not in step, and per copy without a source."""
    problems = []
    for source in sorted(folder.glob("[0-9]*.py")):
        copy = source.with_suffix(".ipynb")
        if not copy.is_file():
            problems.append(f"{copy.name} is missing")
        elif copy.read_text(encoding="utf-8") != paired_text(source):
            problems.append(f"{copy.name} is not what {source.name} gives")
    sources = {path.stem for path in folder.glob("*.py")}
    problems += [f"{path.name} has no source" for path in sorted(folder.glob("*.ipynb")) if path.stem not in sources]
    return problems


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a pair is out of step")
    parser.add_argument("--folder", type=Path, default=ROOT / "notebooks")
    options = parser.parse_args(arguments)
    if options.check:
        problems = out_of_step(options.folder)
        for line in problems:
            print(f"{line}; run: python workflow/scripts/sync_notebooks.py", file=sys.stderr)
        return 1 if problems else 0
    for source in sorted(options.folder.glob("[0-9]*.py")):
        text, copy = paired_text(source), source.with_suffix(".ipynb")
        if not copy.is_file() or copy.read_text(encoding="utf-8") != text:
            atomic_write_text(copy, text)
            print(f"wrote {copy.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
