"""From the blocks of a throughput run to rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from angelspec.evaluation import bootstrap, metrics
from angelspec.evaluation.bootstrap import Interval
from angelspec.evaluation.summary import Row, make_row

if TYPE_CHECKING:
    from angelspec.evaluation.throughput import Arm, Cell, Result, Sample, Setting

BASELINE = "ar"
# Measured in every block; the row is their mean with Student's t interval over blocks.
BLOCK_UNITS = {
    "throughput": "tok/s",
    "steady_throughput": "tok/s",
    "user_speed": "tok/s",
    "first_token": "s",
    "step": "ms",
    "forward": "ms",
    "sample": "ms",
    "draft": "ms",
    "host_share": "1",
    "peak_memory": "GiB",
}
PERCENTILES = (50, 90, 99)


def block_values(sample: Sample) -> dict[str, float]:
    """metric -> value of one block, in BLOCK_UNITS; steady_throughput only where there is one."""
    served, s = sample.served, sample.served.stats
    per_step = 1000.0 / s.steps
    steady = served.steady_throughput(sample.cell.concurrency) if sample.cell.rate is None else None
    values = {
        "throughput": served.throughput,
        "user_speed": float(np.mean(served.user_speeds())),
        "first_token": float(np.mean(served.first_tokens())),
        "step": s.seconds * per_step,
        "forward": s.forward_seconds * per_step,
        "sample": s.sample_seconds * per_step,
        "draft": s.draft_seconds * per_step,
        "host_share": s.host_share,
        "peak_memory": served.peak / 2**30,
    }
    return values if steady is None else values | {"steady_throughput": steady}


def add_cell(
    result: Result, cell: Cell, samples: Sequence[Sample], arms: Sequence[Arm], setting: Setting, hardware: str
) -> None:
    """Rows, blocks and traces of one cell, all arms."""
    values = {arm.name: [block_values(s) for s in samples if s.arm == arm.name] for arm in arms}
    for arm in arms:
        own = [s for s in samples if s.arm == arm.name]
        result.traces[arm.name, cell] = trace = _joined([s.served.trace for s in own])
        result.blocks += [
            {"arm": arm.name, **vars(cell), "block": s.block, "values": v}
            for s, v in zip(own, values[arm.name], strict=True)
        ]
        rows = _Rows(arm, cell, setting, hardware)
        for metric, unit in BLOCK_UNITS.items():
            measured = [v[metric] for v in values[arm.name] if metric in v]
            if measured:
                rows.add(metric, unit, bootstrap.student(measured))
        _percentiles(rows, own)
        _acceptance(rows, trace)
        if BASELINE in values and arm.name != BASELINE:
            a, b = ([v["throughput"] for v in values[name]] for name in (BASELINE, arm.name))
            rows.add("speedup", "1", bootstrap.paired_ratio(a, b))
            if (predicted := predicted_speedup(result.traces.get((BASELINE, cell)), trace)) is not None:
                rows.add("predicted_speedup", "1", predicted)
        result.rows += rows.made


def predicted_speedup(ar: pd.DataFrame | None, trace: pd.DataFrame) -> float | None:
    """tau / ((draft + verify) / AR step), each from the steps in which nothing but decoding happened and the batch was
    as full as it ever was; None without such steps. What is missing in a measured speed-up was lost outside of them.
    """
    if ar is None:
        return None
    plain, own = _decode_steps(ar), _decode_steps(trace)
    if not len(plain) or not len(own):
        return None
    ar_step = plain[["draft", "verify", "sample", "commit", "host"]].sum(axis=1).mean()
    tokens_per_pass = own["committed"].sum() / own["requests"].sum()
    return float(tokens_per_pass / (own[["draft", "verify"]].sum(axis=1).mean() / ar_step))


def warm_up_row(arm: Arm, concurrency: int, seconds: float, setting: Setting, hardware: str) -> Row:
    """How long the warm-up took: compilation, first allocations."""
    return make_row(
        seconds,
        **_labels(arm, setting, hardware),
        domain="all",
        concurrency=concurrency,
        temperature=None,
        metric="warm_up",
        unit="s",
    )


def describe(cell: Cell, rows: Sequence[Mapping[str, Any]]) -> str:
    """A few lines about a cell."""
    rate = "" if cell.rate is None else f", {cell.rate:g} requests/s"
    lines = [f"{cell.domain}, T = {cell.temperature:g}, {cell.concurrency} at once{rate}"]
    own = [r for r in rows if (r["domain"], r["temperature"], r["concurrency"]) == tuple(vars(cell).values())[:3]]
    for arm in dict.fromkeys(r["arm"] for r in own):
        at = {r["metric"]: r for r in own if r["arm"] == arm}
        name = _namer(cell)

        def value(metric: str, digits: int = 1, at: Any = at, name: Any = name) -> str:
            row = at.get(name(metric))
            if row is None:
                return "-"
            spread = "" if row["lo"] is None else f" [{row['lo']:.{digits}f}, {row['hi']:.{digits}f}]"
            return f"{row['value']:.{digits}f}{spread}"

        lines.append(
            f"  {arm:>14} {value('throughput')} tok/s, {value('user_speed')} per user, tau {value('tau', 2)}, "
            f"speed-up {value('speedup', 2)}, p90 {value('latency_p90', 2)} s, step {value('step')} ms"
        )
    return "\n".join(lines)


class _Rows:
    """Rows of one arm in one cell."""

    def __init__(self, arm: Arm, cell: Cell, setting: Setting, hardware: str) -> None:
        self.made: list[Row] = []
        self._name = _namer(cell)
        self._fields = _labels(arm, setting, hardware) | {
            "domain": cell.domain,
            "concurrency": cell.concurrency,
            "temperature": cell.temperature,
        }

    def add(self, metric: str, unit: str, result: Interval | float, **more: Any) -> None:
        self.made.append(make_row(result, **self._fields, metric=self._name(metric), unit=unit, **more))


def _namer(cell: Cell) -> Any:
    """Metrics of an open loop carry its rate: latency_p90@2rps."""
    return lambda metric: metric if cell.rate is None else f"{metric}@{cell.rate:g}rps"


def _labels(arm: Arm, setting: Setting, hardware: str) -> dict[str, Any]:
    return {
        "claim": setting.claim,
        "arm": arm.name,
        "drafter": arm.drafter,
        "mixture": arm.mixture,
        "seed": setting.seed,
        "scale": setting.scale,
        "hardware": hardware,
    }


def _percentiles(rows: _Rows, samples: Sequence[Sample]) -> None:
    """Over all requests of all blocks."""
    for metric in ("latencies", "first_tokens", "token_times"):
        values = [x for s in samples for x in getattr(s.served, metric)()]
        name = {"latencies": "latency", "first_tokens": "first_token", "token_times": "token_time"}[metric]
        for p in PERCENTILES if values else ():
            rows.add(f"{name}_p{p}", "s", float(np.percentile(values, p)), n=len(values))


def _acceptance(rows: _Rows, trace: pd.DataFrame) -> None:
    if not len(metrics.passes(trace)):
        return  # answers of one token
    tau = metrics.tau(trace)
    for name, value in (("tau", tau.tokens), ("tau_prompts", tau.prompts), ("tau_no_bonus", tau.without_bonus)):
        rows.add(name, "tokens/pass", value)
    slots = metrics.acceptance(trace)
    for k, (value, judged) in enumerate(zip(slots.conditional, slots.judged, strict=True), start=1):
        if judged:
            rows.add(f"acceptance_{k}", "1", float(value), n=int(judged))


def _joined(traces: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Traces after one another, with steps numbered on."""
    parts, first = [], 0
    for trace in traces:
        parts.append(trace.assign(step=trace["step"] + first))
        first += int(trace["step"].max()) + 1 if len(trace) else 0
    return pd.concat(parts, ignore_index=True)


def _decode_steps(trace: pd.DataFrame) -> pd.DataFrame:
    """Per step: times and sums over its requests, of full steps without prompt rows."""
    firsts = dict.fromkeys(
        ("requests", "running", "target_rows", "draft", "verify", "sample", "commit", "host"), "first"
    )
    steps = trace.groupby("step").agg(firsts | {"committed": "sum", "rows": "sum", "prefill": "any"})
    plain = ~steps["prefill"] & (steps["target_rows"] == steps["rows"] + steps["requests"])
    return steps[plain & (steps["requests"] == trace["requests"].max())]
