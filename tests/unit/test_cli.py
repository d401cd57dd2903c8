"""The command line: version, one-line errors, and doctor's verdicts on machines this test describes."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import urllib.error
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import angelspec
from angelspec import cli
from angelspec.commands import doctor

ROOT = Path(angelspec.__file__).parents[1]
BIG = {
    "hardware": {"cores": 64, "memory_gib": 503.6},
    "gpu_gib": [79.6] * 8,
    "disk_free_gib": 5000.0,
    "network": {"package_index": True, "hub": True},
}


def _facts(**changes: Any) -> dict[str, Any]:
    facts = copy.deepcopy(BIG)
    for key, value in changes.items():
        facts["hardware" if key in ("cores", "memory_gib") else key] = (
            facts["hardware"] | {key: value} if key in ("cores", "memory_gib") else value
        )
    return facts


def test_help_and_version_start_without_torch() -> None:
    program = (
        "import sys; from angelspec import cli; sys.argv = ['angelspec', '--version']\n"
        "try: cli.main()\nfinally: assert not {'torch', 'transformers', 'snakemake'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == f"angelspec {angelspec.__version__}", done.stderr
    assert done.returncode == 0, done.stderr


def test_every_command_explains_itself() -> None:
    for command in cli.app.registered_commands:
        assert command.name
        shown = CliRunner().invoke(cli.app, [command.name, "--help"])
        assert shown.exit_code == 0, shown.output
        assert (command.callback.__doc__ or "").split(".")[0].split()[0] in shown.output


@pytest.mark.parametrize("error", [ValueError("tau is 0.5, must be at least 1"), FileNotFoundError("no such shard")])
def test_errors_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(cli, "app", fail)
    monkeypatch.setattr(sys, "argv", ["angelspec", "doctor"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 1
    assert capsys.readouterr().err.splitlines()[0] == f"error: {error}"
    monkeypatch.setattr(sys, "argv", ["angelspec", "--debug", "doctor"])
    with pytest.raises(type(error)):
        cli.main()


def test_a_bug_is_not_dressed_up_as_a_user_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise KeyError("bug")

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(KeyError):
        cli.main()


def test_doctor_prints_tables_and_json() -> None:
    shown = CliRunner().invoke(cli.app, ["doctor", "--no-network"])
    assert shown.exit_code == 0, shown.output
    for word in ("torch", "C++ compiler", "cores", "memory", "disk", *doctor.SCALES):
        assert word in shown.output
    shown = CliRunner().invoke(cli.app, ["doctor", "--no-network", "--json"])
    facts = json.loads(shown.stdout)
    assert facts["scales"].keys() == doctor.SCALES.keys()
    assert facts["network"] is None
    assert facts["policy"]["reasons"]["device"]


def test_doctor_knows_the_scales_of_the_configuration() -> None:
    from angelspec.config import SCALES

    assert tuple(doctor.SCALES) == SCALES


def test_a_big_machine_runs_every_scale() -> None:
    assert all(doctor.missing(needs, BIG) == [] for needs in doctor.SCALES.values())


@pytest.mark.parametrize(
    ("scale", "changes", "lack"),
    [
        ("laptop", {"cores": 1}, "2 cores (here 1)"),
        ("laptop", {"memory_gib": 3.8}, "6 GiB memory (here 3.8)"),
        ("overnight", {"disk_free_gib": 20.0}, "30 GiB free disk (here 20)"),
        ("gpu", {"gpu_gib": [23.7]}, "1 GPU(s) of 40 GiB (here 0)"),
        ("paper", {"gpu_gib": [79.6] * 4}, "8 GPU(s) of 80 GiB (here 4)"),
        ("gpu", {"network": {"package_index": True, "hub": False}}, "the Hugging Face Hub"),
    ],
)
def test_what_is_missing_is_named_with_what_is_there(scale: str, changes: dict[str, Any], lack: str) -> None:
    assert lack in doctor.missing(doctor.SCALES[scale], _facts(**changes))


def test_each_scale_needs_at_least_what_the_smaller_one_needs() -> None:
    needs = list(doctor.SCALES.values())
    for smaller, larger in zip(needs, needs[1:], strict=False):
        assert (smaller.cores, smaller.memory, smaller.disk) <= (larger.cores, larger.memory, larger.disk)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, True),
        (urllib.error.HTTPError("http://x", 403, "forbidden", {}, None), True),  # type: ignore[arg-type]
        (urllib.error.URLError("no route"), False),
        (TimeoutError(), False),
        (ValueError("unknown url type"), False),
    ],
)
def test_any_answer_of_a_server_means_reachable(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None, expected: bool
) -> None:
    class Answer:
        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None: ...

    def urlopen(request: Any, timeout: float) -> Answer:
        assert timeout <= 5, "doctor must not hang without a network"
        if error is not None:
            raise error
        return Answer()

    monkeypatch.setattr(doctor.urllib.request, "urlopen", urlopen)
    assert doctor.reachable("http://x") is expected


def test_mirrors_and_offline_mode_are_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://mirror/simple")
    monkeypatch.setenv("HF_ENDPOINT", "http://hub-mirror")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    asked: list[str] = []

    def probe(url: str) -> bool:
        asked.append(url)
        return True

    assert doctor._network(probe) == {"package_index": True, "hub": True}
    assert sorted(asked) == ["http://hub-mirror", "http://mirror/simple"]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert doctor._network(probe) == {"package_index": True, "hub": False}
