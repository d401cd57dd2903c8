"""Intervals that cover what they should, comparisons that find what is there and nothing else, rows of the summary."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from angelspec.evaluation import bootstrap
from angelspec.evaluation.bootstrap import Interval
from angelspec.evaluation.compare import compare, compare_arms, holm, main
from angelspec.evaluation.summary import FIELDS, check_row, make_row, merge, read_summary, select, write_summary


def test_a_ratio_is_resampled_like_a_naive_loop_does() -> None:
    rng = np.random.default_rng(0)
    top, bottom = rng.integers(1, 50, 12).astype(float), rng.integers(1, 20, 12).astype(float)
    found = bootstrap.ratio(top, bottom, seed=3, draws=500)
    naive = []
    for counts in bootstrap.resamples(12, 3, 500):
        drawn = np.repeat(np.arange(12), counts.astype(int))
        assert len(drawn) == 12
        naive.append(top[drawn].sum() / bottom[drawn].sum())
    assert found.value == pytest.approx(top.sum() / bottom.sum())
    assert (found.lo, found.hi) == pytest.approx(tuple(np.quantile(naive, [0.025, 0.975])))
    assert found == bootstrap.ratio(top, bottom, seed=3, draws=500) != bootstrap.ratio(top, bottom, seed=4, draws=500)


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    hits = {"ratio": 0, "student": 0}
    for i in range(300):
        passes = rng.integers(5, 15, 40).astype(float)
        tokens = passes * rng.gamma(20, 2.0 / 20, 40)
        hits["ratio"] += bootstrap.ratio(tokens, passes, seed=i, draws=400).contains(2.0)
        hits["student"] += bootstrap.student(rng.normal(5, 1, 6)).contains(5.0)
    assert 0.90 * 300 <= hits["ratio"] <= 0.985 * 300 and 0.92 * 300 <= hits["student"] <= 0.98 * 300


def test_pairing_removes_what_the_prompts_have_in_common() -> None:
    rng = np.random.default_rng(2)
    easy = rng.gamma(2, 2, 60) + 1  # prompts differ much
    ones = np.ones(60)
    better = easy * 1.05 + rng.normal(0, 0.02, 60)
    paired = bootstrap.quotient((easy, ones), (better, ones))
    assert paired.lo > 1.03 and paired.hi < 1.07
    assert bootstrap.difference((easy, ones), (better, ones)).lo > 0
    alone = bootstrap.ratio(easy, ones), bootstrap.ratio(better, ones)
    assert alone[0].hi > alone[1].lo  # unpaired intervals overlap widely


def test_student_and_paired_ratio_by_hand() -> None:
    one = bootstrap.student([1.0, 2.0, 3.0])  # standard deviation 1, t(0.975, 2) = 4.302653
    assert one.hi == pytest.approx(2 + 4.302653 / math.sqrt(3), rel=1e-6) and one.n == 3
    assert math.isnan(bootstrap.student([2.0]).lo)
    ratio = bootstrap.paired_ratio([1.0, 10.0], [2.0, 20.0])
    assert (ratio.value, ratio.lo, ratio.hi) == pytest.approx((2.0, 2.0, 2.0))
    for wrong in (lambda: bootstrap.ratio([], []), lambda: bootstrap.ratio([1.0], [1.0, 2.0])):
        with pytest.raises(ValueError, match="one number per prompt"):
            wrong()
    with pytest.raises(ValueError, match="positive"):
        bootstrap.paired_ratio([0.0], [1.0])


def run(seed: int, factors: dict[str, float], blocks: int = 10, noise: float = 0.03) -> list[dict[str, Any]]:
    """Blocks whose speeds share the difficulty of their prompts (the same in every run) and differ by noise."""
    easy, rng = np.random.default_rng(99).uniform(50, 150, blocks), np.random.default_rng(seed)
    return [
        {
            "arm": arm,
            "domain": "all",
            "temperature": 0.0,
            "concurrency": c,
            "rate": None,
            "block": b,
            "values": {"throughput": float(easy[b] * c * factor * math.exp(rng.normal(0, noise)))},
        }
        for arm, factor in factors.items()
        for c in (1, 4)
        for b in range(blocks)
    ]


def test_two_runs_of_the_same_speed_show_no_difference() -> None:
    """In 100 pairs of equal runs with 4 cells each, Holm lets about 5 in 100 families raise a false alarm."""
    alarms = 0
    for seed in range(100):
        found = compare(run(2 * seed, {"ar": 1.0, "dfly": 1.3}), run(2 * seed + 1, {"ar": 1.0, "dfly": 1.3}))
        alarms += any(one.verdict != "no difference" for one in found)
    assert alarms <= 12
    same = run(0, {"ar": 1.0})
    assert all(one.p == 1.0 and "no difference" in str(one) for one in compare(same, same))


def test_a_difference_is_found_where_it_is_and_named() -> None:
    found = {c.cell[0]: c for c in compare(run(1, {"ar": 1.0, "dfly": 1.0}), run(2, {"ar": 1.0, "dfly": 0.9}))}
    assert found["ar"].verdict == "no difference" and found["dfly"].verdict == "lower"
    assert found["dfly"].ratio.contains(0.9) and "dfly, all, T = 0, x4: lower (-" in str(found["dfly"])
    faster = compare_arms(run(3, {"ar": 1.0, "dfly": 1.3}), "ar", "dfly")
    assert [c.verdict for c in faster] == ["higher", "higher"] and faster[0].cell[0] == "dfly / ar"
    tiny = compare(run(4, {"ar": 1.0}, noise=1e-4), run(5, {"ar": 1.005}, noise=1e-4))
    assert all(c.p < 1e-6 and c.verdict == "no difference" for c in tiny)  # certain, and too small to matter


def test_runs_that_cannot_be_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = run(1, {"ar": 1.0})
    with pytest.raises(ValueError, match="only one of the two runs has"):
        compare(a, run(1, {"dfly": 1.0}))
    with pytest.raises(ValueError, match="expected the same ones in both"):
        compare(a, a[:-1])
    with pytest.raises(ValueError, match="no 'speed'"):
        compare(a, a, "speed")
    with pytest.raises(ValueError, match="no arm 'mtp'; it has ar"):
        compare_arms(a, "ar", "mtp")
    for name, blocks in (("a", a), ("b", run(2, {"ar": 1.4}))):
        (tmp_path / f"{name}.json").write_text(json.dumps({"blocks": blocks}))
    assert main([str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 0
    assert capsys.readouterr().out.count("higher (+") == 2
    assert main([str(tmp_path / "a.json")]) == 2 and main([*map(str, [tmp_path / "a.json"] * 2), "x"]) == 1


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == [] and holm([0.7, 0.9]) == [1.0, 1.0]


LABELS = {
    "claim": "c",
    "arm": "ar",
    "domain": "all",
    "metric": "tau",
    "unit": "1",
    "scale": "smoke",
    "hardware": "x",
    "concurrency": 4,
    "temperature": 0.0,
    "seed": 0,
}


def test_rows_are_made_checked_merged_and_read_back(tmp_path: Path) -> None:
    plain, spread = make_row(2, **LABELS), make_row(Interval(1.5, 1.0, 2.0, 7), **{**LABELS, "arm": "dfly"})
    assert list(plain) == list(FIELDS) and (plain["value"], plain["lo"], plain["n"]) == (2.0, None, 1)
    assert (spread["lo"], spread["hi"], spread["n"]) == (1.0, 2.0, 7)
    assert make_row(Interval(1.0, math.nan, math.nan, 1), **LABELS)["lo"] is None
    write_summary(tmp_path / "summary.json", [spread, plain])
    assert read_summary(tmp_path / "summary.json") == [plain, spread]  # sorted by key
    assert select([plain, spread], arm="dfly") == [spread]
    with pytest.raises(ValueError, match="b: two rows for c ar"):
        merge({"a": [plain], "b": [plain]})
    (tmp_path / "odd.json").write_text("{}")
    with pytest.raises(ValueError, match="expected a list"):
        read_summary(tmp_path / "odd.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": math.nan}, "value is nan"),
        ({"value": "2"}, "value is '2'; expected int or float"),
        ({"n": True}, "n is True"),
        ({"arm": None}, "arm is None; expected str"),
        ({"lo": 1.0}, "needs both lo and hi"),
        ({"lo": 2.0, "hi": 1.0}, "lo 2.0 is above hi 1.0"),
        ({"colour": "red"}, r"unknown fields \(colour\)"),
    ],
)
def test_rows_that_are_none(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_row({**make_row(1.0, **LABELS), **change})
    with pytest.raises(ValueError, match="unknown fields colour"):
        make_row(1.0, **LABELS, colour="red")
