"""The import closure: what is imported, directly or not, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from angelspec import imports

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small package ``angelspec`` with kernels beside it."""
    files = {
        "angelspec/__init__.py": "",
        "angelspec/io.py": "import json\n",
        "angelspec/deep/__init__.py": "",
        "angelspec/deep/one.py": "from .two import f\n",
        "angelspec/deep/two.py": "def f():\n    from angelspec import io\n",
        "angelspec/other.py": "from angelspec.io import missing_name\n",
        "kernels/__init__.py": "",
        "kernels/cpu/__init__.py": "",
        "kernels/cpu/op.cpp": "int x;",
        "notebooks/a.py": "import angelspec.deep.one\nfrom angelspec.kernels import cpu\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(imports, "ROOT", tmp_path)
    monkeypatch.setattr(imports, "PACKAGE", tmp_path / "angelspec")
    imports._imported_files.cache_clear()
    return tmp_path


def closure(root: Path, *entries: str) -> set[str]:
    return {Path(name).relative_to(root).as_posix() for name in imports.import_closure(*entries)}


def test_relative_lazy_and_package_imports_are_followed(package: Path) -> None:
    deep = {"angelspec/__init__.py", "angelspec/deep/__init__.py", "angelspec/deep/two.py", "angelspec/io.py"}
    assert closure(package, "angelspec/deep/one.py") == {"angelspec/deep/one.py", *deep}
    assert closure(package, "angelspec.deep.two") == deep
    assert closure(package, "angelspec/other.py") == {"angelspec/other.py", "angelspec/__init__.py", "angelspec/io.py"}


def test_kernels_are_found_beside_the_package_with_their_native_sources(package: Path) -> None:
    found = closure(package, "notebooks/a.py")
    assert {"kernels/__init__.py", "kernels/cpu/__init__.py", "kernels/cpu/op.cpp", "angelspec/deep/one.py"} <= found
    assert "angelspec/other.py" not in found


def test_an_unknown_entry_is_an_error(package: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no source angelspec/nope.py"):
        imports.import_closure("angelspec/nope.py")
    with pytest.raises(FileNotFoundError, match="angelspec.nope"):
        imports.import_closure("angelspec.nope")


def test_stages_of_the_real_package_do_not_depend_on_each_other() -> None:
    def names(entry: str) -> set[str]:
        return {Path(name).relative_to(ROOT).as_posix() for name in imports.import_closure(entry)}

    answers = names("angelspec/data/regenerate.py")
    assert {"angelspec/decoding/engine.py", "angelspec/targets/model.py", "angelspec/io.py"} <= answers
    assert not any(name.startswith(("angelspec/plotting", "angelspec/training/trainer")) for name in answers)
    assert "angelspec/config.py" not in answers, "an edit of the configuration's code would answer everything again"
