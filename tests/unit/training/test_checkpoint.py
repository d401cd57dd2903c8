"""Checkpoints: whole or absent, strict on loading, and never at the cost of an earlier one."""

from __future__ import annotations

import errno
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from torch import nn

from angelspec.training import checkpoint
from angelspec.training.checkpoint import Checkpoint, DiskFull
from angelspec.training.optim import OptimiserConfig, build_optimisers


def trained(name: str, seed: int = 0) -> tuple[nn.Module, list[torch.optim.Optimizer]]:
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.Linear(5, 3))
    optimisers = build_optimisers(module, OptimiserConfig(name=name, lr=0.05))
    step(module, optimisers)
    return module, optimisers


def step(module: nn.Module, optimisers: list[torch.optim.Optimizer]) -> None:
    module(torch.ones(2, 4)).square().sum().backward()
    for optimiser in optimisers:
        optimiser.step()
        optimiser.zero_grad()


def small(step: int) -> Checkpoint:
    return Checkpoint({"w": torch.full((8,), float(step))}, {"w/exp_avg": torch.ones(8)}, {"step": step})


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_a_restored_run_takes_the_same_next_step_bit_by_bit(name: str, tmp_path: Path) -> None:
    module, optimisers = trained(name)
    path = checkpoint.save(checkpoint.take(module, optimisers, {"step": 1}), tmp_path)
    other, other_optimisers = trained(name, seed=9)
    checkpoint.restore(checkpoint.load(path), other, other_optimisers)
    for _ in range(2):
        step(module, optimisers)
        step(other, other_optimisers)
    for left, right in zip(module.parameters(), other.parameters(), strict=True):
        assert torch.equal(left, right)


def test_only_the_newest_are_kept_and_the_newest_is_found(tmp_path: Path) -> None:
    assert checkpoint.newest(tmp_path / "none") is None
    for number in (2, 9, 10, 11):
        checkpoint.save(small(number), tmp_path, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000010", "step-00000011"]
    assert checkpoint.load(checkpoint.newest(tmp_path)).model["w"][0] == 11


def test_what_a_killed_writer_left_is_no_checkpoint(tmp_path: Path) -> None:
    checkpoint.save(small(1), tmp_path)
    half = tmp_path / ".step-00000002.tmp"
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"half")
    assert checkpoint.newest(tmp_path).name == "step-00000001"
    assert checkpoint.save(small(2), tmp_path).name == "step-00000002"
    assert not half.exists()


def test_a_disk_without_room_is_noticed_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint.save(small(1), tmp_path, keep=1)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(100, 90, 10))
    with pytest.raises(DiskFull, match="needs 0 MiB"):
        checkpoint.save(small(2), tmp_path, keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space"), SafetensorError("I/O error: No space left on device (os error 28)")]
)
def test_a_disk_that_fills_up_on_the_way_leaves_the_last_checkpoint(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint.save(small(1), tmp_path, keep=1)

    def fail(tensors: dict, path: Path) -> None:
        path.write_bytes(b"some")
        raise error

    monkeypatch.setattr(checkpoint, "save_file", fail)
    with pytest.raises(DiskFull, match="the disk is full"):
        checkpoint.save(small(2), tmp_path, keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def test_other_drafters_and_broken_files_are_refused(tmp_path: Path) -> None:
    module, optimisers = trained("adamw")
    path = checkpoint.save(checkpoint.take(module, optimisers, {"step": 1}), tmp_path)
    with pytest.raises(ValueError, match="another drafter"):
        checkpoint.restore(checkpoint.load(path), nn.Sequential(nn.Linear(4, 5)), [])
    wider = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 3))
    with pytest.raises(ValueError, match="in the checkpoint"):
        checkpoint.restore(checkpoint.load(path), wider, [])
    (path / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(ValueError, match="no whole checkpoint"):
        checkpoint.load(path)
