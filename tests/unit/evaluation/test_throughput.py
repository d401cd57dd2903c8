"""The throughput run on a tiny target: blocks, rows, units, intervals, and what it refuses."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from angelspec.drafters.ar import ARDrafter
from angelspec.drafters.ngram import NGramDrafter
from angelspec.evaluation import loops, metrics, report, throughput
from angelspec.evaluation.bench_prompts import bench_prompts
from angelspec.evaluation.summary import FIELDS, check_row
from angelspec.evaluation.throughput import Arm, Cell, Result, Setting
from angelspec.verification.policies import Fixed

ARMS = [
    Arm("ar", ARDrafter),
    Arm("ngram", lambda: NGramDrafter(3), drafter="lookup"),
    Arm("ngram-fixed1", lambda: NGramDrafter(3), Fixed(1)),
]
SETTING = Setting(concurrency=(1, 3), new_tokens=5, blocks=3, waves=2, temperatures=(0.0, 1.0), ignore_eos=True)


def some_prompts(count: int, seed: int = 0) -> list[list[int]]:
    """Prompts that repeat themselves, so that lookup finds something."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(1, 97, (3,), generator=generator).tolist() * 3 for _ in range(count)]


@pytest.fixture(scope="module")
def result(tiny_llama: Any) -> Result:
    said: list[str] = []
    prompts = {"code": some_prompts(7), "math": some_prompts(9, seed=1)}
    result = throughput.run(tiny_llama, ARMS, prompts, SETTING, "this machine", said.append)
    assert len(said) == 2 * 3 * 2 and "tok/s" in said[0] and "code, T = 0, 1 at once" in said[0]
    return result


def test_every_cell_has_every_metric_with_the_fields_of_the_summary(result: Result) -> None:
    cells = {(r["domain"], r["temperature"], r["concurrency"]) for r in result.rows if r["metric"] != "warm_up"}
    assert cells == {(d, t, c) for d in ("code", "math", "all") for t in (0.0, 1.0) for c in (1, 3)}
    for cell in cells:
        for arm in ARMS:
            own = [r for r in result.rows if r["arm"] == arm.name]
            found = {r["metric"]: r for r in own if (r["domain"], r["temperature"], r["concurrency"]) == cell}
            assert found.keys() >= report.BLOCK_UNITS.keys() | {"tau", "tau_prompts", "tau_no_bonus", "latency_p99"}
            assert ("speedup" in found) == ("predicted_speedup" in found) == (arm.name != "ar")
            for metric, unit in report.BLOCK_UNITS.items():
                row = found[metric]
                assert list(row) == list(FIELDS) and row["unit"] == unit and row["drafter"] == arm.drafter
                assert row["n"] == 3 and row["lo"] <= row["value"] <= row["hi"]
            assert found["latency_p50"]["n"] == 3 * 2 * cell[2]
    for row in result.rows:
        check_row(row)


def test_blocks_hold_the_same_prompts_for_every_arm_and_other_ones_each_time(result: Result) -> None:
    for (_, cell), trace in result.traces.items():
        assert set(trace["request"]) == set(result.traces["ar", cell]["request"])
        assert trace["step"].is_monotonic_increasing
        if cell.domain == "all":
            names = {name.split("/")[0] for name in trace["request"]}
            assert names == {"code", "math"}
    assert len(result.blocks) == 12 * 3 * 3
    at = Cell("math", 0.0, 3)
    assert len(set(result.traces["ar", at]["request"])) == 9  # 3 blocks of 6 prompts out of 9


def test_arms_write_the_same_tokens(result: Result) -> None:
    """Rule A at both temperatures: what was committed for a prompt does not depend on the arm, so neither does tau's
    numerator."""
    for (_, cell), trace in result.traces.items():
        total = trace.groupby("request")["committed"].sum()
        assert total.equals(result.traces["ar", cell].groupby("request")["committed"].sum())
        assert int(total.sum()) == 3 * 2 * cell.concurrency * 5


