"""Learning-rate shapes and the two optimisers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from angelspec.training.optim import Muon, OptimiserConfig, build_optimisers, orthogonalise, set_learning_rate
from angelspec.training.schedule import Schedule


@pytest.mark.parametrize("shape", ["cosine", "wsd", "constant"])
def test_warm_up_is_linear_and_never_zero(shape: str) -> None:
    schedule = Schedule(shape=shape, warmup=0.1)
    rates = [schedule.factor(step / 100, 1 / 100) for step in range(10)]
    assert rates == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert schedule.factor(0.1) == pytest.approx(1.0)


def test_cosine_goes_through_the_middle_to_the_floor() -> None:
    schedule = Schedule(shape="cosine", warmup=0.2, floor=0.1)
    assert schedule.factor(0.6) == pytest.approx(0.55)
    assert schedule.factor(1.0) == pytest.approx(0.1)


def test_wsd_is_flat_and_then_falls_with_the_root() -> None:
    schedule = Schedule(shape="wsd", warmup=0.0, decay=0.4, floor=0.0)
    assert schedule.factor(0.59) == 1.0
    assert schedule.factor(0.7) == pytest.approx(1 - math.sqrt(0.25))
    assert schedule.factor(1.0) == pytest.approx(0.0)


@pytest.mark.parametrize("wrong", [{"shape": "linear"}, {"warmup": 1.0}, {"decay": 0.0}, {"warmup": 0.5, "decay": 0.6}])
def test_impossible_schedules_are_refused(wrong: dict) -> None:
    with pytest.raises(ValueError):
        Schedule(**wrong)


@pytest.mark.parametrize("shape", [(6, 6), (5, 12), (12, 5)])
def test_newton_schulz_finds_an_almost_orthogonal_matrix_with_the_same_singular_vectors(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    result = orthogonalise(matrix)
    singular = torch.linalg.svdvals(result)
    assert singular.min() > 0.6 and singular.max() < 1.3
    u, _, vh = torch.linalg.svd(matrix, full_matrices=False)
    rotated = u.T @ result @ vh.T
    torch.testing.assert_close(rotated, torch.diag(rotated.diagonal()), atol=1e-6, rtol=0)


def test_muon_update_is_its_formula() -> None:
    weight = nn.Parameter(torch.randn(4, 6, dtype=torch.float64))
    start, gradients = weight.detach().clone(), torch.randn(2, 4, 6, dtype=torch.float64)
    optimiser = Muon([weight], lr=0.1, momentum=0.9, weight_decay=0.5)
    expected, buffer = start, torch.zeros_like(start)
    for gradient in gradients:
        weight.grad = gradient.clone()
        optimiser.step()
        buffer = 0.9 * buffer + gradient
        expected = expected * (1 - 0.05) - 0.1 * 0.2 * 6**0.5 * orthogonalise(gradient + 0.9 * buffer)
    torch.testing.assert_close(weight.detach(), expected)


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_every_trainable_parameter_has_one_optimiser_and_vectors_no_decay(name: str) -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Embedding(5, 4), nn.Linear(4, 2))
    module[3].requires_grad_(False)
    optimisers = build_optimisers(module, OptimiserConfig(name=name, weight_decay=0.3))
    groups = [group for optimiser in optimisers for group in optimiser.param_groups]
    owned = [p for group in groups for p in group["params"]]
    assert {id(p) for p in owned} == {id(p) for p in module[:3].parameters()} and len(owned) == 5
    assert all(group["weight_decay"] == (0.3 if p.ndim == 2 else 0.0) for group in groups for p in group["params"])
    muon = [
        p
        for optimiser in optimisers
        if isinstance(optimiser, Muon)
        for g in optimiser.param_groups
        for p in g["params"]
    ]
    assert [id(p) for p in muon] == ([id(module[0].weight)] if name == "muon" else [])
    set_learning_rate(optimisers, 0.25)
    assert all(group["lr"] == 0.25 for group in groups)


def test_nothing_trainable_is_an_error() -> None:
    with pytest.raises(ValueError, match="no trainable parameter"):
        build_optimisers(nn.Linear(2, 2).requires_grad_(False), OptimiserConfig())
    with pytest.raises(ValueError, match="lr > 0"):
        OptimiserConfig(lr=0.0)
