"""Killed at a random step and started again, or shared by two processes: the same result as one undisturbed run."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from angelspec.io import to_plain
from angelspec.training import checkpoint
from angelspec.training.config import TrainingConfig
from tests.unit.training import tiny
from tests.unit.training.tiny import tiny_config, tiny_trainer

ROOT = Path(__file__).parents[3]


def start(folder: Path, config: TrainingConfig, **environment: str) -> subprocess.Popen:
    command = [sys.executable, "-m", tiny.__name__, str(folder), json.dumps(to_plain(config))]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment}
    return subprocess.Popen(command, env=environment, cwd=ROOT, stderr=subprocess.PIPE, text=True)


def last_checkpoint(folder: Path) -> checkpoint.Checkpoint:
    return checkpoint.load(checkpoint.newest(folder / "checkpoints"))


def losses(folder: Path) -> list[tuple[int, float]]:
    return [(row["step"], row["loss"]) for row in pq.read_table(folder / "metrics.parquet").to_pylist()]


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_killed_at_a_random_step_and_resumed_it_ends_bitwise_equal(tmp_path: Path, one_thread: None) -> None:
    config = tiny_config()
    killed_at = random.Random().randint(1, config.steps - 1)
    process = start(tmp_path / "killed", config)
    for _ in range(killed_at):
        assert "step" in process.stderr.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()
    resumed = start(tmp_path / "killed", config)
    _, output = resumed.communicate(timeout=120)
    assert resumed.returncode == 0, output
    first = int(output.split()[1].split("/")[0])
    assert first % config.checkpoint_every == 1, f"killed at {killed_at}, went on with step {first}"

    tiny_trainer(tmp_path / "undisturbed", config).run()
    ours, expected = last_checkpoint(tmp_path / "killed"), last_checkpoint(tmp_path / "undisturbed")
    assert losses(tmp_path / "killed") == losses(tmp_path / "undisturbed"), f"killed at {killed_at}"
    assert ours.state["position"] == expected.state["position"]
    for left, right in ((ours.model, expected.model), (ours.optimiser, expected.optimiser)):
        assert left.keys() == right.keys()
        assert all(torch.equal(left[name], right[name]) for name in right), f"killed at {killed_at}"


@pytest.mark.parametrize("optimiser", ["adamw", pytest.param("muon", marks=pytest.mark.slow)])
def test_two_processes_give_the_result_of_one(optimiser: str, tmp_path: Path, one_thread: None) -> None:
    config = tiny_config(steps=8, optimiser=tiny.OptimiserConfig(name=optimiser, lr=2e-2))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    processes = [start(tmp_path / "two", config, RANK=rank, LOCAL_RANK=rank, **shared) for rank in "01"]
    for process in processes:
        _, output = process.communicate(timeout=180)
        assert process.returncode == 0, output
    tiny_trainer(tmp_path / "one", config).run()
    two, one = last_checkpoint(tmp_path / "two"), last_checkpoint(tmp_path / "one")
    assert [step for step, _ in losses(tmp_path / "two")] == list(range(1, 9))
    torch.testing.assert_close(
        torch.tensor([loss for _, loss in losses(tmp_path / "two")]),
        torch.tensor([loss for _, loss in losses(tmp_path / "one")]),
        rtol=1e-4,
        atol=1e-5,
    )
    for name, tensor in one.model.items():
        torch.testing.assert_close(two.model[name], tensor, rtol=1e-3, atol=2e-4, msg=lambda m, n=name: f"{n}: {m}")
