"""Run one command-line stage of the library for the workflow.

    python workflow/scripts/run_stage.py --log x.log --threads 2 -- angelspec.data.prepare --out results/...

The module runs in this process as ``python -m`` would run it, with the rule's threads, under a lock, and dies with
Snakemake. What it prints goes to the terminal (progress) and to the log. An error that a user can act on is one line;
the log has the rest.
"""

from __future__ import annotations

import argparse
import contextlib
import runpy
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # a bare checkout has nothing installed

from angelspec.jobs import LockBusy, die_with_parent, exclusive, machine, use_threads


class Tee:
    """A text stream that also writes to a log file, at once, so that a killed job leaves its last words."""

    def __init__(self, stream: TextIO, log: TextIO) -> None:
        self.stream, self.log = stream, log

    def write(self, text: str) -> int:
        self.log.write(text)
        self.log.flush()
        return self.stream.write(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    die_with_parent()
    signal.signal(signal.SIGTERM, _stop)
    use_threads(options.threads)
    Path(options.log).parent.mkdir(parents=True, exist_ok=True)
    with Path(options.log).open("w", encoding="utf-8") as log:
        out, err = Tee(sys.stdout, log), Tee(sys.stderr, log)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):  # type: ignore[type-var]
            try:
                with exclusive(f"{options.log}.lock"), machine(alone=options.timed):
                    return run_module(options.module, options.arguments)
            except (LockBusy, ValueError, OSError) as error:
                traceback.print_exc(file=log)
                print(f"{options.module}: {error}\n({options.log} shows where)", file=sys.stderr)
                return 1


def run_module(module: str, arguments: Sequence[str]) -> int:
    """Run ``module`` as ``__main__`` with ``arguments``; returns its exit status."""
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return int(end.code or 0)
    return 0


def _stop(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run one command-line stage for the workflow.")
    parser.add_argument("--log", required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--timed", action="store_true", help="measures time: have the machine alone")
    parser.add_argument("module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
