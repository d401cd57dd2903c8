"""The source digest follows meaning, not text; the record holds what made a number and nothing private."""

from __future__ import annotations

import getpass
import json
import socket
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest

from angelspec import io, provenance

SOURCE = '''
"""Module text."""

def twice(x: int) -> int:
    """Twice x."""
    return 2 * x  # not three times


class Box:
    """A box."""

    size = 3
'''


def _digest_of(tmp_path: Path, text: str) -> str:
    path = tmp_path / "module.py"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return provenance.source_digest(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  # not three times", "  # another comment"),
        ('"""Twice x."""', '"""Two times x, in other words."""'),
        ('"""Module text."""', ""),
        ('    """A box."""\n\n', ""),
        ("    return 2 * x", "\n\n    return (2 *\n        x)"),
        ("x: int) -> int", "x: int,) -> int"),
    ],
)
def test_comments_docstrings_and_formatting_do_not_count(tmp_path: Path, old: str, new: str) -> None:
    assert old in SOURCE
    assert _digest_of(tmp_path, SOURCE.replace(old, new)) == _digest_of(tmp_path, SOURCE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2 * x", "3 * x"),
        ("2 * x", "2.0 * x"),
        ("2 * x", "True * x"),
        ("2 * x", "x * 2"),
        ("2 * x", "2 + x"),
        ("twice", "double"),
        ("size = 3", "size: int = 3"),
        ("size = 3", 'size = 3; text = """A box."""'),
        ("class Box", "@property\nclass Box"),
    ],
)
def test_every_change_of_meaning_counts(tmp_path: Path, old: str, new: str) -> None:
    assert old in SOURCE
    assert _digest_of(tmp_path, SOURCE.replace(old, new)) != _digest_of(tmp_path, SOURCE)


def test_a_string_that_is_no_docstring_counts(tmp_path: Path) -> None:
    assert _digest_of(tmp_path, "x = 'a'") != _digest_of(tmp_path, "x = 'b'")
    assert _digest_of(tmp_path, "x = 'a'") != _digest_of(tmp_path, "x = b'a'")


def test_folders_are_followed_whatever_the_order(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.py").write_text("a = 1")
    (tmp_path / "deep" / "b.py").write_text("b = 1")
    before = provenance.source_digest(tmp_path)
    assert before == provenance.source_digest(tmp_path / "deep", tmp_path / "a.py")
    (tmp_path / "deep" / "b.py").write_text("b = 2")
    assert provenance.source_digest(tmp_path) != before
    (tmp_path / "deep" / "b.py").write_text("b = 1")
    (tmp_path / "notes.txt").write_text("not source")
    assert provenance.source_digest(tmp_path) == before
    (tmp_path / "k.cpp").write_text("int x;")
    with_cpp = provenance.source_digest(tmp_path)
    (tmp_path / "k.cpp").write_text("int y;")
    assert len({before, with_cpp, provenance.source_digest(tmp_path)}) == 3


def test_moving_code_between_files_counts(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1")
    (tmp_path / "b.py").write_text("b = 1")
    before = provenance.source_digest(tmp_path)
    (tmp_path / "a.py").write_text("a = 1\nb = 1")
    (tmp_path / "b.py").write_text("")
    assert provenance.source_digest(tmp_path) != before


def test_package_names_are_understood() -> None:
    assert provenance.source_digest("io.py") == provenance.source_digest("angelspec/io.py")
    assert provenance.source_digest("io.py") == provenance.source_digest(provenance.PACKAGE / "io.py")
    assert provenance.source_digest("kernels") == provenance.source_digest("angelspec/kernels")
    assert provenance.source_digest("kernels") != provenance.source_digest("io.py")


@pytest.mark.parametrize("paths", [("no_such_module.py",), ("io.py", "nowhere")])
def test_unknown_sources_are_errors(paths: tuple[str, ...]) -> None:
    with pytest.raises(FileNotFoundError, match="give a file or folder of the package"):
        provenance.source_digest(*paths)


def test_empty_calls_and_folders_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one"):
        provenance.source_digest()
    with pytest.raises(FileNotFoundError, match="holds no source file"):
        provenance.source_digest(tmp_path)


def test_file_digest_of_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # SHA-256("abc"), FIPS 180-2
    assert provenance.file_digest(tmp_path / "in" / "a") == known
    before = provenance.file_digest(tmp_path / "in")
    (tmp_path / "in" / "a").rename(tmp_path / "in" / "b")
    assert provenance.file_digest(tmp_path / "in") != before


@pytest.fixture
def record(tmp_path: Path) -> dict[str, Any]:
    source = tmp_path / "data.txt"
    source.write_text("abc")
    provenance.write_provenance(
        tmp_path / "provenance.json",
        config={
            "cache": provenance.PACKAGE.parent / ".cache" / "x",
            "home": f"{Path.home()}/models/y",
            "elsewhere": "/nowhere/special/model",
            "note": f"read {provenance.PACKAGE.parent}/a.txt twice",
            "rate": 0.5,
        },
        seeds={"run": 7},
        inputs={"prompts": source},
        extra={"device": "cpu"},
        code=("io.py",),
    )
    found: dict[str, Any] = io.read_json(tmp_path / "provenance.json")
    return found


def test_the_record_says_what_made_the_artefact(record: dict[str, Any]) -> None:
    assert record["code_digest"] == provenance.source_digest("io.py")
    assert record["inputs"] == {"prompts": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}
    assert record["seeds"] == {"run": 7}
    assert record["extra"] == {"device": "cpu"}
    assert record["config"]["rate"] == 0.5
    assert record["duration_s"] > 0
    assert {"python", "torch", "transformers"} <= record["versions"].keys()
    assert record["hardware"]["cores"] >= 1
    assert record["hardware"]["memory_gib"] > 0


def test_the_record_holds_nothing_private(record: dict[str, Any]) -> None:
    assert record["config"]["cache"] == ".cache/x"
    assert record["config"]["elsewhere"] == "model"
    assert record["config"]["note"] == "read a.txt twice"
    text = json.dumps(record)
    assert str(Path.home()) not in text
    assert str(provenance.PACKAGE.parent) not in text

    def words(value: Any) -> set[str]:
        if isinstance(value, dict):
            return set().union(*(words(item) | {key} for key, item in value.items()))
        return set().union(*map(words, value)) if isinstance(value, list) else set(str(value).split())

    assert not {socket.gethostname(), getpass.getuser()} & words(record)


def test_git_state_tells_commit_and_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "angelspec"
    package.mkdir()
    (package / "a.py").write_text("a = 1")
    monkeypatch.setattr(provenance, "PACKAGE", package)
    assert provenance.git_state() is None
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for arguments in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True)
    clean = provenance.git_state()
    assert clean is not None
    assert len(clean["commit"]) == 40
    assert clean["dirty"] is False
    (package / "untracked.py").write_text("b = 1")
    assert provenance.git_state() == clean
    (package / "a.py").write_text("a = 2")
    assert provenance.git_state() == {"commit": clean["commit"], "dirty": True}
