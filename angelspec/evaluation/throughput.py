"""Throughput: every arm on the same prompts, in one process, in turn.

A cell is one kind of traffic at one temperature and one number of clients c; in it all arms are compared. A block is
`waves * c` prompts, answered once by every arm right after each other, the order rotating from block to block: a slow
minute of the machine hits all arms, and speeds are compared within blocks. A short warm-up of every arm comes first and
is not measured; it holds whatever is compiled or allocated on first use.

Answers end where the target ends them (or, with `ignore_eos`, after exactly `new_tokens`; what a model writes behind
its own end is repetitive and flatters drafters). Under rule A all arms write the same tokens with the same seeds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from angelspec.decoding.categorical import SamplingParams
from angelspec.decoding.drafter import Drafter
from angelspec.decoding.engine import Engine
from angelspec.decoding.exactness import Rule
from angelspec.decoding.request import Request
from angelspec.evaluation import loops, report
from angelspec.evaluation.summary import Row
from angelspec.targets.model import Target
from angelspec.verification.policies import Full, Policy

WARM_UP_TOKENS = 4
MIXED = "all"


@dataclass(frozen=True)
class Arm:
    """One way of decoding. `drafter` and `mixture` are labels for the rows."""

    name: str
    make: Callable[[], Drafter]
    policy: Policy = field(default_factory=Full)
    rule: Rule = "A"
    costs: Any = None
    drafter: str | None = None
    mixture: str | None = None


@dataclass(frozen=True)
class Setting:
    """What a run holds fixed.

    concurrency   numbers of clients; blocks: repeats of a cell; waves: requests of each client in a block
    traffic       domains to serve alone, and "all" for the mix of them; () is each of them and the mix
    rates         requests per second of an open loop with Poisson arrivals, measured besides
    """

    concurrency: Sequence[int] = (1, 4, 16, 64)
    new_tokens: int = 128
    blocks: int = 3
    waves: int = 1
    temperatures: Sequence[float] = (0.0,)
    traffic: Sequence[str] = ()
    rates: Sequence[float] = ()
    ignore_eos: bool = False
    seed: int = 0
    scale: str = "bench"
    claim: str = "throughput"

    def __post_init__(self) -> None:
        if not self.concurrency or min(self.concurrency) < 1:
            raise ValueError(f"concurrency is {list(self.concurrency)}; expected one or more numbers of at least 1")
        if min(self.new_tokens, self.blocks, self.waves) < 1 or not self.temperatures:
            raise ValueError(
                f"new_tokens {self.new_tokens}, blocks {self.blocks}, waves {self.waves}, temperatures "
                f"{list(self.temperatures)}: expected at least 1 of each"
            )


@dataclass(frozen=True)
class Cell:
    """Where a measurement was made. `rate` is None in a closed loop, `concurrency` the slots of an open one."""

    domain: str
    temperature: float
    concurrency: int
    rate: float | None = None


@dataclass(frozen=True)
class Sample:
    """One arm on one block of one cell."""

    cell: Cell
    arm: str
    block: int
    served: loops.Served


@dataclass
class Result:
    """Rows for the summary, every block of every arm, and one trace per (arm, cell)."""

    rows: list[Row] = field(default_factory=list)
    blocks: list[dict[str, Any]] = field(default_factory=list)
    traces: dict[tuple[str, Cell], pd.DataFrame] = field(default_factory=dict)


def run(
    target: Target,
    arms: Sequence[Arm],
    prompts: Mapping[str, Sequence[Sequence[int]]],
    setting: Setting,
    hardware: str,
    say: Callable[[str], None] = print,
) -> Result:
    """Measure all arms in all cells. `prompts`: domain -> token ids; requests are named "<domain>/<index>".

    Raises ValueError for two arms of one name, and for fewer prompts in a kind of traffic than clients at once.
    """
    if len({arm.name for arm in arms}) < len(arms):
        raise ValueError(f"arms {[arm.name for arm in arms]}: two have the same name, so their rows would too")
    traffic = streams(prompts, setting.traffic)
    for name, texts in traffic.items():
        if len(texts) < max(setting.concurrency):
            raise ValueError(
                f"{len(texts)} prompts of {name} for {max(setting.concurrency)} clients; give at least as many"
            )
    longest = max(len(ids) for texts in traffic.values() for _, ids in texts) + setting.new_tokens
    result = Result()
    for c in setting.concurrency:
        engines = {
            arm.name: Engine(
                target, arm.make(), slots=c, max_len=longest, policy=arm.policy, rule=arm.rule, costs=arm.costs
            )
            for arm in arms
        }
        texts = next(iter(traffic.values()))
        warm = {
            name: _warm_up(engine, _requests(target, texts, 0, c, 0.0, setting)) for name, engine in engines.items()
        }
        result.rows += [report.warm_up_row(arm, c, warm[arm.name], setting, hardware) for arm in arms]
        for domain, texts in traffic.items():
            for temperature in setting.temperatures:
                for rate in (None, *setting.rates):
                    cell = Cell(domain, temperature, c, rate)
                    samples = _measure(target, engines, texts, cell, setting)
                    report.add_cell(result, cell, samples, arms, setting, hardware)
                    say(report.describe(cell, result.rows))
    return result


def streams(
    prompts: Mapping[str, Sequence[Sequence[int]]], wanted: Sequence[str] = ()
) -> dict[str, list[tuple[str, Sequence[int]]]]:
    """Kinds of traffic: name -> (request id, prompt). The mix takes the domains in turn until one has no more."""
    named = {d: [(f"{d}/{i}", ids) for i, ids in enumerate(texts)] for d, texts in prompts.items()}
    mixed = [one for group in zip(*named.values(), strict=False) for one in group]
    kinds = {**named, MIXED: mixed} if len(named) > 1 or MIXED in wanted else named
    unknown = sorted(set(wanted) - kinds.keys())
    if unknown:
        raise ValueError(f"traffic {', '.join(unknown)} is unknown; there is {', '.join(kinds)}")
    return {name: kinds[name] for name in wanted or kinds}


def _measure(
    target: Target,
    engines: Mapping[str, Engine],
    texts: Sequence[tuple[str, Sequence[int]]],
    cell: Cell,
    setting: Setting,
) -> list[Sample]:
    names, samples = list(engines), []
    for block in range(setting.blocks):
        requests = _requests(target, texts, block, cell.concurrency * setting.waves, cell.temperature, setting)
        turn = block % len(names)
        for name in names[turn:] + names[:turn]:
            if cell.rate is None:
                served = loops.closed_loop(engines[name], requests)
            else:
                arrivals = loops.poisson_arrivals(len(requests), cell.rate, setting.seed + block)
                served = loops.open_loop(engines[name], requests, arrivals)
            samples.append(Sample(cell, name, block, served))
    return samples


def _requests(
    target: Target,
    texts: Sequence[tuple[str, Sequence[int]]],
    block: int,
    count: int,
    temperature: float,
    setting: Setting,
) -> list[Request]:
    """`count` prompts, other ones in every block as long as there are enough. A prompt keeps its seed everywhere."""
    stops = () if setting.ignore_eos else tuple(target.eos_ids)
    places = [(block * count + i) % len(texts) for i in range(count)]
    return [
        Request(*texts[at], SamplingParams(temperature, seed=setting.seed + at), setting.new_tokens, stops)
        for at in places
    ]


def _warm_up(engine: Engine, requests: Sequence[Request]) -> float:
    """Seconds of a short run that is not measured."""
    began = time.perf_counter()
    engine.run([Request(r.id, r.prompt_ids, r.params, min(WARM_UP_TOKENS, r.max_new_tokens)) for r in requests])
    return time.perf_counter() - began
