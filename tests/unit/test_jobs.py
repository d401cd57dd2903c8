"""Locks that vanish with their holders, death with the parent, threads for every library."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from angelspec import jobs

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def child() -> Callable[..., subprocess.Popen[str]]:
    """``child(code)`` runs Python code in another process and waits until it has printed ``ready``."""
    started = []

    def start(code: str, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, **environment}
        )
        started.append(process)
        assert process.stdout is not None and process.stdout.readline().startswith("ready")
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


HOLD = "import time; from angelspec.jobs import {what}\nwith {call}:\n    print('ready', flush=True); time.sleep(60)"


def hold(path: Path) -> str:
    return HOLD.format(what="exclusive", call=f"exclusive({str(path)!r})")


def test_one_holder_at_a_time_and_no_file_left(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.lock"
    with jobs.exclusive(path):
        assert path.read_text() == f"{os.getpid()}\n"
        message = f"process {os.getpid()} is writing the same outputs"
        with pytest.raises(jobs.LockBusy, match=message), jobs.exclusive(path, wait_s=0.2):
            pass
    assert not path.exists()


def test_a_living_holder_is_respected_and_a_killed_one_is_not(tmp_path: Path, child: Callable) -> None:
    path = tmp_path / "a.lock"
    holder = child(hold(path))
    with pytest.raises(jobs.LockBusy, match=f"process {holder.pid} "), jobs.exclusive(path, wait_s=0.3):
        pass
    holder.kill()
    holder.wait()
    assert path.exists(), "a killed holder leaves the file"
    with jobs.exclusive(path, wait_s=0.0):
        assert path.read_text() == f"{os.getpid()}\n"


def test_measurements_wait_for_other_jobs_and_jobs_share(tmp_path: Path, child: Callable, monkeypatch, capsys) -> None:
    monkeypatch.setenv("ANGELSPEC_MACHINE_LOCK", str(tmp_path / "machine.lock"))
    shared = HOLD.format(what="machine", call="machine(alone=False)")
    other = child(shared, ANGELSPEC_MACHINE_LOCK=str(tmp_path / "machine.lock"))
    with jobs.machine(alone=False):
        pass
    assert capsys.readouterr().err == ""
    started = time.monotonic()
    killer = subprocess.Popen([sys.executable, "-c", f"import time,os; time.sleep(0.6); os.kill({other.pid}, 9)"])
    with jobs.machine(alone=True):
        assert time.monotonic() - started > 0.5
    killer.wait()
    assert "waiting for the machine" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="prctl")
def test_it_dies_with_its_parent_even_if_that_is_killed(child: Callable) -> None:
    code = (
        "import subprocess, sys, time\n"
        "inner = 'from angelspec.jobs import die_with_parent; import time; die_with_parent(); print(1, flush=True); "
        "time.sleep(60)'\n"
        "process = subprocess.Popen([sys.executable, '-c', inner], stdout=subprocess.PIPE)\n"
        "process.stdout.readline()\n"
        "print('ready', process.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    inner = int(process.stdout.readline().split()[1])
    assert jobs.is_alive(inner)
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 5
    while jobs.is_alive(inner) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not jobs.is_alive(inner)


def test_a_parent_that_is_dead_already_is_noticed() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    code = "from angelspec.jobs import die_with_parent; die_with_parent(); print('alive')"
    environment = {**os.environ, jobs.PARENT: str(gone.pid)}
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 1 and result.stdout == ""


def test_every_library_gets_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in jobs.THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    jobs.use_threads(3)
    assert {os.environ[name] for name in jobs.THREAD_VARIABLES} == {"3"}
    with pytest.raises(ValueError, match="threads is 0"):
        jobs.use_threads(0)


def test_the_heartbeat_tells_the_state_and_stops(capsys: pytest.CaptureFixture[str]) -> None:
    with jobs.Heartbeat("work", lambda: "cell 2/5", every_s=0.05):
        time.sleep(0.2)
    told = capsys.readouterr().err.splitlines()
    assert len(told) >= 2 and all(line == "[work 0:00:00] cell 2/5" for line in told)
    time.sleep(0.1)
    assert capsys.readouterr().err == ""