def test_the_numbers_fit_each_other(result: Result) -> None:
    for block in result.blocks:
        v = block["values"]
        parts = sum(v[m] for m in ("forward", "sample", "draft"))
        assert parts == pytest.approx(v["step"] * (1 - v["host_share"]), rel=0.01)
        # at least as fast as the total divided by the clients: a client's time starts when its last answer was there
        assert v["user_speed"] * block["concurrency"] >= 0.9 * v["throughput"]
        assert v["peak_memory"] > 0.01 and (v["draft"] > 0) == (block["arm"] != "ar")
    rows = {(r["arm"], r["domain"], r["temperature"], r["concurrency"], r["metric"]): r["value"] for r in result.rows}
    assert rows["ar", "all", 0.0, 3, "tau"] == 1.0
    assert rows["ngram", "all", 0.0, 3, "tau"] >= rows["ngram-fixed1", "all", 0.0, 3, "tau"] >= 1.0
    blocks = [b for b in result.blocks if (b["domain"], b["temperature"], b["concurrency"]) == ("all", 0.0, 1)]
    speeds = {arm: [b["values"]["throughput"] for b in blocks if b["arm"] == arm] for arm in ("ar", "ngram")}
    ratios = [math.log(b / a) for a, b in zip(speeds["ar"], speeds["ngram"], strict=True)]
    assert rows["ngram", "all", 0.0, 1, "speedup"] == pytest.approx(math.exp(sum(ratios) / 3))


def test_the_order_of_the_arms_rotates(tiny_llama: Any) -> None:
    order: list[str] = []

    def noted(name: str) -> Any:
        class Noted(ARDrafter):
            def reset(self, state: None, slots: torch.Tensor) -> None:
                order.append(name)

        return Noted

    setting = Setting(concurrency=(1,), new_tokens=2, blocks=3)
    throughput.run(tiny_llama, [Arm(n, noted(n)) for n in "abc"], {"x": [[1, 2]]}, setting, "x", lambda line: None)
    assert "".join(order) == "abc" + "abc" + "bca" + "cab"  # a warm-up, then three blocks


def test_open_loop_counts_waiting_from_the_scheduled_arrival(tiny_llama: Any) -> None:
    from angelspec.decoding.engine import Engine
    from angelspec.decoding.request import Request

    requests = [Request(str(i), ids, max_new_tokens=6) for i, ids in enumerate(some_prompts(5))]
    engine = Engine(tiny_llama, slots=1, max_len=32)
    engine.run(requests[:1])
    served = loops.open_loop(engine, requests, [0.0, 0.0, 0.0, 0.0, 0.6])
    assert [a.id for a in served.answers] == list("01234")
    # four at once for one slot: each waits for those before it; the fifth comes when the engine has long been idle
    waits = served.latencies()
    assert waits[0] < waits[1] < waits[2] < waits[3] and waits[4] < waits[3]
    assert served.ended - served.began > 0.6 and min(served.first_tokens()) > 0
    assert served.throughput == pytest.approx(30 / (served.ended - served.began))
    assert engine.trace is None and set(served.trace["request"]) == set("01234")
    with pytest.raises(ValueError, match="not decreasing"):
        loops.open_loop(engine, requests[:2], [1.0, 0.5])


def test_open_loop_rows_carry_their_rate(tiny_llama: Any) -> None:
    setting = Setting(concurrency=(2,), new_tokens=3, blocks=2, rates=(200.0,))
    result = throughput.run(tiny_llama, ARMS[:2], {"x": some_prompts(4)}, setting, "x", lambda line: None)
    assert {"latency_p90@200rps", "tau@200rps", "throughput@200rps", "throughput"} <= {r["metric"] for r in result.rows}
    assert {b["rate"] for b in result.blocks} == {None, 200.0}


def test_poisson_arrivals() -> None:
    times = loops.poisson_arrivals(4001, rate=5.0, seed=1)
    assert times == loops.poisson_arrivals(4001, 5.0, 1) != loops.poisson_arrivals(4001, 5.0, 2)
    gaps = torch.tensor(times).diff()
    assert times[0] == 0 and gaps.min() >= 0
    assert gaps.mean() == pytest.approx(0.2, rel=0.05) and gaps.std() == pytest.approx(0.2, rel=0.07)
    with pytest.raises(ValueError, match="rate is 0"):
        loops.poisson_arrivals(3, 0, 1)


