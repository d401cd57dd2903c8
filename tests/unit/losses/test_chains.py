"""Slot weights and the losses that see whole chains, against literal readings of their equations."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from angelspec.losses import weights
from angelspec.losses.e2e_tv import end_to_end_tv

CHAINS, SLOTS = 6, 5


@pytest.fixture
def alpha() -> Tensor:
    return torch.rand(CHAINS, SLOTS, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.fixture
def valid() -> Tensor:
    lengths = torch.tensor([5, 4, 3, 2, 1, 0])
    return torch.arange(SLOTS) < lengths[:, None]


def test_decay_halves_where_it_should(valid: Tensor) -> None:
    weight = weights.exponential_decay(valid, gamma=1 / math.log(2))
    torch.testing.assert_close(weight[0], torch.tensor([1.0, 0.5, 0.25, 0.125, 0.0625]))
    assert (weight[~valid] == 0).all()


def test_d_pace_is_the_double_loop(alpha: Tensor, valid: Tensor) -> None:
    weight = weights.d_pace(alpha, valid, a=0.3)
    for chain in range(CHAINS):
        slots = [k for k in range(SLOTS) if valid[chain, k]]
        for j in slots:
            expected = sum(
                math.prod(0.7 * float(alpha[chain, i]) + 0.3 for i in slots if i <= k) for k in slots if k >= j
            )
            assert float(weight[chain, j]) == pytest.approx(expected)
    assert (weight[~valid] == 0).all()


def test_accept_until_fail_keeps_the_first_failure_and_drops_the_rest() -> None:
    correct = torch.tensor([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0]], dtype=torch.bool)
    valid = torch.ones_like(correct)
    valid[3, 1:] = False
    expected = torch.tensor([[1, 1, 1, 0, 0], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0]], dtype=torch.float32)
    torch.testing.assert_close(weights.accept_until_fail(correct, valid), expected)


def plain_end_to_end(alpha: Tensor, valid: Tensor) -> Tensor:
    losses = []
    for row, mask in zip(alpha, valid, strict=True):
        products, accepted = alpha.new_ones(()), alpha.new_zeros(())
        for value, counts in zip(row, mask, strict=True):
            if counts:
                products = products * value
                accepted = accepted + products
        losses.append(1 - accepted / mask.sum() if mask.any() else accepted)
    return torch.stack(losses)


def test_end_to_end_tv_and_its_gradient(alpha: Tensor, valid: Tensor) -> None:
    ours, plain = alpha.clone().requires_grad_(), alpha.clone().requires_grad_()
    value, expected = end_to_end_tv(ours, valid), plain_end_to_end(plain, valid)
    torch.testing.assert_close(value, expected)
    value.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(ours.grad, plain.grad)


def test_end_to_end_tv_survives_a_slot_that_is_never_accepted(alpha: Tensor, valid: Tensor) -> None:
    alpha[0, 1] = 0.0
    ours, plain = alpha.clone().requires_grad_(), alpha.clone().requires_grad_()
    end_to_end_tv(ours, valid)[0].backward()
    plain_end_to_end(plain, valid)[0].backward()
    torch.testing.assert_close(ours.grad, plain.grad)


def test_coupling_weights_are_the_derivative_of_the_direct_form(alpha: Tensor) -> None:
    """The surrogate W_m * ell_m with ell = TV must have exactly the gradient of the direct form."""
    valid = torch.ones(CHAINS, SLOTS, dtype=torch.bool)
    variable = alpha.clone().requires_grad_()
    end_to_end_tv(variable, valid).sum().backward()
    torch.testing.assert_close(weights.coupling(alpha, valid), -variable.grad)
