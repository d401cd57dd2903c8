"""Every per-slot loss: value and hand-derived gradient against autograd on the plain formula, in float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from angelspec.losses.ce import cross_entropy
from angelspec.losses.kl import forward_kl, topk_kl
from angelspec.losses.laws import Laws
from angelspec.losses.lk import lk_alpha, lk_hybrid
from angelspec.losses.tv import total_variation

ROWS, VOCAB, DRAFT_VOCAB, TOP = 7, 40, 23, 5


@pytest.fixture
def setting() -> tuple[Tensor, Tensor, Tensor]:
    """Draft logits [n, V_d], full target law [n, V] (V_d = its first columns), labels with one outside V_d."""
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(ROWS, DRAFT_VOCAB, generator=generator, dtype=torch.float64) * 2
    p = (torch.randn(ROWS, VOCAB, generator=generator, dtype=torch.float64) * 2).softmax(-1)
    labels = torch.randint(DRAFT_VOCAB, (ROWS,), generator=generator)
    labels[2] = -1
    return logits, p, labels


def on_whole_vocabulary(q: Tensor) -> Tensor:
    return torch.cat([q, q.new_zeros(ROWS, VOCAB - DRAFT_VOCAB)], dim=-1)


def plain_ce(logits: Tensor, p: Tensor, labels: Tensor) -> Tensor:
    log_q = logits.log_softmax(-1)
    return torch.stack([-row[y] if y >= 0 else row.sum() * 0 for row, y in zip(log_q, labels.tolist(), strict=True)])


def plain_tv(logits: Tensor, p: Tensor, labels: Tensor) -> Tensor:
    return 0.5 * (p - on_whole_vocabulary(logits.softmax(-1))).abs().sum(-1)


def plain_kl(logits: Tensor, p: Tensor, labels: Tensor) -> Tensor:
    conditioned = p[:, :DRAFT_VOCAB] / p[:, :DRAFT_VOCAB].sum(-1, keepdim=True)
    return (conditioned * (conditioned.log() - logits.log_softmax(-1))).sum(-1)


def plain_topk(logits: Tensor, p: Tensor, labels: Tensor) -> Tensor:
    likely = p[:, :DRAFT_VOCAB] >= p[:, :DRAFT_VOCAB].sort(descending=True).values[:, TOP - 1 : TOP]
    return torch.where(likely, p[:, :DRAFT_VOCAB] * (p[:, :DRAFT_VOCAB].log() - logits.log_softmax(-1)), 0.0).sum(-1)


def plain_topk_renormalised(logits: Tensor, p: Tensor, labels: Tensor) -> Tensor:
    likely = p[:, :DRAFT_VOCAB].topk(TOP).indices
    p_top, q_top = p.gather(-1, likely), logits.softmax(-1).gather(-1, likely)
    p_top, q_top = p_top / p_top.sum(-1, keepdim=True), q_top / q_top.sum(-1, keepdim=True)
    return (p_top * (p_top / q_top).log()).sum(-1)


def plain_lk_hybrid(logits: Tensor, p: Tensor, labels: Tensor) -> Tensor:
    tv = plain_tv(logits, p, labels)
    lam = torch.exp(-3.0 * (1 - tv)).detach()
    return lam * plain_kl(logits, p, labels) + (1 - lam) * tv


def plain_lk_alpha(logits: Tensor, p: Tensor, labels: Tensor) -> Tensor:
    return -torch.minimum(p, on_whole_vocabulary(logits.softmax(-1))).sum(-1).log()


CASES: dict[str, tuple[Callable, Callable]] = {
    "ce": (cross_entropy, plain_ce),
    "tv": (total_variation, plain_tv),
    "kl": (forward_kl, plain_kl),
    "topk": (lambda laws: topk_kl(laws, TOP), plain_topk),
    "topk renormalised": (lambda laws: topk_kl(laws, TOP, renormalise=True), plain_topk_renormalised),
    "lk hybrid": (lk_hybrid, plain_lk_hybrid),
    "lk alpha": (lk_alpha, plain_lk_alpha),
}


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient_equal_autograd_on_the_plain_formula(name: str, setting: tuple[Tensor, ...]) -> None:
    loss, plain = CASES[name]
    logits, p, labels = setting
    variable = logits.clone().requires_grad_()
    expected = plain(variable, p, labels)
    (expected_gradient,) = torch.autograd.grad(expected.sum(), variable)
    value, gradient = loss(Laws.of(logits, labels, p[:, :DRAFT_VOCAB].log()))
    torch.testing.assert_close(value, expected.detach())
    torch.testing.assert_close(gradient, expected_gradient)
    assert gradient.abs().max() > 1e-3  # a comparison of zeros would prove nothing


def test_the_draft_that_equals_the_target_has_no_loss_and_full_acceptance() -> None:
    logits = torch.randn(4, DRAFT_VOCAB, dtype=torch.float64)
    laws = Laws.of(logits, torch.zeros(4, dtype=torch.int64), logits.log_softmax(-1))
    for loss in (total_variation, forward_kl, lk_hybrid, lk_alpha):
        torch.testing.assert_close(loss(laws)[0], torch.zeros(4, dtype=torch.float64), atol=1e-12, rtol=0)
    # Only KL is smooth there; TV has a kink at p = q, where rounding chooses one of its subgradients.
    torch.testing.assert_close(forward_kl(laws)[1], torch.zeros_like(logits), atol=1e-12, rtol=0)
    torch.testing.assert_close(laws.acceptance, torch.ones(4, dtype=torch.float64))
    assert laws.missing.max() < 1e-12


def test_mass_outside_the_draft_vocabulary_is_counted_as_lost(setting: tuple[Tensor, ...]) -> None:
    logits, p, labels = setting
    laws = Laws.of(logits, labels, p[:, :DRAFT_VOCAB].log())
    torch.testing.assert_close(laws.missing, p[:, DRAFT_VOCAB:].sum(-1))
    tv, _ = total_variation(laws)
    on_draft_vocabulary = 0.5 * (laws.p - laws.q).abs().sum(-1)
    torch.testing.assert_close(tv, on_draft_vocabulary + 0.5 * laws.missing)


def test_disjoint_laws_stay_finite() -> None:
    logits = torch.tensor([[200.0, -200.0]], dtype=torch.float32)
    laws = Laws.of(logits, torch.tensor([1]), torch.tensor([[-200.0, 0.0]]))
    for loss in (cross_entropy, total_variation, forward_kl, lk_hybrid, lk_alpha):
        value, gradient = loss(laws)
        assert value.isfinite().all() and gradient.isfinite().all()