def test_steady_throughput_leaves_out_ramp_and_drain(tiny_llama: Any) -> None:
    """Ten requests for two clients, the last one long: the drain has one client only and does not count."""
    from angelspec.decoding.engine import Engine
    from angelspec.decoding.request import Request

    requests = [Request(str(i), [5, 7], max_new_tokens=4) for i in range(9)] + [
        Request("9", [5, 7], max_new_tokens=200)
    ]
    served = loops.closed_loop(Engine(tiny_llama, slots=2, max_len=256), requests)
    first = max(a.first_token for a in served.answers[:2])
    last = sorted(a.finished for a in served.answers)[8]
    steady = served.steady_throughput(2)
    assert steady is not None and 20 <= steady * (last - first) <= 9 * 4 + 8
    assert served.steady_throughput(11) is None
    rows = served.trace[served.trace["running"] == 1]
    assert len(rows) > 150  # what was left out


def test_settings_that_make_no_sense_are_refused(tiny_llama: Any) -> None:
    for wrong in ({"concurrency": (4, 0)}, {"blocks": 0}, {"temperatures": ()}, {"waves": 0}):
        with pytest.raises(ValueError, match="expected"):
            Setting(**wrong)
    run, quiet = throughput.run, lambda line: None
    with pytest.raises(ValueError, match="2 prompts of x for 4 clients"):
        run(tiny_llama, ARMS, {"x": [[1], [2]]}, Setting(concurrency=(4,)), "x", quiet)
    with pytest.raises(ValueError, match="two have the same name"):
        run(tiny_llama, [ARMS[0], ARMS[0]], {"x": [[1], [2]]}, Setting(concurrency=(1,)), "x", quiet)
    with pytest.raises(ValueError, match="traffic chat is unknown; there is x"):
        run(tiny_llama, ARMS, {"x": [[1], [2]]}, Setting(concurrency=(1,), traffic=("chat",)), "x", quiet)


def test_a_mix_takes_the_domains_in_turn() -> None:
    kinds = throughput.streams({"a": [[1], [2], [3]], "b": [[4], [5]]})
    assert [name for name, _ in kinds["all"]] == ["a/0", "b/0", "a/1", "b/1"]
    assert list(kinds) == ["a", "b", "all"] and list(throughput.streams({"a": [[1]]})) == ["a"]
    assert list(throughput.streams({"a": [[1]], "b": [[2]]}, ("all", "b"))) == ["all", "b"]


def test_a_recorder_costs_next_to_nothing(tiny_llama: Any) -> None:
    """Recording a step is a list of names and a few references: far below a millisecond at 16 requests."""
    import time

    from angelspec.decoding.engine import Engine
    from angelspec.decoding.request import Request
    from angelspec.evaluation.trace import Recorder

    engine = Engine(tiny_llama, NGramDrafter(3), slots=16, max_len=64)
    recorder, spent = Recorder(), []
    original = engine._record

    def timed(*arguments: Any) -> Any:
        began = time.perf_counter()
        record = original(*arguments)
        spent.append(time.perf_counter() - began)
        return record

    engine._record, engine.trace = timed, recorder  # type: ignore[method-assign]
    engine.run([Request(str(i), ids, max_new_tokens=20) for i, ids in enumerate(some_prompts(16))])
    assert sorted(spent)[len(spent) // 2] < 5e-4
    assert 0 < metrics.host_share(recorder.frame()) < 1


def test_peak_memory_is_reset_where_the_system_allows_it() -> None:
    """In a process of its own: what earlier tests left resident here would hide the difference."""
    import json
    import subprocess
    import sys
    from pathlib import Path

    program = """
import json, torch
from angelspec.evaluation.memory import peak_bytes, reset_peak
cpu = torch.device("cpu")
big = torch.ones(40_000_000)  # 160 MB
with_it = peak_bytes(cpu)
del big
reset_peak(cpu)
print(json.dumps([with_it, peak_bytes(cpu)]))
"""
    root = Path(__file__).parents[3]
    result = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    with_it, without = json.loads(result.stdout)
    if Path("/proc/self/clear_refs").exists():
        assert without < with_it - 100_000_000
    assert without > 10_000_000


def test_built_in_prompts_are_distinct_and_ordinary() -> None:
    prompts = bench_prompts()
    assert len(set(prompts)) == len(prompts) == 128
    assert all("{" not in p and 60 < len(p) < 160 for p in prompts)
