"""Driving an engine: clients that wait for their answers (closed loop), and clients that arrive at will (open loop)."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from angelspec.decoding.engine import Engine
from angelspec.decoding.request import Answer, Request
from angelspec.decoding.stats import EngineStats
from angelspec.evaluation.memory import peak_bytes, reset_peak
from angelspec.evaluation.trace import Recorder


@dataclass(frozen=True)
class Served:
    """What came of one run.

    arrived   when each request was sent, seconds of time.perf_counter: in a closed loop when its client's last answer
              was there; in an open one when it was scheduled to arrive, so that waiting behind a busy engine counts
    began, ended   of the whole run; peak bytes of memory
    """

    answers: list[Answer]
    arrived: list[float]
    began: float
    ended: float
    trace: pd.DataFrame
    stats: EngineStats
    peak: int

    @property
    def tokens(self) -> int:
        return sum(len(a.token_ids) for a in self.answers)

    @property
    def throughput(self) -> float:
        """Output tokens per second from the first request to the last answer, reading prompts and draining included."""
        return self.tokens / (self.ended - self.began)

    def steady_throughput(self, clients: int) -> float | None:
        """Output tokens per second while all clients were being answered: from the moment the first `clients` requests
        have a first token to the first moment a client has nothing left to send. None when there is no such time.
        """
        if len(self.answers) < clients:
            return None
        first = max(a.first_token for a in sorted(self.answers, key=lambda a: a.started)[:clients])
        last = sorted(a.finished for a in self.answers)[len(self.answers) - clients]
        steps = self.trace.groupby("step").agg(
            {"started": "first", "draft": "first", "verify": "first", "sample": "first", "committed": "sum"}
        )
        # The recorder's clock starts with the run; a step counts when its tokens came inside the window.
        done = self.began + steps["started"] + steps["draft"] + steps["verify"] + steps["sample"]
        inside = (done > first) & (done <= last)
        return float(steps["committed"][inside].sum() / (last - first)) if last > first and inside.any() else None

    def user_speeds(self) -> list[float]:
        """Output tokens per second as each client sees them, from sending to the end."""
        return [len(a.token_ids) / (a.finished - at) for a, at in zip(self.answers, self.arrived, strict=True)]

    def latencies(self) -> list[float]:
        """Seconds from sending to the whole answer."""
        return [a.finished - at for a, at in zip(self.answers, self.arrived, strict=True)]

    def first_tokens(self) -> list[float]:
        """Seconds from sending to the first token."""
        return [a.first_token - at for a, at in zip(self.answers, self.arrived, strict=True)]

    def token_times(self) -> list[float]:
        """Mean seconds per token after the first one, of every answer that has more than one."""
        return [(a.finished - a.first_token) / (len(a.token_ids) - 1) for a in self.answers if len(a.token_ids) > 1]


def closed_loop(engine: Engine, requests: Sequence[Request]) -> Served:
    """As many clients as the engine has slots share the requests; each sends its next one when it has its answer.

    Raises KeyboardInterrupt on SIGINT: half a measurement is none.
    """
    reset_peak(engine.target.device)
    engine.trace = recorder = Recorder()
    began = time.perf_counter()
    try:
        answers = engine.run(requests)
    finally:
        engine.trace = None
    ended = time.perf_counter()
    if engine.interrupted:
        raise KeyboardInterrupt
    arrived = [a.started for a in answers]
    return Served(answers, arrived, began, ended, recorder.frame(), engine.stats, peak_bytes(engine.target.device))


def open_loop(engine: Engine, requests: Sequence[Request], arrivals: Sequence[float]) -> Served:
    """Request i is sent arrivals[i] seconds (not decreasing) after the start, whatever the engine is doing then."""
    if len(arrivals) != len(requests) or any(b < a for a, b in zip(arrivals, arrivals[1:], strict=False)):
        raise ValueError(f"{len(arrivals)} arrivals for {len(requests)} requests; expected one each, not decreasing")
    reset_peak(engine.target.device)
    engine.stats, engine.trace = EngineStats(), (recorder := Recorder())
    due = deque(range(len(requests)))
    place: dict[int, int] = {}
    answers: dict[int, Answer] = {}
    began = time.perf_counter()
    try:
        while due or len(answers) < len(requests):
            now = time.perf_counter() - began
            while due and arrivals[due[0]] <= now:
                at = due.popleft()
                place[engine.submit(requests[at])] = at
            if len(place) == len(answers):
                time.sleep(max(0.0, arrivals[due[0]] - now))
                continue
            answers.update({place[number]: answer for number, answer in engine.step().items()})
    finally:
        engine.trace = None
    ended = time.perf_counter()
    return Served(
        [answers[i] for i in range(len(requests))],
        [began + at for at in arrivals],
        began,
        ended,
        recorder.frame(),
        engine.stats,
        peak_bytes(engine.target.device),
    )


def poisson_arrivals(count: int, rate: float, seed: int) -> list[float]:
    """Arrival times in seconds of a Poisson process with `rate` requests per second; the first one at 0."""
    if rate <= 0:
        raise ValueError(f"arrival rate is {rate}; expected requests per second above 0")
    gaps = np.random.default_rng(seed).exponential(1 / rate, size=count)
    gaps[:1] = 0.0
    return [float(t) for t in gaps.cumsum()]
