"""One process or many, with the same code around it: FSDP2 over torchrun's processes, sums over all of them.

    torchrun --nproc-per-node 8 -m angelspec.training.train --config run.yaml

Each process takes its share of every batch; numerators and denominators of the loss are summed over the processes
before they are divided, and gradients are reduced in float32, so that the result does not depend on how the batch was
cut.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method


@dataclass(frozen=True)
class World:
    """Number of this process and of all; (0, 1) without torchrun."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """True for the one process that writes files and speaks."""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        """Sum over all processes, without gradient."""
        total = tensor.detach().clone()
        if self.size > 1:
            dist.all_reduce(total)
        return total

    def barrier(self) -> None:
        """Wait for all processes."""
        if self.size > 1:
            dist.barrier()


def join_world(device: str) -> World:
    """The world that torchrun describes in the environment, joined (gloo on CPU, NCCL on GPU)."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return World()
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if not dist.is_initialized():
        dist.init_process_group("nccl" if device == "cuda" else "gloo")
    return World(dist.get_rank(), size)


def shard(drafter: nn.Module, world: World, *, bfloat16: bool) -> None:
    """Shard parameters, gradients and optimiser state over the processes (ZeRO-3). Call before the optimisers are
    built.

    The drafter is one unit: block drafters use the key and value projections of every layer before the layers
    themselves run, so units per layer would be gathered too late.
    """
    if world.size == 1:
        return
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16 if bfloat16 else None, reduce_dtype=torch.float32)
    frozen = {p for p in drafter.parameters() if not p.requires_grad}
    fully_shard(drafter, mp_policy=policy, ignored_params=frozen)
    register_fsdp_forward_method(drafter, "training_forward")
