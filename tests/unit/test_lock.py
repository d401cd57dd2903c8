"""The lock is exact, whole, within the bounds of pyproject.toml, equal to environment.yml, and what is installed."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.version import Version

import angelspec
from angelspec import environment
from angelspec.environment import Pin, normalised

ROOT = Path(angelspec.__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PINS = environment.read_lock(ROOT / "requirements.lock")
SYSTEMS = (("Linux", "linux", "x86_64"), ("Linux", "linux", "aarch64"), ("Darwin", "darwin", "arm64"))
PLATFORMS = [
    {
        "python_version": python,
        "python_full_version": f"{python}.1",
        "platform_system": system,
        "sys_platform": name,
        "platform_machine": machine,
        "os_name": "posix",
        "implementation_name": "cpython",
        "extra": "",
    }
    for python in ("3.11", "3.12", "3.13")
    for system, name, machine in SYSTEMS
]


def _declared() -> list[Requirement]:
    return [Requirement(line) for line in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]]


def _closure(where: dict[str, str]) -> dict[str, set[str]]:
    """Names the declared dependencies need on a machine, with who asks, read from the installed metadata."""
    found: dict[str, set[str]] = {}
    done: set[tuple[str, str]] = set()
    open_ends: list[tuple[Requirement, str]] = [(requirement, "pyproject.toml") for requirement in _declared()]
    while open_ends:
        requirement, asker = open_ends.pop()
        if requirement.marker is not None and not requirement.marker.evaluate(where):
            continue
        name = normalised(requirement.name)
        found.setdefault(name, set()).add(asker)
        for extra in {"", *requirement.extras} - {extra for done_name, extra in done if done_name == name}:
            done.add((name, extra))
            try:
                lines = importlib.metadata.requires(name) or []
            except importlib.metadata.PackageNotFoundError:
                continue  # not for this machine; the test on what is installed would notice otherwise
            for line in lines:
                needed = Requirement(line)
                if needed.marker is None or needed.marker.evaluate({**where, "extra": extra}):
                    needed.marker = None
                    open_ends.append((needed, name))
    return found


# PyPI's Linux build of torch asks for the CUDA libraries in exact versions itself; the CPU build does without them.
def _is_cuda_library(name: str) -> bool:
    return name.startswith(("nvidia-", "cuda-"))


def test_names_are_unique_and_sorted() -> None:
    names = [pin.name for pin in PINS]
    assert names == sorted(set(names))


def test_torch_and_triton_fit_every_build() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    assert "torch==2.13.0" in lines
    assert "triton==3.7.1 ; platform_system == 'Linux'" in lines
    assert not any("+" in line or "--hash" in line for line in lines if not line.startswith("#"))


def test_pins_lie_within_the_declared_bounds() -> None:
    pins = {pin.name: pin for pin in PINS}
    for requirement in _declared():
        assert pins[normalised(requirement.name)].version in requirement.specifier, requirement
        if requirement.name != "setuptools":  # needed at run time by torch's C++ extensions; any recent one does
            assert any(part.operator in ("<", "==", "~=") for part in requirement.specifier), (
                f"{requirement}: unbounded"
            )


@pytest.mark.parametrize(
    "where", PLATFORMS, ids=lambda p: f"{p['python_version']}-{p['sys_platform']}-{p['platform_machine']}"
)
def test_the_lock_is_whole_on_every_platform(where: dict[str, str]) -> None:
    locked = {pin.name for pin in PINS if pin.applies(where)}
    lacking = {
        name: askers for name, askers in _closure(where).items() if name not in locked and not _is_cuda_library(name)
    }
    assert not lacking, "needed but not locked (name: who asks)"


def test_nothing_is_locked_that_nobody_needs() -> None:
    here: dict[str, Any] = {**default_environment(), "extra": ""}
    idle = {pin.name for pin in PINS if pin.applies(here)} - _closure(here).keys()
    assert not idle


def test_the_installed_versions_are_the_locked_ones() -> None:
    assert environment.differences(PINS) == []


def test_supported_pythons() -> None:
    supported = Requirement(f"python{PROJECT['requires-python']}").specifier
    assert [minor for minor in range(9, 17) if Version(f"3.{minor}.1") in supported] == [11, 12, 13]
    assert sys.version_info[:2] >= (3, 11)


def test_environment_yml_has_the_pins_of_the_lock() -> None:
    conda = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    plain = [entry for entry in conda["dependencies"] if isinstance(entry, str)]
    [pip_lines] = [entry["pip"] for entry in conda["dependencies"] if isinstance(entry, dict)]
    assert "-r requirements.lock" in pip_lines, "conda's pip section installs the lock itself"
    pins = {pin.name: pin.version for pin in PINS}
    named = dict(re.fullmatch(r"([\w-]+)(?:==?(.+))?", entry).groups() for entry in plain)  # type: ignore[union-attr]
    shared = {name: version for name, version in named.items() if normalised(name) in pins}
    assert shared, "conda installs JupyterLab"
    assert shared == {name: pins[normalised(name)] for name in shared}
    assert f"{named['python']}.1" in Requirement(f"python{PROJECT['requires-python']}").specifier
    # A pin of its own in the pip section would be a second place to keep right.
    assert not [line for line in pip_lines if "==" in line]


def test_differences_name_what_is_wrong() -> None:
    installed = importlib.metadata.version("packaging")
    pins = [
        Pin("packaging", installed, None),
        Pin("packaging", "0.1", None),
        Pin("no-such-distribution", "1.0", None),
        Pin("no-such-distribution", "1.0", "platform_system == 'Plan9'"),
    ]
    assert environment.differences(pins) == [
        f"packaging: 0.1 is locked, {installed} is installed",
        "no-such-distribution: 1.0 is locked, none is installed",
    ]


def test_a_build_tag_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.13.0+cpu")
    assert environment.differences([Pin("torch", "2.13.0", None)]) == []
    assert environment.differences([Pin("torch", "2.13.1", None)]) != []


@pytest.mark.parametrize("line", ["torch>=2", "torch", "-e .", "torch==2.13.0 --hash=sha256:00"])
def test_lines_that_pin_nothing_are_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "x.lock").write_text(f"# comment\n\n{line}\n")
    with pytest.raises(ValueError, match="line 3: .* is not 'name==version'"):
        environment.read_lock(tmp_path / "x.lock")


def test_the_check_for_conda_environments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "good.lock").write_text(f"packaging=={importlib.metadata.version('packaging')}\n")
    (tmp_path / "bad.lock").write_text("".join(f"no-such-{number}==1\n" for number in range(12)))
    assert environment.main([str(tmp_path / "good.lock")]) == 0
    assert environment.main([str(tmp_path / "bad.lock")]) == 1
    assert "no-such-0: 1 is locked, none is installed" in (text := capsys.readouterr().err)
    assert "and 2 more" in text
