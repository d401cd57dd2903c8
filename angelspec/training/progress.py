"""The progress line and the metrics of a run."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from angelspec.io import atomic_path

SMOOTHING = 0.95


class MetricsTable:
    """Rows of numbers that end up in one parquet file. All rows have the same columns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = []

    def load(self, last_step: int) -> None:
        """Take over the rows of an interrupted run up to `last_step`; what it did after its checkpoint is done
        again.
        """
        rows = pq.read_table(self.path).to_pylist() if self.path.is_file() else []
        self.rows = [row for row in rows if row["step"] <= last_step]

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row; it must have a `step`."""
        self.rows.append(dict(row))

    def write(self) -> None:
        """Replace the file by all rows so far."""
        if self.rows:
            with atomic_path(self.path) as temporary:
                pq.write_table(pa.Table.from_pylist(self.rows), temporary)


class ProgressLine:
    """Loss, acceptance by slot, speed and remaining time: one line that is rewritten on a terminal, one line now and
    then elsewhere.
    """

    def __init__(self, steps: int, stream: TextIO | None = None, every_s: float | None = None) -> None:
        self._steps, self._stream = steps, stream or sys.stderr
        self._live = self._stream.isatty()
        self._every = every_s if every_s is not None else (0.2 if self._live else 15.0)
        self._shown = -self._every
        self._smooth: dict[str, float] = {}

    def update(self, row: Mapping[str, Any], progress: float) -> None:
        """Show one metrics row; `progress` is the share of the budget that is used up."""
        for key in (k for k in row if k == "loss" or k == "tokens_per_s" or k.startswith("correct_")):
            self._smooth[key] = SMOOTHING * self._smooth.get(key, row[key]) + (1 - SMOOTHING) * row[key]
        now = time.monotonic()
        if now - self._shown < self._every and progress < 1:
            return
        self._shown = now
        text = self.text(row, progress)
        self._stream.write(f"\r\x1b[2K{text}" if self._live else f"{text}\n")
        self._stream.flush()

    def text(self, row: Mapping[str, Any], progress: float) -> str:
        """The line itself."""
        slots = " ".join(f"{100 * value:.0f}" for key, value in self._smooth.items() if key.startswith("correct_"))
        left = row["seconds"] * (1 - progress) / max(progress, 1e-9)
        tau = f" · tau {row['tau']:.2f}" if row.get("tau") else ""
        return (
            f"step {row['step']}/{self._steps} · loss {self._smooth['loss']:.3f} · accepted by slot {slots} %{tau}"
            f" · {self._smooth['tokens_per_s']:,.0f} tok/s · {_clock(left)} left"
        )

    def close(self) -> None:
        """End the line."""
        if self._live:
            self._stream.write("\n")


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
