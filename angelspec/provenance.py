"""What made an artefact: code, configuration, seeds, versions, hardware, inputs, duration.

``source_digest`` decides what the workflow runs again, so it follows what a module *does*: comments, formatting and
docstrings leave it unchanged. ``provenance.json`` can be published as it is: it holds no host name, no user name and no
absolute path.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import os
import platform
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from angelspec import hardware
from angelspec.io import to_plain, write_json

PACKAGE = Path(__file__).resolve().parent
_STARTED = time.monotonic()
_PARSED = {".py"}
_RAW = {".cpp", ".cc", ".c", ".h", ".hpp", ".cu", ".cuh", ".jinja"}
_RECORDED = ("torch", "triton", "transformers", "tokenizers", "datasets", "safetensors", "numpy", "scipy", "pandas",
             "pyarrow", "snakemake", "papermill", "angelspec")  # fmt: skip


def source_digest(*module_paths: str | Path) -> str:
    """SHA-256 (hex) of the named source files and folders, in any order.

    Python files enter as syntax trees without docstrings; C++ and CUDA sources enter byte for byte. A path is
    absolute, relative to the package (``"decoding/engine.py"``, ``"targets"``), or relative to the folder that holds it
    (``"angelspec/decoding"``, ``"kernels"``). Folders are followed.

    Raises:
        FileNotFoundError: for a path that is neither, or a folder without sources.
    """
    if not module_paths:
        raise ValueError('source_digest needs at least one file or folder, for example source_digest("decoding")')
    digest = hashlib.sha256()
    for name, path in sorted(_source_files(module_paths).items()):
        content = _canonical(ast.parse(path.read_bytes())).encode() if path.suffix in _PARSED else path.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def file_digest(path: str | Path) -> str:
    """SHA-256 (hex) of a file's bytes, or of a folder's files with their relative names."""
    path = Path(path)
    if path.is_dir():
        digest = hashlib.sha256()
        for file in sorted(item for item in path.rglob("*") if item.is_file()):
            digest.update(f"{file.relative_to(path).as_posix()}\0{file_digest(file)}\n".encode())
        return digest.hexdigest()
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_provenance(
    path: str | Path,
    *,
    config: Any,
    seeds: Mapping[str, int] | Sequence[int] | int | None,
    inputs: Mapping[str, str | Path] | Sequence[str | Path],
    extra: Mapping[str, Any] | None = None,
    code: Sequence[str | Path] = (),
    duration_s: float | None = None,
) -> None:
    """Write ``provenance.json`` to ``path`` in one step.

    Args:
        path: the file to write.
        config: the configuration that was used (dataclasses and mappings are fine).
        seeds: the seeds that were used.
        inputs: files or folders that were read, by name; each is recorded with its SHA-256.
        extra: anything else worth recording (the device policy, the target's identity, compile seconds).
        code: sources whose digest is recorded, as in :func:`source_digest`; default the whole library.
        duration_s: seconds the work took; default the time since this process imported the library.
    """
    named = dict(inputs) if isinstance(inputs, Mapping) else {str(item): item for item in inputs}
    record = {
        "code_digest": source_digest(*(code or (PACKAGE, "kernels"))),
        "git": git_state(),
        "config": config,
        "seeds": seeds,
        "inputs": {name: file_digest(item) for name, item in sorted(named.items())},
        "versions": versions(),
        "hardware": hardware.describe_hardware(),
        "duration_s": round(time.monotonic() - _STARTED if duration_s is None else duration_s, 3),
        "extra": dict(extra or {}),
    }
    write_json(path, without_private_parts(record))


def versions() -> dict[str, str]:
    """Python's version and those of the installed packages that shape the numbers."""
    found = {"python": platform.python_version()}
    for name in _RECORDED:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # Triton does not exist on macOS; angelspec has no metadata in a bare checkout
    return found


def git_state() -> dict[str, Any] | None:
    """Commit and whether tracked files differ from it; None outside a checkout of this project."""
    root = PACKAGE.parent
    if not (root / ".git").exists():  # never ask a foreign repository that merely contains site-packages
        return None
    commit = _git(root, "rev-parse", "HEAD")
    if commit is None:
        return None
    return {"commit": commit, "dirty": bool(_git(root, "status", "--porcelain", "--untracked-files=no"))}


def without_private_parts(value: Any) -> Any:
    """The same structure with absolute paths made relative: to the checkout, the working folder, else the bare name."""
    return _relative(to_plain(value))


def _relative(value: Any) -> Any:
    if isinstance(value, dict):
        return {_relative(key): _relative(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_relative(item) for item in value]
    if not isinstance(value, str):
        return value
    for folder in (PACKAGE.parent, Path.cwd(), Path.home()):
        if str(folder) != folder.anchor:
            value = value.replace(f"{folder}{os.sep}", "")
    return Path(value).name if os.path.isabs(value) and "\n" not in value else value


def _source_files(module_paths: Sequence[str | Path]) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for given in module_paths:
        found = dict(_sources_below(_locate(given)))
        if not found:
            raise FileNotFoundError(f"{given} holds no source file ({', '.join(sorted(_PARSED | _RAW))})")
        files |= found
    return files


def _locate(given: str | Path) -> Path:
    parts = Path(given).parts
    tail = parts[1:] if parts[:1] == ("angelspec",) else parts
    candidates = [Path(given)] if Path(given).is_absolute() else [PACKAGE.joinpath(*tail), PACKAGE.parent / given]
    if tail[:1] == ("kernels",):  # beside the package in a checkout, inside it in a wheel
        candidates.append(PACKAGE.parent.joinpath(*tail))
    for candidate in candidates:
        if candidate.exists():
            return candidate.resolve()
    raise FileNotFoundError(f"no source {given}: give a file or folder of the package, such as decoding/engine.py")


def _sources_below(path: Path) -> Iterator[tuple[str, Path]]:
    """(name that is the same on every machine, file) for a file or everything below a folder."""
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.suffix in _PARSED | _RAW and file.is_file():
            yield _stable_name(file), file


def _stable_name(file: Path) -> str:
    for base in (PACKAGE, PACKAGE.parent):
        if file.is_relative_to(base):
            return file.relative_to(base).as_posix()
    return file.name


def _canonical(node: Any) -> str:
    """A syntax tree as text, the same on Python 3.11 to 3.13 (``ast.dump`` is not), docstrings left out."""
    if isinstance(node, list):
        return "[" + ",".join(_canonical(item) for item in node) + "]"
    if not isinstance(node, ast.AST):
        return f"{type(node).__name__}:{node!r}"
    fields = []
    for name, value in ast.iter_fields(node):
        if name == "body" and isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            value = value[1:] if ast.get_docstring(node, clean=False) is not None else value
        if value is not None and value != [] and name not in ("kind", "type_comment"):
            fields.append(f"{name}={_canonical(value)}")
    return f"{type(node).__name__}({','.join(fields)})"


def _git(root: Path, *arguments: str) -> str | None:
    try:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
