"""Closed-loop throughput: a fixed number of requests at the same time, all arms on the same prompts in turn.

A cell is one arm at one concurrency c. Each repeat answers c prompts, all submitted at once, to exactly `new_tokens`
tokens (end-of-text is ignored): the work is the same for every arm, and the time includes reading the prompts. Repeats
of the arms alternate, so that a slow minute of the machine hits all of them. A short warm-up per cell is timed apart;
it holds whatever is compiled or allocated on first use.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy import stats

from angelspec.decoding.categorical import SamplingParams
from angelspec.decoding.drafter import Drafter
from angelspec.decoding.engine import Engine
from angelspec.decoding.request import Answer, Request
from angelspec.evaluation.memory import peak_bytes, reset_peak
from angelspec.targets.model import Target

WARM_UP_TOKENS = 4


@dataclass(frozen=True)
class Setting:
    """What a throughput run holds fixed. `domain` names the prompts, `scale` the budget in the rows."""

    concurrency: Sequence[int] = (1, 4, 16, 64)
    new_tokens: int = 128
    repeats: int = 3
    temperature: float = 0.0
    seed: int = 0
    domain: str = "all"
    scale: str = "bench"
    claim: str = "throughput"

    def __post_init__(self) -> None:
        if not self.concurrency or min(self.concurrency) < 1:
            raise ValueError(f"concurrency is {list(self.concurrency)}; expected one or more numbers of at least 1")
        if self.new_tokens < 1 or self.repeats < 1:
            raise ValueError(f"new_tokens {self.new_tokens} and repeats {self.repeats}: expected at least 1 of each")


@dataclass(frozen=True)
class Sample:
    """One repeat of one cell: metric -> value, in the units of UNITS."""

    values: dict[str, float]


UNITS = {
    "throughput": "tok/s",
    "user_speed": "tok/s",
    "first_token": "s",
    "tau": "tokens/pass",
    "step": "ms",
    "forward": "ms",
    "sample": "ms",
    "draft": "ms",
    "host_share": "1",
    "peak_memory": "GiB",
}


def run(
    target: Target,
    arms: Mapping[str, Callable[[], Drafter]],
    prompts: Sequence[Sequence[int]],
    setting: Setting,
    hardware: str,
    say: Callable[[str], None] = print,
) -> list[dict[str, Any]]:
    """Measure all arms at all concurrencies; the rows of the summary.

    Raises ValueError when there are fewer prompts than the largest concurrency.
    """
    if len(prompts) < max(setting.concurrency):
        raise ValueError(
            f"{len(prompts)} prompts for {max(setting.concurrency)} requests at once; give at least as many"
        )
    rows: list[dict[str, Any]] = []
    for c in setting.concurrency:
        samples: dict[str, list[Sample]] = {arm: [] for arm in arms}
        max_len = max(len(p) for p in prompts) + setting.new_tokens
        engines = {arm: Engine(target, make(), slots=c, max_len=max_len) for arm, make in arms.items()}
        for arm, engine in engines.items():
            began = time.perf_counter()
            engine.run(_requests(prompts, c, 0, setting, WARM_UP_TOKENS))
            rows.append(_row(setting, arm, c, hardware, "warm_up", [time.perf_counter() - began], "s"))
        for repeat in range(setting.repeats):
            for arm, engine in engines.items():
                samples[arm].append(_measure(engine, _requests(prompts, c, repeat, setting, setting.new_tokens)))
        for arm, measured in samples.items():
            for metric, unit in UNITS.items():
                rows.append(_row(setting, arm, c, hardware, metric, [s.values[metric] for s in measured], unit))
            say(describe(arm, c, rows))
    return rows


def describe(arm: str, concurrency: int, rows: Sequence[Mapping[str, Any]]) -> str:
    """One line about a cell."""
    cell = {r["metric"]: r for r in rows if (r["arm"], r["concurrency"]) == (arm, concurrency)}
    speed = cell["throughput"]
    spread = "" if speed["lo"] is None else f" [{speed['lo']:.1f}, {speed['hi']:.1f}]"
    return (
        f"{arm:>6} x{concurrency:<3} {speed['value']:8.1f} tok/s{spread}, {cell['user_speed']['value']:.1f} per user, "
        f"tau {cell['tau']['value']:.2f}, step {cell['step']['value']:.1f} ms (forward {cell['forward']['value']:.1f}, "
        f"sample {cell['sample']['value']:.2f}, draft {cell['draft']['value']:.2f}, host "
        f"{100 * cell['host_share']['value']:.1f} %), peak {cell['peak_memory']['value']:.2f} GiB"
    )


def _requests(
    prompts: Sequence[Sequence[int]], count: int, repeat: int, setting: Setting, new_tokens: int
) -> list[Request]:
    """`count` prompts, other ones in every repeat as long as there are enough."""
    places = [(repeat * count + i) % len(prompts) for i in range(count)]
    return [
        Request(str(place), prompts[place], SamplingParams(setting.temperature, seed=setting.seed + place), new_tokens)
        for place in places
    ]


def _measure(engine: Engine, requests: Sequence[Request]) -> Sample:
    device = engine.target.device
    reset_peak(device)
    began = time.perf_counter()
    answers = engine.run(requests)
    seconds = time.perf_counter() - began
    if engine.interrupted:
        raise KeyboardInterrupt
    s = engine.stats
    per_step = 1000.0 / s.steps
    return Sample(
        {
            "throughput": sum(len(a.token_ids) for a in answers) / seconds,
            "user_speed": statistics.fmean(_user_speed(a) for a in answers),
            "first_token": statistics.fmean(a.first_token - a.submitted for a in answers),
            "tau": s.tau,
            "step": s.seconds * per_step,
            "forward": s.forward_seconds * per_step,
            "sample": s.sample_seconds * per_step,
            "draft": s.draft_seconds * per_step,
            "host_share": s.host_share,
            "peak_memory": peak_bytes(device) / 2**30,
        }
    )


def _user_speed(answer: Answer) -> float:
    return len(answer.token_ids) / (answer.finished - answer.submitted)


def _row(
    setting: Setting, arm: str, concurrency: int, hardware: str, metric: str, values: Sequence[float], unit: str
) -> dict[str, Any]:
    """One row: the mean of the repeats and its 95 % interval by Student's t; no interval from a single repeat."""
    mean, lo, hi = statistics.fmean(values), None, None
    if len(values) > 1:
        half = float(stats.t.ppf(0.975, len(values) - 1)) * statistics.stdev(values) / math.sqrt(len(values))
        lo, hi = mean - half, mean + half
    return {
        "claim": setting.claim,
        "arm": arm,
        "drafter": None,
        "mixture": None,
        "domain": setting.domain,
        "concurrency": concurrency,
        "temperature": setting.temperature,
        "metric": metric,
        "value": mean,
        "lo": lo,
        "hi": hi,
        "n": len(values),
        "unit": unit,
        "seed": setting.seed,
        "scale": setting.scale,
        "hardware": hardware,
    }
