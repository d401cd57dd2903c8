"""Metrics against hand-made traces and naive loops; traces of real runs against what the engine itself counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from angelspec.decoding.engine import Engine
from angelspec.decoding.request import Answer, Request
from angelspec.drafters.ngram import NGramDrafter
from angelspec.evaluation import metrics
from angelspec.evaluation.trace import SCHEMA, TIMES, Recorder, confidence_matrix, read_trace, write_trace
from angelspec.verification.policies import StepBatch


def hand_made(rows: list[tuple[str, int, int, int, list[float]]]) -> pd.DataFrame:
    """(request, rows, accepted, committed, confidences); rows -1 is the pass that ends the prompt."""
    frame = pd.DataFrame(
        {
            "request": [r[0] for r in rows],
            "prefill": [r[1] < 0 for r in rows],
            "rows": [max(r[1], 0) for r in rows],
            "accepted": [r[2] for r in rows],
            "committed": [r[3] for r in rows],
            "confidences": [np.array(r[4], dtype=np.float32) for r in rows],
            "drafted": [len(r[4]) for r in rows],
            "step": range(len(rows)),
        }
    )
    return frame


TRACE = hand_made(
    [
        ("a", -1, 0, 1, []),
        ("a", 3, 3, 4, [0.9, 0.8, 0.5]),
        ("a", 3, 0, 1, [0.1, 0.2, 0.5]),
        ("b", -1, 0, 1, []),
        ("b", 2, 1, 2, [0.5, 0.5, 0.5]),
        ("b", 2, 2, 3, [1.0, 1.0, 1.0]),
        ("b", 0, 0, 1, [0.5, 0.5, 0.5]),
        ("b", 3, 3, 2, [1.0, 1.0, 1.0]),  # a stop cut this block behind its second token
    ]
)


def test_tau_in_its_three_forms() -> None:
    tau = metrics.tau(TRACE)
    # a: 2 passes, 5 tokens, 3 of them drafts; b: 4 passes, 8 tokens, 1 + 2 + 0 + 2 drafts
    assert tau.tokens.value == pytest.approx(13 / 6)
    assert tau.prompts.value == pytest.approx((5 / 2 + 8 / 4) / 2)
    assert tau.without_bonus.value == pytest.approx(8 / 6)
    assert tau.tokens.n == 2 and tau.tokens.lo == pytest.approx(2.0) and tau.tokens.hi == pytest.approx(2.5)


def test_acceptance_by_slot() -> None:
    found = metrics.acceptance(TRACE)
    # slot 1 verified 5 times, accepted 4; slot 2 verified 5, judged 4 (slot 1 accepted), accepted 3; slot 3: 3, 2, 2
    assert found.judged.tolist() == [5, 4, 2]
    np.testing.assert_allclose(found.conditional, [4 / 5, 3 / 4, 1.0])
    np.testing.assert_allclose(found.cumulative, [4 / 5, 3 / 5, 2 / 3])
    np.testing.assert_allclose(found.survival, [4 / 5, 3 / 5, 3 / 5])
    assert np.isnan(metrics.acceptance(TRACE, slots=4).conditional[3])


def test_product_of_means_beside_mean_of_products() -> None:
    c = np.array([[0.9, 0.8, 0.5], [0.1, 0.2, 0.5], [0.5] * 3, [1.0] * 3, [0.5] * 3, [1.0] * 3])
    found = metrics.expected_length(TRACE)
    of_means, of_products, m = 1.0, 1.0, c.mean(0)
    for k in (1, 2, 3):
        of_means += float(np.prod(m[:k]))
        of_products += float(np.mean([np.prod(row[:k]) for row in c]))
    assert found.product_of_means == pytest.approx(of_means)
    assert found.mean_of_products == pytest.approx(of_products) and of_products > of_means
    assert found.survival == pytest.approx(1 + 4 / 5 + 3 / 5 + 3 / 5)
    assert metrics.expected_length(TRACE[TRACE["prefill"]]).mean_of_products == 1.0


def test_survival_sees_through_a_depth_chosen_by_chance() -> None:
    """True acceptances .8 .6 .5; the depth of each pass is drawn without looking: products of `conditional` are right,
    and the mean of committed tokens is not the tau of a full verification."""
    rng = np.random.default_rng(0)
    ok = rng.random((40_000, 3)) < np.array([0.8, 0.6, 0.5])
    depth = rng.integers(0, 4, 40_000)
    accepted = np.minimum(ok.cumprod(1).sum(1), depth)
    rows = [
        (str(i % 50), int(d), int(a), int(a) + 1, [0.5] * 3)
        for i, (d, a) in enumerate(zip(depth, accepted, strict=True))
    ]
    found = metrics.acceptance(hand_made(rows))
    np.testing.assert_allclose(found.survival, [0.8, 0.48, 0.24], atol=0.015)
    full = [(r[0], 3, int(k), int(k) + 1, r[4]) for r, k in zip(rows, ok.cumprod(1).sum(1), strict=True)]
    whole = metrics.acceptance(hand_made(full))
    np.testing.assert_allclose(whole.survival, whole.cumulative)
    assert 1 + whole.survival.sum() == pytest.approx(metrics.tau(hand_made(full)).tokens.value)


def test_domains_and_what_cannot_be_measured() -> None:
    parts = metrics.by_domain(TRACE, {"a": "code", "b": "math"})
    assert list(parts) == ["all", "code", "math"] and len(parts["math"]) == 5
    with pytest.raises(KeyError, match="without a domain: b"):
        metrics.by_domain(TRACE, {"a": "code"})
    with pytest.raises(ValueError, match="no decoding pass"):
        metrics.tau(TRACE[TRACE["prefill"]])


class Alternating:
    """Drafts in two steps of three only, and verifies a part."""

    name, looks_at = "alternating", "history"

    def __init__(self) -> None:
        self.asked = 0

    def draft_slots(self, batch: StepBatch, costs: Any = None) -> int:
        self.asked += 1
        return (3, 0, 2)[self.asked % 3]

    def __call__(self, survival: torch.Tensor, batch: StepBatch, costs: Any = None) -> torch.Tensor:
        return torch.full((len(survival),), 2)


@pytest.fixture(scope="module")
def traced(tiny_llama: Any) -> tuple[pd.DataFrame, list[Answer], Engine]:
    engine = Engine(tiny_llama, NGramDrafter(3), slots=3, max_len=64, policy=Alternating(), prefill_rows=4)
    engine.trace = recorder = Recorder()
    requests = [Request(f"r{i}", [4, 9, i + 1] * 2 if i else [4], max_new_tokens=10 + i) for i in range(7)]
    answers = engine.run(requests)
    return recorder.frame(), answers, engine


def test_a_trace_agrees_with_the_answers(traced: tuple[pd.DataFrame, list[Answer], Engine]) -> None:
    trace, answers, engine = traced
    assert list(trace.columns) == SCHEMA.names
    for answer in answers:
        own = trace[trace["request"] == answer.id]
        assert own["round"].tolist() == list(range(answer.rounds))
        assert own["committed"].sum() == len(answer.token_ids)
        assert (own["rows"].sum(), own["accepted"].sum()) == (answer.drafted, answer.accepted)
        prompt = len(answer.prompt_ids)
        assert own["position"].tolist() == (prompt - 1 + own["committed"].cumsum() - own["committed"]).tolist()
        assert own["prefill"].tolist() == [prompt > 1] + [False] * (answer.rounds - 1)
    assert (trace["rows"] <= trace["drafted"]).all() and (trace["accepted"] <= trace["rows"]).all()
    assert {0, 2, 3} == set(trace["drafted"])
    assert (trace["confidences"].map(len) == trace["drafted"]).all()
    steps = trace.drop_duplicates("step")
    assert steps["target_rows"].sum() <= engine.stats.rows and len(steps) <= engine.stats.steps
    assert steps[TIMES].to_numpy().min() >= 0
    assert steps[TIMES].to_numpy().sum() == pytest.approx(engine.stats.seconds, rel=0.5)
    assert steps["started"].is_monotonic_increasing


def test_a_trace_comes_back_from_its_file(traced: tuple[pd.DataFrame, list[Answer], Engine], tmp_path: Path) -> None:
    trace = traced[0]
    write_trace(tmp_path / "t.parquet", trace, {"arm": "ngram", "hardware": "this"})
    again, about = read_trace(tmp_path / "t.parquet")
    assert about == {"arm": "ngram", "hardware": "this"}
    pd.testing.assert_frame_equal(again, trace)
    np.testing.assert_array_equal(confidence_matrix(again), confidence_matrix(trace))
    assert confidence_matrix(trace).shape == (len(trace), 3)
    assert (np.isfinite(confidence_matrix(trace)).sum(1) == trace["drafted"]).all()
    trace.drop(columns="rows").to_parquet(tmp_path / "odd.parquet")
    with pytest.raises(ValueError, match="is no trace.*rows"):
        read_trace(tmp_path / "odd.parquet")
    assert Recorder().frame().empty
