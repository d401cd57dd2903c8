"""Two runs compared, with "no difference" as an answer.

    python -m angelspec.evaluation.compare before.json after.json [metric]

Both files come from `angelspec bench --json`, with the same prompts, seeds and blocks. Block i of one run is compared
with block i of the other (the same prompts), cell by cell. A difference counts when its paired interval excludes none
after Holm's correction over all cells, and when it is larger than `TOLERANCE`: two runs of the same code differ by
something, always.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import stats

from angelspec.evaluation import bootstrap
from angelspec.evaluation.bootstrap import Interval
from angelspec.io import read_json

ALPHA = 0.05
TOLERANCE = 0.01  # differences of a per cent are nobody's concern, however certain
CELL = ("arm", "domain", "temperature", "concurrency", "rate")
Block = Mapping[str, Any]


@dataclass(frozen=True)
class Comparison:
    """One cell. ratio: second / first run with its interval; p by Holm; verdict about the second run."""

    cell: tuple[Any, ...]
    ratio: Interval
    p: float
    verdict: Literal["higher", "lower", "no difference"]

    def __str__(self) -> str:
        arm, domain, temperature, concurrency, rate = self.cell
        where = f"{arm}, {domain}, T = {temperature:g}, x{concurrency}" + ("" if rate is None else f", {rate:g}/s")
        value, lo, hi = (100 * (x - 1) for x in (self.ratio.value, self.ratio.lo, self.ratio.hi))
        seen = f"{value:+.1f} % [{lo:+.1f}, {hi:+.1f}]"
        return f"{where}: {self.verdict} ({seen}, n = {self.ratio.n}, p = {self.p:.2g})"


def compare(
    first: Sequence[Block], second: Sequence[Block], metric: str = "throughput", tolerance: float = TOLERANCE
) -> list[Comparison]:
    """Every cell of two runs. Blocks: {arm, domain, temperature, concurrency, rate, block, values: {metric: value}}.

    Raises ValueError when the runs have different cells or blocks, a cell lacks the metric, or has a single block.
    """
    a, b = _cells(first, metric), _cells(second, metric)
    if a.keys() != b.keys():
        odd = sorted(map(str, a.keys() ^ b.keys()))
        raise ValueError(f"only one of the two runs has {'; '.join(odd[:3])}; compare runs of the same cells")
    ratios, p_values = [], []
    for cell in a:
        if a[cell].keys() != b[cell].keys() or len(a[cell]) < 2:
            raise ValueError(
                f"{cell}: blocks {sorted(a[cell])} and {sorted(b[cell])}; expected the same ones in both, at least 2"
            )
        x, y = (np.array([run[cell][block] for block in sorted(a[cell])]) for run in (a, b))
        ratios.append(bootstrap.paired_ratio(x, y))
        p_values.append(_p_value(np.log(y / x)))
    adjusted = holm(p_values)
    return [
        Comparison(cell, ratio, p, _verdict(ratio, p, tolerance))
        for cell, ratio, p in zip(a, ratios, adjusted, strict=True)
    ]


def compare_arms(blocks: Sequence[Block], first: str, second: str, metric: str = "throughput") -> list[Comparison]:
    """Two arms of one run, block by block, in every cell."""
    own = {name: [{**b, "arm": f"{second} / {first}"} for b in blocks if b["arm"] == name] for name in (first, second)}
    for name, found in own.items():
        if not found:
            raise ValueError(f"the run has no arm {name!r}; it has {', '.join(sorted({b['arm'] for b in blocks}))}")
    return compare(own[first], own[second], metric)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p values of a family (Holm, 1979), in the given order."""
    order = np.argsort(p_values)
    adjusted, running = np.empty(len(p_values)), 0.0
    for rank, index in enumerate(order):
        running = max(running, (len(p_values) - rank) * p_values[index])
        adjusted[index] = min(1.0, running)
    return [float(p) for p in adjusted]


def _p_value(log_ratios: np.ndarray) -> float:
    """Two-sided paired t test of no difference; without any spread it is undefined, and decided by eye."""
    if np.ptp(log_ratios) == 0:
        return 1.0 if log_ratios[0] == 0 else 0.0
    return float(stats.ttest_1samp(log_ratios, 0.0).pvalue)


def _verdict(ratio: Interval, p: float, tolerance: float) -> Literal["higher", "lower", "no difference"]:
    if p >= ALPHA or abs(math.log(ratio.value)) <= math.log1p(tolerance):
        return "no difference"
    return "higher" if ratio.value > 1 else "lower"


def _cells(blocks: Sequence[Block], metric: str) -> dict[tuple[Any, ...], dict[int, float]]:
    cells: dict[tuple[Any, ...], dict[int, float]] = {}
    for block in blocks:
        if metric not in block["values"]:
            raise ValueError(f"a block has no {metric!r}; it has {', '.join(block['values'])}")
        cells.setdefault(tuple(block[name] for name in CELL), {})[block["block"]] = block["values"][metric]
    return cells


def main(arguments: Sequence[str]) -> int:
    """Print one line per cell."""
    if not 2 <= len(arguments) <= 3:
        print((__doc__ or "").split("\n\n")[1].strip(), file=sys.stderr)
        return 2
    runs = [read_json(Path(path)) for path in arguments[:2]]
    try:
        found = compare(*(run["blocks"] for run in runs), *arguments[2:])
    except (ValueError, KeyError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for one in found:
        print(one)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
