"""angelspec.kernels is one package wherever it is imported from: checkout, editable install, wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import angelspec

ROOT = Path(angelspec.__file__).parents[1]
SOURCES = ("angelspec", "kernels", "pyproject.toml", "setup.py", "README.md", "LICENSE")
SHOW = "import angelspec, angelspec.kernels as k; print(k.__name__, k.__file__, angelspec.__version__)"
pytestmark = pytest.mark.skipif(not (ROOT / "setup.py").is_file(), reason="needs the repository, not only the package")


def _run(*command: str | Path, cwd: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources: building writes build/ and egg-info beside them."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture
def empty_venv(tmp_path: Path) -> Path:
    """Python of a fresh environment that sees the installed packages, but not angelspec."""
    import venv

    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    base = sysconfig.get_paths(vars={"base": str(tmp_path / "venv"), "platbase": str(tmp_path / "venv")})["purelib"]
    # Only sys.path is extended: the .pth files of the outer environment (its editable angelspec) are not read.
    (Path(base) / "outer.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return tmp_path / "venv" / "bin" / "python"


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    _run(sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", folder, checkout, cwd=folder)
    return next(folder.glob("angelspec-*.whl"))


def test_from_the_repository_root() -> None:
    name, file, version = _run(sys.executable, "-c", SHOW, cwd=ROOT).split()
    assert (name, Path(file)) == ("angelspec.kernels", ROOT / "kernels" / "__init__.py")
    assert version == angelspec.__version__


def test_from_an_editable_install(checkout: Path, empty_venv: Path, tmp_path: Path) -> None:
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    _run(sys.executable, "-m", "pip", "--python", empty_venv, "install", *options, "-e", checkout, cwd=tmp_path)
    name, file, _ = _run(empty_venv, "-c", SHOW, cwd=tmp_path).split()
    assert (name, Path(file)) == ("angelspec.kernels", checkout / "kernels" / "__init__.py")
    # Also by what the installer wrote alone, without the finder for bare checkouts:
    without = (
        "import sys, angelspec; sys.meta_path[:] = [f for f in sys.meta_path if 'Checkout' not in type(f).__name__]"
    )
    assert _run(empty_venv, "-c", f"{without}\n{SHOW}", cwd=tmp_path).split()[1] == file
    assert _run(empty_venv.parent / "angelspec", "--version", cwd=tmp_path) == f"angelspec {angelspec.__version__}"


def test_from_a_wheel(wheel: Path, empty_venv: Path, tmp_path: Path) -> None:
    options = ("--quiet", "--no-deps", "--no-index", "--disable-pip-version-check")
    _run(sys.executable, "-m", "pip", "--python", empty_venv, "install", *options, wheel, cwd=tmp_path)
    name, file, _ = _run(empty_venv, "-c", SHOW, cwd=tmp_path).split()
    assert name == "angelspec.kernels"
    assert Path(file).parts[-4:] == ("site-packages", "angelspec", "kernels", "__init__.py")
    finders = "import sys, angelspec; print([type(f).__name__ for f in sys.meta_path])"
    assert "_CheckoutKernels" not in _run(empty_venv, "-c", finders, cwd=tmp_path)


def test_the_wheel_holds_every_source_and_nothing_else(wheel: Path, checkout: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    kinds = {".py", ".cpp", ".h"}
    expected = {
        *(p.relative_to(checkout).as_posix() for p in (checkout / "angelspec").rglob("*") if p.suffix in kinds),
        *(
            f"angelspec/{p.relative_to(checkout).as_posix()}"
            for p in (checkout / "kernels").rglob("*")
            if p.suffix in kinds
        ),
    }
    assert expected <= inside, "a folder without __init__.py is not packaged"
    assert {name.split("/")[0] for name in inside} == {"angelspec"}, (
        "no second top-level package, above all not kernels"
    )


def test_modules_of_kernels_are_loaded_once() -> None:
    """Two copies of a module would mean two copies of its state and failing isinstance checks."""
    program = "import sys, angelspec.kernels; assert 'kernels' not in sys.modules; print('once')"
    assert _run(sys.executable, "-c", program, cwd=ROOT) == "once"


def test_transformers_does_not_take_our_folder_for_its_kernels_package() -> None:
    program = "from transformers.utils import is_kernels_available; print(is_kernels_available())"
    assert _run(sys.executable, "-c", program, cwd=ROOT) == "False"


def test_one_version_everywhere() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == angelspec.__version__
    assert f"version: {angelspec.__version__}\n" in (ROOT / "CITATION.cff").read_text()
