"""Rules of the house that no linter knows: lengths, private paths, numbers in YAML, unsafe loading, size."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from pathlib import Path

import pytest

import angelspec

ROOT = Path(angelspec.__file__).parents[1]
MAX_LINES, MAX_SNAKEFILE_LINES, MAX_FUNCTION_LINES = 400, 60, 50
MAX_REPOSITORY_BYTES = 60 * 2**20
TEXT = {
    ".py",
    ".smk",
    ".md",
    ".yaml",
    ".yml",
    ".toml",
    ".json",
    ".ipynb",
    ".cff",
    ".cpp",
    ".h",
    ".lock",
    ".rst",
    ".svg",
}
# Split, so that this file does not find itself.
PRIVATE = re.compile(
    "(?<![\\w.])/" + "(?:root|home|Users|work|mnt|tmp|opt)" + r"/\w|\bfile://" + "/|\\b\\d{1,3}(?:\\.\\d{1,3}){3}\\b"
)
YAML_STRING_NUMBER = re.compile(r"(?<![\w.])[+-]?\d+[eE][+-]?\d+\b")
UNSAFE_CALLS = {"eval", "exec", "torch.load", "pickle.load", "pickle.loads", "os.system", "yaml.load"}
UNSAFE_MODULES = {"pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


def _files() -> list[Path]:
    """Files git tracks or would track; all sources where git is absent (an unpacked archive)."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split("\0")
    except (OSError, subprocess.SubprocessError):
        listed = [
            str(p.relative_to(ROOT)) for top in ("angelspec", "kernels", "tests") for p in (ROOT / top).rglob("*.*")
        ]
    return sorted(ROOT / name for name in listed if name and (ROOT / name).is_file())


FILES = _files()
PYTHON = [path for path in FILES if path.suffix == ".py"]
LIBRARY = [path for path in PYTHON if path.relative_to(ROOT).parts[0] in ("angelspec", "kernels", "workflow")]


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _length(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_there_is_something_to_check() -> None:
    assert {"angelspec/__init__.py", "kernels/__init__.py", "angelspec/device.py"} <= {_name(path) for path in LIBRARY}


def test_files_and_snakefile_are_short() -> None:
    assert not {_name(path): n for path in LIBRARY if (n := _length(path)) > MAX_LINES}
    if (ROOT / "Snakefile").is_file():
        assert _length(ROOT / "Snakefile") <= MAX_SNAKEFILE_LINES


def test_functions_are_short() -> None:
    long = {}
    for path in LIBRARY:
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) is not None else node.body
                lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
                if lines > MAX_FUNCTION_LINES:
                    long[f"{_name(path)}:{node.name}"] = lines
    assert not long, "bodies longer than 50 lines, docstring not counted"


def test_no_private_paths_or_addresses() -> None:
    found = []
    for path in FILES:
        if path.suffix in TEXT or path.name in ("Makefile", "Snakefile", "run"):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
                if PRIVATE.search(line) and "127.0.0.1" not in line:
                    found.append(f"{_name(path)}:{number}: {line.strip()[:100]}")
    assert not found


@pytest.mark.parametrize(
    ("line", "is_private"),
    [
        ("cache: /" + "home/someone/cache", True),
        ("see file:" + "///x", True),
        ("host 10" + ".1.2.3", True),
        ("https://github.com/x/home/y", False),
        ("results/tmp/x", False),
        ("version 2.13.0", False),
    ],
)
def test_the_pattern_for_private_paths(line: str, is_private: bool) -> None:
    assert bool(PRIVATE.search(line)) is is_private


def test_yaml_numbers_have_a_point() -> None:
    """YAML 1.1 reads 1e-4 as a string; 1.0e-4 is a number."""
    found = []
    for path in FILES:
        if path.suffix in (".yaml", ".yml"):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
                if YAML_STRING_NUMBER.search(line.split("#")[0]):
                    found.append(f"{_name(path)}:{number}: {line.strip()}")
    assert not found
    assert YAML_STRING_NUMBER.search("rate: 1e-4")
    assert not YAML_STRING_NUMBER.search("rate: 1.0e-4")


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _unsafe(tree: ast.AST) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if _dotted(node.func) in UNSAFE_CALLS:
                found.append(_dotted(node.func))
            for keyword in node.keywords:
                truth = isinstance(keyword.value, ast.Constant) and keyword.value.value is True
                if keyword.arg == "trust_remote_code" or (keyword.arg == "shell" and truth):
                    found.append(keyword.arg)
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in UNSAFE_MODULES]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in UNSAFE_MODULES:
            found.append(node.module or "")
        elif isinstance(node, ast.Raise) and node.exc is not None and "NotImplementedError" in ast.dump(node.exc):
            found.append("NotImplementedError")
    return found


def test_no_unsafe_loading_no_shell_no_stubs() -> None:
    found = {_name(path): names for path in LIBRARY if (names := _unsafe(ast.parse(path.read_bytes())))}
    assert not found


@pytest.mark.parametrize(
    "line",
    [
        "torch.load('x')",
        "import pickle",
        "from pickle import loads",
        "f(trust_remote_code=True)",
        "run('x', shell=True)",
        "eval('1')",
        "raise NotImplementedError",
    ],
)
def test_the_check_finds_unsafe_code(line: str) -> None:
    assert _unsafe(ast.parse(line))


def test_the_repository_is_small() -> None:
    assert sum(path.stat().st_size for path in FILES) < MAX_REPOSITORY_BYTES


@pytest.mark.parametrize("source", sorted((ROOT / "notebooks").glob("*.py")), ids=lambda path: path.name)
def test_notebooks_are_in_step_with_their_sources(source: Path) -> None:
    import jupytext

    paired = source.with_suffix(".ipynb")
    assert paired.is_file(), f"make the pair: jupytext --sync {_name(source)}"
    notebook = json.loads(paired.read_text(encoding="utf-8"))
    expected = [(cell.cell_type, cell.source) for cell in jupytext.read(source).cells]
    found = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    # Numbers only: pytest's comparison of two long texts takes a minute.
    differing = [
        number for number, pair in enumerate(zip(found, expected, strict=False), start=1) if pair[0] != pair[1]
    ]
    assert (len(found), differing) == (len(expected), []), f"out of step: run jupytext --sync {_name(source)}"
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook["cells"]), "has outputs"


def test_the_licence_is_there_and_named_once() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
