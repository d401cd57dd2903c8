"""Which source files a stage is made of: the import closure of its entry point, found without importing anything.

The workflow hands ``source_digest(*import_closure(entry))`` to each rule as a parameter, so an edit anywhere below a
stage runs that stage again and no other. Trap: a module that is only loaded by name at run time (``importlib``) is not
seen; import it somewhere in the stage, or name it as a further entry.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
ROOT = PACKAGE.parent
NAME = PACKAGE.name
_NATIVE = {".cpp", ".cc", ".c", ".h", ".hpp", ".cu", ".cuh", ".jinja"}


def import_closure(*entries: str | Path) -> tuple[str, ...]:
    """All files of this repository that the entries import, directly or not, the entries included; sorted.

    Args:
        entries: files relative to the repository root (``angelspec/data/regenerate.py``, ``notebooks/00_primer.py``),
            or module names (``angelspec.data.regenerate``).

    C++ and CUDA sources and templates that lie beside an imported module belong to it.

    Raises:
        FileNotFoundError: for an entry that does not exist.
    """
    todo = [file for entry in entries for file in _entry_files(entry)]
    seen: set[Path] = set()
    while todo:
        file = todo.pop()
        if file not in seen:
            seen.add(file)
            todo.extend(_imported_files(file))
    native = {
        item for file in seen for item in file.parent.iterdir() if item.suffix in _NATIVE and file.parent != PACKAGE
    }
    return tuple(sorted(str(file) for file in seen | native))


def _entry_files(entry: str | Path) -> list[Path]:
    """The entry's file and the ``__init__.py`` of the packages above it."""
    if isinstance(entry, str) and "/" not in entry and not entry.endswith(".py"):
        files, parts = _module_files(entry), entry.split(".")
        if parts[0] == NAME and len(files) == len(parts):
            return files
    file = (ROOT / entry).resolve()
    if not file.is_file():
        raise FileNotFoundError(f"no source {entry} here; give a file such as {NAME}/io.py, or a module name")
    return [file, *_module_files(".".join(_package_of(file)))]


@functools.cache
def _imported_files(file: Path) -> tuple[Path, ...]:
    package = _package_of(file)
    found: list[Path] = []
    for node in ast.walk(ast.parse(file.read_bytes(), filename=str(file))):
        for name in _names(node, package):
            found.extend(_module_files(name))
    return tuple(found)


def _names(node: ast.AST, package: list[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
        module = ".".join(part for part in (base, node.module) if part)
        yield module
        yield from (f"{module}.{alias.name}" for alias in node.names)  # the name may be a module


def _package_of(file: Path) -> list[str]:
    for base, prefix in ((PACKAGE, [NAME]), (ROOT / "kernels", [NAME, "kernels"])):
        if file.is_relative_to(base):
            return prefix + list(file.relative_to(base).parts[:-1])
    return []


def _module_files(name: str) -> list[Path]:
    """The file of a module of ours and the ``__init__.py`` of each package above it; nothing for foreign names."""
    parts = name.split(".")
    if parts[0] != NAME:
        return []
    files = []
    for length in range(1, len(parts) + 1):
        inside = parts[1:length]
        folder = (ROOT if inside[:1] == ["kernels"] and not (PACKAGE / "kernels").is_dir() else PACKAGE).joinpath(
            *inside
        )
        for candidate in (folder / "__init__.py", folder.with_suffix(".py")):
            if candidate.is_file():
                files.append(candidate)
                break
    return files
