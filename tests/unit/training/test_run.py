"""From answers on disk to a saved drafter, with a tiny random target."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from angelspec.data.records import AnswerRecord, TargetRows, write_shard
from angelspec.drafters.checkpoint import load_drafter
from angelspec.losses.objective import Objective
from angelspec.targets.rows import Rows
from angelspec.training import train
from angelspec.training.config import mtp_stages
from angelspec.training.mixture import choose_answers
from angelspec.training.run import RunConfig, build_drafter, spread_layers, train_drafter
from tests.conftest import build_tiny_target

LAYER_IDS = [0, 1, 3]


@pytest.fixture(scope="module")
def target() -> Any:
    made = build_tiny_target("llama", dtype=torch.float32)
    made.tokenizer.mask_token_id = 96
    return made


def record(number: int, domain: str, prompt: int, answer: int) -> AnswerRecord:
    draw = torch.randint(1, 90, (prompt + answer,), generator=torch.Generator().manual_seed(number)).tolist()
    return AnswerRecord(
        f"{domain}-{number}", domain, "test", 0, (), tuple(draw[:prompt]), tuple(draw[prompt:]), "stop", 0
    )


def write_answers(target: Any, folder: Path, records: list[AnswerRecord], temperature: float = 0.0) -> Path:
    rows = []
    for one in records:
        tokens = torch.tensor([*one.prompt_ids, *one.response_ids])[:-1]
        place = torch.arange(len(tokens))
        out = target.forward(
            Rows(tokens, place, torch.zeros_like(place)), target.new_cache(1, len(tokens)), layer_ids=LAYER_IDS
        )
        rows.append(TargetRows(out.features, out.final_hidden, out.logits.logsumexp(-1)))
    key = {"target": target.identity, "layer_ids": LAYER_IDS, "sampling": {"temperature": temperature}}
    write_shard(folder, 0, records, rows, key)
    return folder


@pytest.fixture
def answers(target: Any, tmp_path: Path) -> Path:
    return write_answers(
        target, tmp_path / "answers", [record(i, "chat" if i % 2 else "code", 4, 12) for i in range(8)]
    )


def plan(method: str, **drafter: object) -> dict[str, Any]:
    training = {"steps": 3, "batches": {"anchors": 4}, "autocast": "off", "checkpoint_every": 2, "evaluate_every": 3}
    return {"drafter": {"method": method, "block_size": 4, "draft_vocab": 40, **drafter}, "training": training}


@pytest.mark.parametrize("method", ["mtp", "dflash", "dfly"])
def test_a_run_ends_with_a_drafter_that_loads(method: str, target: Any, answers: Path, tmp_path: Path) -> None:
    held_out = write_answers(target, tmp_path / "eval", [record(i, "math", 3, 9) for i in range(50, 53)])
    run = RunConfig.from_dict(plan(method))
    summary = train_drafter(target, run, answers, tmp_path / "out", held_out=held_out, show=False)
    assert (summary.steps, summary.documents, summary.answer_tokens) == (3, 8, 96)
    assert 0.6 < summary.coverage < 1 and set(summary.tau) == {"all", "math"} and summary.draft_tokens > 0
    loaded = load_drafter(tmp_path / "out" / "drafter", target)
    assert loaded.config.proposals == 3 and len(loaded.d2t) == 40
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["tau"] == summary.tau
    again = train_drafter(target, run, answers, tmp_path / "out", held_out=held_out, show=False)
    assert dataclasses.replace(again, tau={}) == dataclasses.replace(summary, tau={})
    assert len(pq.read_table(tmp_path / "out" / "metrics.parquet")) == 3


def test_mtp_gets_its_own_stages_unless_some_are_given() -> None:
    assert RunConfig.from_dict(plan("mtp")).training.stages == mtp_stages(3)
    assert RunConfig.from_dict(plan("dfly")).training.stages != mtp_stages(3)
    own = plan("mtp")
    own["training"]["stages"] = [{"objective": {"ce": 1.0}}]
    assert RunConfig.from_dict(own).training.stages[0].objective == Objective(ce=1.0)


def test_initial_layers_are_copied_from_evenly_spread_target_layers(target: Any) -> None:
    assert spread_layers(30, 3) == (9, 19, 29)
    assert spread_layers(36, 5) == (6, 13, 20, 27, 35)
    counts = torch.ones(97, dtype=torch.int64)
    made = build_drafter(target, RunConfig.from_dict(plan("dfly", layers=2)).drafter, LAYER_IDS, counts, seed=0)
    for own, source in zip(made.layers, (1, 3), strict=True):
        assert torch.equal(own.mlp.up_proj.weight, target.layers[source].mlp.up_proj.weight)
    random = [
        build_drafter(
            target, RunConfig.from_dict(plan("dfly", initialise="random")).drafter, LAYER_IDS, counts, seed=seed
        )
        for seed in (1, 1, 2)
    ]
    weights = [one.layers[0].mlp.up_proj.weight for one in random]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


def test_answers_of_another_target_and_sampled_held_out_ones_are_refused(
    target: Any, answers: Path, tmp_path: Path
) -> None:
    run = RunConfig.from_dict(plan("dfly"))
    other = build_tiny_target("llama", seed=1, dtype=torch.float32)
    with pytest.raises(ValueError, match="answers in .* another revision"):
        train_drafter(other, run, answers, tmp_path / "out", show=False)
    sampled = write_answers(target, tmp_path / "eval", [record(1, "math", 3, 9)], temperature=0.7)
    with pytest.raises(ValueError, match="sampled at temperature 0.7"):
        train_drafter(target, run, answers, tmp_path / "out", held_out=sampled, show=False)


def test_mixture_keeps_its_shares_and_its_budget() -> None:
    records = [record(i, ("chat", "code", "math")[i % 3], 4, 10) for i in range(300)]
    chosen = choose_answers(records, {"code": 3.0, "math": 1.0, "chat": 0.0}, 400, seed=1)
    counts = {d: sum(records[i].domain == d for i in chosen) for d in ("chat", "code", "math")}
    assert counts == {"chat": 0, "code": 30, "math": 10}
    assert chosen == sorted(set(chosen)) == choose_answers(records, {"code": 3.0, "math": 1.0}, 400, seed=1)
    assert chosen != choose_answers(records, {"code": 3.0, "math": 1.0}, 400, seed=2)
    assert len(choose_answers(records, {"code": 1.0, "math": 0.1}, None, seed=1)) == 200
    assert choose_answers(records, None, None, seed=1) == list(range(300))
    assert len(choose_answers(records, None, 100, seed=1)) == 10
    assert len(choose_answers(records, {"code": 1.0}, 10**9, seed=1)) == 100
    with pytest.raises(ValueError, match="no answer in the domain poetry; the answers hold chat, code, math"):
        choose_answers(records, {"poetry": 1.0}, None, seed=1)


def test_the_command_names_what_is_wrong_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run.json"
    run.write_text(json.dumps({**plan("dfly"), "mixtur": {"code": 1.0}}))
    arguments = ["--run", str(run), "--answers", str(tmp_path), "--out", str(tmp_path / "out")]
    assert train.main(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: run: unknown key mixtur; known are drafter") and error.count("\n") == 1
