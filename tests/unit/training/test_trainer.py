"""The loop: it learns, it stops with a reason, and what it writes can be read."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from angelspec.losses.objective import Objective
from angelspec.training import checkpoint
from angelspec.training.config import Stage, TrainingConfig
from angelspec.training.offline import tau_by_domain
from angelspec.training.optim import OptimiserConfig
from angelspec.training.progress import ProgressLine
from angelspec.training.trainer import TrainingStopped
from tests.unit.training.tiny import TinyStore, tiny_config, tiny_trainer


@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
def test_both_stages_lower_the_loss_and_raise_acceptance(optimiser: str, tmp_path: Path) -> None:
    config = tiny_config(
        steps=120, optimiser=OptimiserConfig(name=optimiser, lr=2e-2), evaluate_every=60, checkpoint_every=0
    )
    trainer = tiny_trainer(tmp_path, config)
    held_out = TinyStore(documents=5, seed=99)
    documents = [("ab"[i % 2], held_out.document(i)) for i in range(5)]
    trainer.evaluation = tau_by_domain(documents)
    before = trainer.evaluation(trainer.drafter)[0]["tau"]
    trainer.run()
    rows = pq.read_table(tmp_path / "metrics.parquet").to_pylist()
    assert [row["step"] for row in rows] == list(range(1, 121))
    mean = lambda part, key: sum(row[key] for row in part) / len(part)  # noqa: E731
    assert mean(rows[74:84], "loss") < 0.6 * mean(rows[:10], "loss")  # stage 1: LK hybrid with D-PACE
    assert mean(rows[-10:], "acceptance_3") > mean(rows[:10], "acceptance_3") + 0.3
    evaluations = pq.read_table(tmp_path / "evaluations.parquet").to_pylist()
    assert [(row["step"], row["domain"]) for row in evaluations] == [
        (s, d) for s in (60, 120) for d in ("all", "a", "b")
    ]
    assert before < 1.5 < 2.5 < evaluations[3]["tau"] <= 4


def test_accumulated_micro_batches_are_averaged(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path, tiny_config(accumulate=3, stages=(Stage(Objective(ce=1.0)),)))
    seen = []
    original = trainer._clip_gradients
    trainer._clip_gradients = lambda loss: (
        seen.append([p.grad.clone() for p in trainer.drafter.parameters()]),
        original(loss),
    )[1]
    trainer._train_step()

    single = tiny_trainer(tmp_path, tiny_config(stages=(Stage(Objective(ce=1.0)),)))
    single._clip_gradients = lambda loss: (seen.append([p.grad.clone() for p in single.drafter.parameters()]), 0.0)[1]
    single.optimisers = [torch.optim.SGD(single.drafter.parameters(), lr=0.0)]
    single.config = tiny_config(optimiser=OptimiserConfig(lr=1e-30), stages=(Stage(Objective(ce=1.0)),))
    for _ in range(3):
        single._train_step()
    for whole, *parts in zip(*seen, strict=True):
        torch.testing.assert_close(whole, sum(parts) / 3, atol=1e-6, rtol=1e-4)


def test_a_loss_that_is_not_finite_stops_with_the_reason_and_keeps_the_last_checkpoint(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path, tiny_config())
    step = trainer._train_step

    def poisoned() -> dict[str, float]:
        if trainer.step == 9:
            trainer.drafter.fc.weight.data[0, 0] = math.nan
        return step()

    trainer._train_step = poisoned
    with pytest.raises(
        TrainingStopped, match=r"step 10: the loss is nan\. .* The last good checkpoint is step-00000008"
    ):
        trainer.run()
    saved = checkpoint.load(checkpoint.newest(tmp_path / "checkpoints"))
    assert saved.state["step"] == 8
    assert all(tensor.isfinite().all() for tensor in saved.model.values())
    assert len(pq.read_table(tmp_path / "metrics.parquet")) == 9


def test_a_gradient_that_is_not_finite_never_reaches_the_weights(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path, tiny_config())
    before = [p.detach().clone() for p in trainer.drafter.parameters()]
    trainer.drafter.fc.weight.register_hook(lambda gradient: gradient * math.inf)
    with pytest.raises(TrainingStopped, match="gradient norm is .* There is no checkpoint yet"):
        trainer.run()
    assert all(torch.equal(p, old) for p, old in zip(trainer.drafter.parameters(), before, strict=True))


def test_a_full_disk_stops_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = tiny_trainer(tmp_path, tiny_config())
    save = checkpoint.save

    def full(taken: checkpoint.Checkpoint, folder: Path, keep: int) -> Path:
        if taken.state["step"] > 4:
            raise checkpoint.DiskFull(28, "the disk is full", str(folder))
        return save(taken, folder, keep)

    monkeypatch.setattr(checkpoint, "save", full)
    with pytest.raises(TrainingStopped, match="the disk is full .*Free some space.*step-00000004"):
        trainer.run()


def test_another_configuration_does_not_go_on_from_a_checkpoint(tmp_path: Path) -> None:
    tiny_trainer(tmp_path, tiny_config(steps=4)).run()
    with pytest.raises(TrainingStopped, match="another configuration \\(seed, steps differ\\)"):
        tiny_trainer(tmp_path, tiny_config(steps=5, seed=1)).run()


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    tiny_trainer(tmp_path, tiny_config(steps=4)).run()
    again = tiny_trainer(tmp_path, tiny_config(steps=4))
    again._train_step = lambda: pytest.fail("trained beyond its budget")
    again.run()


def test_minutes_end_a_run_and_drive_its_schedule(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path, tiny_config(steps=10_000, minutes=0.01, checkpoint_every=0))
    trainer.run()
    rows = pq.read_table(tmp_path / "metrics.parquet").to_pylist()
    assert len(rows) < 10_000 and rows[-1]["seconds"] >= 0.6
    assert rows[-1]["lr"] < 0.5 * max(row["lr"] for row in rows)


def test_stages_follow_the_budget() -> None:
    config = tiny_config()
    assert config.objective(0.0).lk_hybrid == config.objective(0.69).lk_hybrid == 1.0
    assert config.objective(0.71).e2e == config.objective(1.0).e2e == 1.0


def test_configuration_is_read_strictly() -> None:
    plain = {
        "steps": 7,
        "batches": {"sequences": 4},
        "optimiser": {"name": "muon", "lr": 1, "betas": [0.9, 0.99]},
        "stages": [{"objective": {"ce": 1.0, "slots": "accept-until-fail"}}],
    }
    config = TrainingConfig.from_dict(plain)
    assert config.optimiser == OptimiserConfig(name="muon", lr=1.0, betas=(0.9, 0.99))
    assert config.stages == (Stage(Objective(ce=1.0, slots="accept-until-fail")),) and config.batches.sequences == 4
    for wrong, message in [
        ({"stepz": 7}, "stepz"),
        ({"steps": "7"}, "training.steps: got '7', expected int"),
        ({"steps": 7, "optimiser": {"name": "sgd"}}, "training.optimiser.name: got 'sgd'"),
        ({"steps": 7, "stages": [{"objective": {"ce": True}}]}, r"training.stages\[0\].objective.ce: got True"),
        ({"steps": 7, "minutes": 0.0}, "minutes must be above 0"),
        ({"steps": 7, "stages": []}, "at least one stage"),
    ]:
        with pytest.raises(ValueError, match=message):
            TrainingConfig.from_dict(wrong)


def test_progress_line_says_what_is_needed() -> None:
    stream = io.StringIO()
    line = ProgressLine(200, stream, every_s=0.0)
    row = {
        "step": 50,
        "seconds": 60.0,
        "loss": 2.5,
        "tokens_per_s": 1234.0,
        "correct_1": 0.61,
        "correct_2": 0.4,
        "tau": 1.9,
    }
    line.update(row, progress=0.25)
    assert stream.getvalue() == (
        "step 50/200 · loss 2.500 · accepted by slot 61 40 % · tau 1.90 · 1,234 tok/s · 3:00 left\n"
    )
