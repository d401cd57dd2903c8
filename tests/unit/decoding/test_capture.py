"""Captured features are those of a fresh forward over the finished text, whatever was drafted and rejected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from angelspec.data.records import AnswerRecord, FeatureShard, TargetRows, read_records, write_shard
from angelspec.decoding.capture import Capture
from angelspec.decoding.engine import Engine
from angelspec.decoding.request import Answer, Request
from tests.unit.decoding.mock_drafters import Ragged, Repeating
from tests.unit.decoding.test_engine import make_requests

LAYERS = (3, 1)  # any order; the mock drafter wants 0 and 2 at the same time


def run(target: Any, requests: list[Request], drafter: Any) -> dict[str, tuple[Answer, TargetRows]]:
    found: dict[str, tuple[Answer, TargetRows]] = {}
    capture = Capture(LAYERS, lambda answer, rows: found.update({answer.id: (answer, rows)}))
    engine = Engine(target, drafter, slots=3, max_len=80, policy=Ragged(), prefill_rows=10)
    plain = engine.run(requests)
    assert [a.token_ids for a in engine.run(requests, capture=capture)] == [a.token_ids for a in plain]
    return found


@pytest.mark.parametrize("speculative", [False, True])
def test_rows_equal_a_fresh_forward(tiny_llama: Any, stock: Callable[..., Any], speculative: bool) -> None:
    requests = [
        Request(r.id, r.prompt_ids, r.params, 10, stop_ids=(3, 7, 50)) for r in make_requests(9, new_tokens=10, seed=4)
    ]
    found = run(tiny_llama, requests, Repeating() if speculative else None)
    assert set(found) == {r.id for r in requests}
    for answer, rows in found.values():
        text = torch.tensor([[*answer.prompt_ids, *answer.token_ids]])
        truth = stock(tiny_llama, text[:, :-1])
        features = torch.stack([truth.hidden_states[k + 1][0] for k in (3, 1)], 1)
        if 3 in LAYERS:  # transformers' last hidden state has the final norm already; undo by asking the layer below it
            assert torch.equal(truth.hidden_states[-1][0].to(torch.bfloat16), rows.final_hidden)
            features, captured = features[:, 1:], rows.features[:, 1:]
        assert captured.dtype == torch.bfloat16 and torch.equal(captured, features.to(torch.bfloat16))
        normed = tiny_llama.final_norm(rows.features[:, 0].double())
        assert torch.allclose(normed, truth.hidden_states[-1][0], atol=0.05)
        assert rows.lse.dtype == torch.float32
        assert torch.allclose(rows.lse.double(), truth.logits[0].logsumexp(1), atol=1e-5)


def test_a_shard_of_captured_answers_reads_back(tiny_llama: Any, tmp_path: Path) -> None:
    found = list(run(tiny_llama, make_requests(3, new_tokens=4, seed=5), None).values())
    records = [
        AnswerRecord(a.id, "chat", "test", 0, (), a.prompt_ids, a.token_ids, a.finish_reason, a.params.seed)
        for a, _ in found
    ]
    write_shard(tmp_path, 0, records, [rows for _, rows in found], {"layer_ids": list(LAYERS)})
    assert [(r.id, r.response_ids) for r in read_records(tmp_path, 0)] == [(a.id, a.token_ids) for a, _ in found]
    shard = FeatureShard(tmp_path, 0)
    for i, (answer, rows) in enumerate(found):
        back = shard.rows(i)
        assert len(back.lse) == len(answer.prompt_ids) + len(answer.token_ids) - 1
        assert torch.equal(back.features, rows.features) and torch.equal(back.lse, rows.lse)


def test_interrupted_answers_are_not_captured(tiny_llama: Any) -> None:
    import os
    import signal

    found: list[Answer] = []
    engine = Engine(tiny_llama, slots=2, max_len=80)
    steps = 0

    def interrupt(chunk: Any) -> None:
        nonlocal steps
        steps += 1
        if steps == 30:
            os.kill(os.getpid(), signal.SIGINT)

    capture = Capture((1,), lambda answer, rows: found.append(answer))
    answers = engine.run(make_requests(8, new_tokens=9), on_token=interrupt, capture=capture)
    done = [a.id for a in answers if a.finish_reason == "length"]
    assert 0 < len(done) < 8 and sorted(a.id for a in found) == sorted(done)
