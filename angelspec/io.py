"""Files that are either absent, old, or whole: written under a temporary name and renamed.

A process may be killed at any moment (SIGKILL included). A reader therefore never sees half a file under its final
name. The temporary name starts with a dot, carries the writer's process id, and ends in ``.tmp``, so that no glob for
results finds it; what a killed writer left is removed by the next writer of the same file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; rename it to ``path`` when the block ends without an error.

    For writers that take a file name (safetensors, parquet). Such a writer must be told its format: the temporary
    name ends in ``.tmp``. If the block raises, ``path`` keeps its old content and the temporary file is removed.
    """
    final = Path(path)
    final.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(final)
    temporary = final.parent / f".{final.name}.{os.getpid()}.tmp"
    try:
        yield temporary
        if not temporary.is_file():
            raise FileNotFoundError(f"nothing was written for {final.name}: the block must write the path it is given")
        _flush_to_disk(temporary)
        os.replace(temporary, final)
        _flush_to_disk(final.parent)
    finally:
        temporary.unlink(missing_ok=True)


def atomic_write_bytes(path: str | Path, data: bytes) -> None:
    """Write ``data`` to ``path`` in one step as seen by any reader. Folders are created."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def atomic_write_text(path: str | Path, text: str) -> None:
    """Write ``text`` as UTF-8 with the newlines it has. Folders are created."""
    atomic_write_bytes(path, text.encode("utf-8"))


def write_json(path: str | Path, obj: Any) -> None:
    """Write ``obj`` as readable JSON. Dataclasses, paths, NumPy scalars and arrays are understood.

    Raises:
        ValueError: for NaN or infinity, which JSON does not have (store ``None`` or leave the row out).
        TypeError: for an object that has no JSON form.
    """
    try:
        text = json.dumps(to_plain(obj), indent=2, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise ValueError(f"{Path(path).name}: {error}. JSON has no NaN or infinity: write null instead") from error
    atomic_write_text(path, text + "\n")


def read_json(path: str | Path) -> Any:
    """Read a JSON file; the error names the file and the position."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON ({error}); remove it and run the step again") from error


def to_plain(value: Any) -> Any:
    """``value`` in JSON's own types: dict with string keys, list, str, int, float, bool, None."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(to_plain(item) for item in value)
    if isinstance(value, os.PathLike):
        return Path(value).as_posix()
    if isinstance(value, str):  # a string enumeration
        return str(getattr(value, "value", value))
    if hasattr(value, "tolist"):  # NumPy and torch, scalars and arrays alike
        return value.tolist()
    raise TypeError(
        f"cannot write a {type(value).__name__} as JSON; convert it to numbers, strings, lists or dicts first"
    )


def _flush_to_disk(path: Path) -> None:
    """fsync, so that a rename never reaches the disk before the content. A file system without it is no error."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_leftovers(final: Path) -> None:
    prefix = f".{final.name}."
    for name in os.listdir(final.parent):
        if name.startswith(prefix) and name.endswith(".tmp"):
            writer = name[len(prefix) : -len(".tmp")]
            if writer.isdecimal() and not is_alive(int(writer)):
                (final.parent / name).unlink(missing_ok=True)


def is_alive(pid: int) -> bool:
    """Whether a process of that id exists and is not a zombie (a zombie holds nothing any more)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True


def default_cache_dir() -> Path:
    """``$ANGELSPEC_CACHE``, else ``angelspec`` in the user's cache folder (XDG)."""
    if os.environ.get("ANGELSPEC_CACHE"):
        return Path(os.environ["ANGELSPEC_CACHE"])
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "angelspec"
