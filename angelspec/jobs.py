"""What every job of the workflow does to be a good neighbour: its share of threads, locks, an end with its parent.

A workflow may be killed at any moment with SIGKILL, which no program can catch. Then (1) its jobs must not live on and
finish files behind the back of the next run, and (2) locks must not outlive their holders. So jobs ask the kernel for
their own death when the parent dies, and locks are ``flock`` locks, which vanish with the process that holds them: a
lock *file* that lies around means nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from angelspec.io import is_alive

PARENT = "ANGELSPEC_PARENT"  # process id of whoever started the job; set by the workflow and by the notebook runner
THREAD_VARIABLES = (
    "ANGELSPEC_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
_PR_SET_PDEATHSIG = 1


class LockBusy(RuntimeError):
    """Somebody else holds the lock. The message names the holder."""


def die_with_parent() -> None:
    """From here on, this process is killed when its parent ends, however the parent ends.

    Linux does it (``prctl``). It ties the life to the *thread* that started this process, which Snakemake's pool keeps
    alive. Elsewhere a thread looks once a second. A parent that died before this call is noticed by its id in the
    environment.
    """
    parent = int(os.environ.get(PARENT, "0")) or os.getppid()
    if sys.platform == "linux":
        if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed; jobs could outlive a killed workflow")
    else:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if not is_alive(parent):
        os._exit(1)


def use_threads(threads: int) -> None:
    """Give ``threads`` to torch, OpenMP and BLAS, here and in child processes. Call before torch is imported."""
    if threads < 1:
        raise ValueError(f"threads is {threads}, expected at least 1")
    for name in THREAD_VARIABLES:
        os.environ[name] = str(threads)


def skip_uri_grammar() -> None:
    """Keep jsonschema from building its URI grammar on import: it takes seconds per process and is never used here.

    jsonschema treats the grammar package as optional. Call before papermill, nbformat or jsonschema is imported.
    """
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]


@contextlib.contextmanager
def exclusive(path: str | Path, wait_s: float = 30.0) -> Iterator[Path]:
    """Hold the lock file ``path`` alone; it is removed at the end.

    The wait is for an orphan of a killed run that is just dying. What a dead holder left is taken over at once.

    Raises:
        LockBusy: when a living process still holds it after ``wait_s`` seconds.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    told = False
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        if _flock(descriptor, fcntl.LOCK_EX) and _same_file(descriptor, path):
            break
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
        os.close(descriptor)
        if time.monotonic() - began > wait_s:
            raise LockBusy(f"process {holder or '?'} is writing the same outputs ({path}); wait for it or end it")
        if not told and time.monotonic() - began > 1.0:
            print(f"waiting for process {holder or '?'}, which writes the same outputs", file=sys.stderr, flush=True)
            told = True
        time.sleep(min(0.1, wait_s))
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield path
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


@contextlib.contextmanager
def machine(alone: bool) -> Iterator[None]:
    """Share the machine with other angelspec jobs, or, for measurements, wait until it is ours ``alone``.

    One file in the temporary folder serves all users and all clones of the machine: jobs hold it shared, timed ones
    exclusively. ``ANGELSPEC_MACHINE_LOCK`` names another file.
    """
    path = os.environ.get("ANGELSPEC_MACHINE_LOCK") or os.path.join(tempfile.gettempdir(), "angelspec-machine.lock")
    descriptor = os.open(path, os.O_RDONLY | os.O_CREAT, 0o666)
    with contextlib.suppress(PermissionError):  # another user made the file; reading is enough for flock
        os.chmod(path, 0o666)
    kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    try:
        if not _flock(descriptor, kind):
            others = "other angelspec jobs run" if alone else "a timed angelspec job runs"
            print(f"waiting for the machine: {others} on it", file=sys.stderr, flush=True)
            fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)


class Heartbeat:
    """Prints ``status()`` with the elapsed time to stderr every ``every_s`` seconds while the block runs."""

    def __init__(self, name: str, status: Callable[[], str], every_s: float = 10.0) -> None:
        self.name, self.status, self.every_s = name, status, every_s
        self._started = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def elapsed(self) -> str:
        seconds = int(time.monotonic() - self._started)
        return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"

    def say(self, text: str) -> None:
        print(f"[{self.name} {self.elapsed()}] {text}", file=sys.stderr, flush=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self.every_s):
            self.say(self.status())


def _watch(parent: int) -> None:
    while is_alive(parent):
        time.sleep(1.0)
    os._exit(1)


def _flock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _same_file(descriptor: int, path: Path) -> bool:
    """False when the file was removed (by its last holder) between opening and locking it."""
    with contextlib.suppress(FileNotFoundError):
        return os.fstat(descriptor).st_ino == path.stat().st_ino
    return False
