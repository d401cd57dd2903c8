"""Optimisers: AdamW, and Muon for matrices with AdamW for the rest.

Muon (Jordan et al. 2024; scaled as in Moonlight, arXiv 2502.16982) replaces the momentum M of a matrix by the nearest
orthogonal one, U V^T of its singular value decomposition, found with five Newton-Schulz steps:

    B <- mu B + G;   M = G + mu B (Nesterov);   X = M / ||M||_F
    five times:  A = X X^T;  X <- a X + (b A + c A A) X        (a, b, c) = (3.4445, -4.7750, 2.0315)
    W <- (1 - lr wd) W - lr 0.2 sqrt(max(rows, columns)) X

The factor gives updates the root mean square of AdamW's, so that both share one learning rate. torch.optim.Muon
computes the iteration in bfloat16, which a CPU without bfloat16 units does 50 times slower; here it runs in the dtype
of the gradient on CPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
NEWTON_SCHULZ_STEPS = 5


@dataclass(frozen=True)
class OptimiserConfig:
    """lr is the highest learning rate; weight decay applies to matrices only; clip bounds the global gradient norm."""

    name: Literal["adamw", "muon"] = "adamw"
    lr: float = 6e-4
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.95)
    momentum: float = 0.95
    clip: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in ("adamw", "muon"):
            raise ValueError(f"optimiser {self.name!r} is unknown; use adamw or muon.")
        if not (self.lr > 0 and self.clip > 0 and self.weight_decay >= 0):
            raise ValueError(f"An optimiser needs lr > 0, clip > 0 and weight_decay >= 0, got {self}.")


def build_optimisers(module: nn.Module, config: OptimiserConfig) -> list[torch.optim.Optimizer]:
    """Optimisers of the trainable parameters. Norms, biases and other vectors are not decayed."""
    trainable = [p for p in module.parameters() if p.requires_grad]
    if not trainable:
        raise ValueError("The drafter has no trainable parameter.")
    embeddings = {id(p) for m in module.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}
    matrices = [p for p in trainable if p.ndim >= 2]
    vectors = [p for p in trainable if p.ndim < 2]
    optimisers: list[torch.optim.Optimizer] = []
    if config.name == "muon":
        hidden = [p for p in matrices if p.ndim == 2 and id(p) not in embeddings]
        optimisers.append(Muon(hidden, config.lr, config.momentum, config.weight_decay))
        matrices = [p for p in matrices if p.ndim != 2 or id(p) in embeddings]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    if groups:
        optimisers.append(torch.optim.AdamW(groups, lr=config.lr, betas=config.betas, fused=True))
    return optimisers


class Muon(torch.optim.Optimizer):
    """Muon for two-dimensional parameters, sharded ones (DTensor) included."""

    def __init__(self, params: Iterable[Tensor], lr: float, momentum: float, weight_decay: float) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        if any(p.ndim != 2 for group in self.param_groups for p in group["params"]):
            raise ValueError("Muon orthogonalises matrices; give other parameters to AdamW.")

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:
        """One update of every parameter that has a gradient."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                buffer = self.state[p].setdefault("momentum", torch.zeros_like(p))
                buffer.mul_(group["momentum"]).add_(p.grad)
                update = _orthogonal(p.grad.add(buffer, alpha=group["momentum"]))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(update, alpha=-group["lr"] * 0.2 * max(p.shape) ** 0.5)


def _orthogonal(matrix: Tensor) -> Tensor:
    """`orthogonalise`, for a sharded matrix too: gathered, computed everywhere, sharded again."""
    if isinstance(matrix, DTensor):
        whole = orthogonalise(matrix.full_tensor())
        return distribute_tensor(whole, matrix.device_mesh, matrix.placements, src_data_rank=None)
    return orthogonalise(matrix)


def orthogonalise(matrix: Tensor) -> Tensor:
    """Nearest orthogonal matrix of `matrix` [m, n]: all singular values near 1 (between about 0.7 and 1.2)."""
    a, b, c = NEWTON_SCHULZ
    wide = matrix.shape[0] <= matrix.shape[1]
    x = matrix if wide else matrix.T
    x = x.to(torch.bfloat16 if matrix.is_cuda else matrix.dtype)
    x = x / x.norm().clamp_min(1e-7)
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x if wide else x.T).to(matrix.dtype)


def set_learning_rate(optimisers: Iterable[torch.optim.Optimizer], lr: float) -> None:
    """Set one learning rate on all parameter groups."""
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = lr
