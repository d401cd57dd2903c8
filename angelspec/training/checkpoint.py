"""Checkpoints: everything that a training run needs to go on as if it had never stopped. No pickle.

    checkpoints/step-00000300/
        model.safetensors       parameters and buffers
        optimiser.safetensors   "<parameter>/<state>", for example "layers.0.mlp.up_proj.weight/exp_avg"
        state.json              step, position in the data, seconds used, configuration of the run

The learning rate is a function of the step and every random choice one of (seed, position), so there is nothing else
to save. A folder is written under a temporary name, flushed to disk and renamed: what has the final name is whole.
Older checkpoints are removed only after that.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from angelspec.io import read_json, write_json

_NAME = re.compile(r"step-(\d{8})")


@dataclass(frozen=True)
class Checkpoint:
    """model [name -> tensor], optimiser ["parameter/state" -> tensor], state: JSON values with the key "step"."""

    model: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    state: dict[str, Any]


class DiskFull(OSError):
    """A checkpoint did not fit on the disk; what was there before is untouched."""


def take(module: nn.Module, optimisers: Iterable[torch.optim.Optimizer], state: Mapping[str, Any]) -> Checkpoint:
    """Whole tensors of a (possibly sharded) module and its optimisers. With several processes all of them must call
    it.
    """
    model = {name: _whole(tensor) for name, tensor in module.state_dict().items()}
    names = {id(p): name for name, p in module.named_parameters()}
    optimiser = {
        f"{names[id(p)]}/{key}": _whole(tensor)
        for one in optimisers
        for p, entries in one.state.items()
        for key, tensor in entries.items()
    }
    return Checkpoint(model, optimiser, dict(state))


def restore(checkpoint: Checkpoint, module: nn.Module, optimisers: Iterable[torch.optim.Optimizer]) -> None:
    """Put a checkpoint back into a module and optimisers that were built from the same configuration.

    Raises ValueError when names or shapes differ.
    """
    own = module.state_dict()
    if own.keys() != checkpoint.model.keys():
        difference = sorted(own.keys() ^ checkpoint.model.keys())
        raise ValueError(
            f"The checkpoint belongs to another drafter; names that only one of them has: {difference[:5]}."
        )
    for name, tensor in own.items():
        if tensor.shape != checkpoint.model[name].shape:
            raise ValueError(
                f"{name} is {tuple(tensor.shape)}, in the checkpoint {tuple(checkpoint.model[name].shape)}."
            )
        tensor.detach().copy_(_like(checkpoint.model[name], tensor))
    owner = {id(p): optimiser for optimiser in optimisers for group in optimiser.param_groups for p in group["params"]}
    parameters = dict(module.named_parameters())
    for entry, tensor in checkpoint.optimiser.items():
        name, key = entry.rsplit("/", 1)
        p = parameters[name]
        owner[id(p)].state[p][key] = _like(tensor, p) if tensor.shape == p.shape else tensor


def save(checkpoint: Checkpoint, folder: Path, keep: int = 2) -> Path:
    """Write one checkpoint below `folder`, then remove all but the newest `keep`.

    Raises DiskFull, with the earlier checkpoints untouched, when there is no room.
    """
    final = folder / f"step-{checkpoint.state['step']:08d}"
    temporary = folder / f".{final.name}.tmp"
    needed = sum(t.nbytes for t in (*checkpoint.model.values(), *checkpoint.optimiser.values()))
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(temporary, ignore_errors=True)
    if (free := shutil.disk_usage(folder).free) < needed:
        raise DiskFull(
            errno.ENOSPC, f"a checkpoint needs {needed / 2**20:.0f} MiB, {free / 2**20:.0f} MiB are free", str(folder)
        )
    try:
        temporary.mkdir()
        save_file(checkpoint.model, temporary / "model.safetensors")
        save_file(checkpoint.optimiser, temporary / "optimiser.safetensors")
        write_json(temporary / "state.json", checkpoint.state)
        for path in (*temporary.iterdir(), temporary):
            _flush(path)
        shutil.rmtree(final, ignore_errors=True)
        os.replace(temporary, final)
        _flush(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        # safetensors reports a full disk as text, not as an errno.
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error):
            raise DiskFull(errno.ENOSPC, "the disk is full", str(folder)) from error
        raise
    for old in _steps(folder)[:-keep]:
        shutil.rmtree(folder / f"step-{old:08d}", ignore_errors=True)
    return final


def newest(folder: Path) -> Path | None:
    """The newest whole checkpoint below `folder`."""
    steps = _steps(folder) if folder.is_dir() else []
    return folder / f"step-{steps[-1]:08d}" if steps else None


def load(path: Path) -> Checkpoint:
    """Read a checkpoint folder."""
    try:
        return Checkpoint(
            load_file(path / "model.safetensors"),
            load_file(path / "optimiser.safetensors"),
            read_json(path / "state.json"),
        )
    except (OSError, SafetensorError) as error:
        raise ValueError(
            f"{path} is no whole checkpoint ({error}); remove the folder to go on from the one before."
        ) from error


def _steps(folder: Path) -> list[int]:
    return sorted(int(match[1]) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name)))


def _whole(tensor: Tensor) -> Tensor:
    tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return tensor.detach().to("cpu", copy=True).contiguous()


def _like(tensor: Tensor, other: Tensor) -> Tensor:
    """`tensor` on the device of `other` and sharded like it."""
    if isinstance(other, DTensor):
        return distribute_tensor(tensor.to(other.device), other.device_mesh, other.placements, src_data_rank=None)
    return tensor.to(other.device)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
