"""The trace of a run: one row for every time a request was verified.

A recorder is set on the engine (`engine.trace = Recorder()`). During the run it only keeps references to the tensors of
each step; everything is unpacked when the trace is asked for.

Columns. Times are seconds and belong to the whole step, so the rows of one step repeat them.

    step, requests, running, target_rows   number of the step, requests verified, requests in the engine, rows read
    request, round, position               id; 0, 1, ... within the request; sequence position of the anchor
    prefill       the request has just read its prompt and has its first token from it; nothing was or could be drafted
    drafted       draft tokens proposed (N, or fewer where the drafter had less to say)
    rows          draft rows verified, the anchor row not counted
    confidences   list of `drafted` estimates that slot k is accepted given that all before it were
    accepted      draft tokens that the target agreed with; committed: new tokens, cut at stops and limits
    started       seconds since the recorder was made
    draft, verify, sample, commit, host    parts of the step, see angelspec.decoding.stats.StepTimes
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from angelspec.decoding.stats import StepRecord, StepTimes
from angelspec.io import atomic_path

SCHEMA = pa.schema(
    [
        ("step", pa.int32()),
        ("requests", pa.int32()),
        ("running", pa.int32()),
        ("target_rows", pa.int32()),
        ("request", pa.string()),
        ("round", pa.int32()),
        ("position", pa.int32()),
        ("prefill", pa.bool_()),
        ("drafted", pa.int16()),
        ("rows", pa.int16()),
        ("confidences", pa.list_(pa.float32())),
        ("accepted", pa.int16()),
        ("committed", pa.int16()),
        ("started", pa.float64()),
        ("draft", pa.float32()),
        ("verify", pa.float32()),
        ("sample", pa.float32()),
        ("commit", pa.float32()),
        ("host", pa.float32()),
    ]
)
TIMES = ["draft", "verify", "sample", "commit", "host"]
_META = b"angelspec"


class Recorder:
    """Collects the steps of a run. Steps that verified nobody (prompts still being read) have no rows."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._steps: list[tuple[StepRecord, StepTimes]] = []

    def __call__(self, record: StepRecord, times: StepTimes) -> None:
        self._steps.append((record, times))

    def frame(self) -> pd.DataFrame:
        """The trace so far."""
        parts = [self._unpack(i, *step) for i, step in enumerate(self._steps)]
        columns = {name: [x for part in parts for x in part[name]] for name in SCHEMA.names}
        return pa.table(columns, schema=SCHEMA).to_pandas()

    def _unpack(self, number: int, record: StepRecord, times: StepTimes) -> dict[str, list[Any]]:
        count = len(record.requests)
        confidences = record.drafted.confidence.detach().float().cpu().numpy()
        lengths = torch.full((len(confidences),), confidences.shape[1] if confidences.ndim == 2 else 0)
        if record.drafted.lengths is not None:
            lengths = record.drafted.lengths.cpu()
        drafted = lengths[: record.decoding].tolist() + [0] * (count - record.decoding)
        step = {
            "step": number,
            "requests": count,
            "running": record.running,
            "target_rows": record.target_rows,
            "started": times.started - self._began,
            **{name: getattr(times, name) for name in TIMES},
        }
        return {name: [value] * count for name, value in step.items()} | {
            "request": record.requests,
            "round": (record.rounds - 1).tolist(),
            "position": record.positions.tolist(),
            "prefill": [i >= record.decoding for i in range(count)],
            "drafted": drafted,
            "rows": record.rows.tolist(),
            "confidences": [confidences[i, :n] if n else confidences[:0].ravel() for i, n in enumerate(drafted)],
            "accepted": record.accepted.tolist(),
            "committed": record.committed.tolist(),
        }


def write_trace(path: str | Path, trace: pd.DataFrame, about: Mapping[str, Any]) -> None:
    """Write a trace as parquet. `about` (JSON values: arm, drafter, policy, hardware, ...) goes into the file."""
    table = pa.Table.from_pandas(trace, schema=SCHEMA, preserve_index=False)
    table = table.replace_schema_metadata({_META: json.dumps(dict(about)).encode()})
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def read_trace(path: str | Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """A trace and what was said about it. Raises ValueError for a parquet file that is no trace."""
    table = pq.read_table(path)
    if table.schema.names != SCHEMA.names:
        odd = sorted(set(table.schema.names) ^ set(SCHEMA.names))
        raise ValueError(f"{path} is no trace: columns missing or unknown: {', '.join(odd)}")
    about = json.loads((table.schema.metadata or {}).get(_META, b"{}"))
    return table.to_pandas(), about


def confidence_matrix(trace: pd.DataFrame) -> np.ndarray:
    """Confidences float32 [rounds, N], NaN where nothing was drafted; N is the longest draft."""
    width = int(trace["drafted"].max()) if len(trace) else 0
    matrix = np.full((len(trace), width), np.nan, dtype=np.float32)
    lengths = trace["drafted"].to_numpy()
    inside = np.arange(width) < lengths[:, None]
    if inside.any():
        matrix[inside] = np.concatenate([np.asarray(c) for c in trace["confidences"]])
    return matrix
