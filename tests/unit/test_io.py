"""Atomic writes: old or whole, never half; leftovers of killed writers disappear."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from angelspec import io


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_writes_text_and_bytes_and_creates_folders(tmp_path: Path) -> None:
    io.atomic_write_text(tmp_path / "a" / "b.txt", "line\r\nä\n")
    io.atomic_write_bytes(tmp_path / "a" / "c.bin", b"\x00\xff")
    assert (tmp_path / "a" / "b.txt").read_bytes() == "line\r\nä\n".encode()
    assert (tmp_path / "a" / "c.bin").read_bytes() == b"\x00\xff"
    assert _names(tmp_path / "a") == {"b.txt", "c.bin"}


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    io.write_json(path, {"old": 1})

    def fail_half_way() -> None:
        with io.atomic_path(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail_half_way()
    assert io.read_json(path) == {"old": 1}
    assert _names(tmp_path) == {"x.json"}


def test_the_final_name_appears_only_when_the_block_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "shard.parquet"
    with io.atomic_path(path) as temporary:
        temporary.write_bytes(b"x" * 10)
        assert not path.exists()
        assert temporary.parent == tmp_path, "a rename is atomic only within one file system"
        assert not any(tmp_path.glob("*.parquet")), "a glob for results must not find a half-written file"
    assert path.read_bytes() == b"x" * 10


def test_a_block_that_writes_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing was written for x\.bin"), io.atomic_path(tmp_path / "x.bin"):
        pass


def test_a_killed_writer_leaves_no_result_and_the_next_one_cleans_up(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    program = (
        "import sys, time\nfrom angelspec.io import atomic_path\n"
        "with atomic_path(sys.argv[1]) as t:\n    t.write_bytes(b'half'); print('ready', flush=True); time.sleep(60)\n"
    )
    root = Path(io.__file__).parents[1]
    child = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True, cwd=root)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=20)
    assert not path.exists()
    assert _names(tmp_path) == {f".x.bin.{child.pid}.tmp"}
    io.atomic_write_bytes(path, b"whole")
    assert _names(tmp_path) == {"x.bin"}


def test_the_temporary_file_of_a_living_writer_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / f".x.bin.{os.getppid()}.tmp"
    other.write_bytes(b"being written")
    io.atomic_write_bytes(tmp_path / "x.bin", b"mine")
    assert other.exists()


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    io.atomic_write_text(path, "0" * 200_000)
    program = (
        "import sys\nfrom angelspec.io import atomic_write_text\n"
        "for i in range(1, 40): atomic_write_text(sys.argv[1], str(i % 10) * 200_000)\n"
    )
    root = Path(io.__file__).parents[1]
    child = subprocess.Popen([sys.executable, "-c", program, str(path)], cwd=root)
    seen = set()
    deadline = time.monotonic() + 60
    while child.poll() is None and time.monotonic() < deadline:
        text = path.read_text()
        assert len(text) == 200_000
        assert len(set(text)) == 1
        seen.add(text[0])
    assert child.wait(timeout=20) == 0
    assert seen


@dataclasses.dataclass
class _Row:
    name: str
    path: Path
    values: tuple[int, ...]


def test_json_understands_what_results_are_made_of(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    io.write_json(
        path,
        {
            "row": _Row("a", Path("b") / "c", (1, 2)),
            "numpy": [np.float32(0.5), np.int64(3), np.arange(2)],
            "torch": torch.tensor([1, 2]),
            "set": {3, 1, 2},
            4: "umlaut ä",
        },
    )
    assert io.read_json(path) == {
        "row": {"name": "a", "path": "b/c", "values": [1, 2]},
        "numpy": [0.5, 3, [0, 1]],
        "torch": [1, 2],
        "set": [1, 2, 3],
        "4": "umlaut ä",
    }
    assert "ä" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), np.float64("nan")])
def test_nan_is_refused_and_the_file_untouched(tmp_path: Path, bad: float) -> None:
    path = tmp_path / "x.json"
    io.write_json(path, 1)
    with pytest.raises(ValueError, match=r"x\.json: .*write null instead"):
        io.write_json(path, {"tau": bad})
    assert io.read_json(path) == 1


def test_unknown_objects_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="cannot write a object as JSON"):
        io.write_json(tmp_path / "x.json", object())


def test_reading_broken_json_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text("{")
    with pytest.raises(ValueError, match=r"broken\.json is not JSON"):
        io.read_json(path)
