"""The training objective: which losses, how they are weighted over slots, and their exact global normaliser.

A loss is a sum of fractions, `sum_i numerator_i / denominator_i`: the weighted slot losses over the sum of the weights
(one fraction, or one per depth for MTP) and the end-to-end loss over the number of chains. Keeping both halves apart
until every process has contributed makes the loss of two processes equal to that of one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from angelspec.losses import weights
from angelspec.losses.ce import cross_entropy
from angelspec.losses.e2e_tv import end_to_end_tv
from angelspec.losses.kl import forward_kl, topk_kl
from angelspec.losses.laws import Laws
from angelspec.losses.lk import lk_alpha, lk_hybrid
from angelspec.losses.tv import total_variation
from angelspec.losses.vocabulary import RowTerm, SlotStatistics, slot_terms
from angelspec.training.types import DraftHead, DraftHidden, PackedBatch


@dataclass(frozen=True)
class Objective:
    """Coefficients of the losses (0 = off) and the way slots are weighted.

    ce, tv, kl, topk_kl, lk_hybrid, lk_alpha: per-slot losses, summed and then averaged with the slot weights. e2e:
    end-to-end total variation of whole chains, on top and not multiplied by slot weights; "surrogate" multiplies the
    per-slot loss by the detached coupling weights instead of differentiating the product of acceptances.
    depth_weights: one mean per slot, summed with these weights (MTP); None takes one mean over all slots (block
    drafters). complete_chains: e2e counts only chains whose every slot is valid (MTP); otherwise those with at least
    one.
    """

    ce: float = 0.0
    tv: float = 0.0
    kl: float = 0.0
    topk_kl: float = 0.0
    lk_hybrid: float = 0.0
    lk_alpha: float = 0.0
    e2e: float = 0.0
    e2e_form: Literal["direct", "surrogate"] = "direct"
    slots: Literal["uniform", "decay", "d-pace", "accept-until-fail"] = "uniform"
    depth_weights: tuple[float, ...] | None = None
    complete_chains: bool = False
    gamma: float = 4.0
    pace: float = 0.5
    eta: float = 3.0
    top_k: int = 10
    top_k_renormalised: bool = False

    def __post_init__(self) -> None:
        coefficients = [self.ce, self.e2e, *self._distillation()]
        if not all(math.isfinite(c) and c >= 0 for c in coefficients) or not any(coefficients):
            raise ValueError(f"An objective needs coefficients >= 0 and at least one above 0, got {self}.")
        if self.e2e and self.e2e_form == "surrogate" and not (self.ce or any(self._distillation())):
            raise ValueError(
                "The surrogate e2e form weights the per-slot losses; give ce, tv, kl or lk a coefficient too."
            )
        if self.gamma <= 0 or not 0 <= self.pace <= 1:
            raise ValueError(f"gamma must be > 0 and pace in [0, 1], got gamma={self.gamma}, pace={self.pace}.")

    def _distillation(self) -> tuple[float, ...]:
        return self.tv, self.kl, self.topk_kl, self.lk_hybrid, self.lk_alpha

    @property
    def has_slot_loss(self) -> bool:
        return bool(self.ce or any(self._distillation()))

    @property
    def label_only(self) -> bool:
        """Nothing but CE: a slot whose label the draft vocabulary lacks then has nothing to learn from."""
        return not any(self._distillation()) and not self.e2e

    def slot_loss(self, laws: Laws) -> tuple[Tensor, Tensor]:
        """The per-slot losses with their coefficients: value [n], gradient with respect to the draft logits [n,
        V_d].
        """
        parts = (
            (self.ce, cross_entropy),
            (self.tv, total_variation),
            (self.kl, forward_kl),
            (self.topk_kl, lambda laws: topk_kl(laws, self.top_k, self.top_k_renormalised)),
            (self.lk_hybrid, lambda laws: lk_hybrid(laws, self.eta)),
            (self.lk_alpha, lk_alpha),
        )
        value: Tensor | None = None
        gradient: Tensor | None = None
        for coefficient, loss in parts:
            if coefficient:
                part_value, part_gradient = loss(laws)
                value = part_value * coefficient if value is None else value + part_value * coefficient
                gradient = (
                    part_gradient.mul_(coefficient)
                    if gradient is None
                    else gradient.add_(part_gradient, alpha=coefficient)
                )
        if value is None or gradient is None:
            raise ValueError(f"no per-slot loss has a coefficient in {self}")
        return value, gradient


@dataclass(frozen=True)
class Outcome:
    """Loss of one micro-batch, not yet normalised, with what the progress line and the metrics show.

    numerators [P] differentiable, denominators [P]: loss = sum(numerators / denominators) after both are summed over
    the processes. Per slot [N]: count of valid slots, correct (argmax is the label), reached (all slots up to here
    correct), acceptance (sum of alpha), missing (sum of teacher mass outside V_d).
    """

    numerators: Tensor
    denominators: Tensor
    count: Tensor
    correct: Tensor
    reached: Tensor
    acceptance: Tensor
    missing: Tensor


def evaluate(draft: DraftHidden, batch: PackedBatch, head: DraftHead, objective: Objective) -> Outcome:
    """Apply `objective` to the chains of one micro-batch."""
    # Selecting the valid slots first keeps padding out of the expensive products.
    valid = draft.valid
    rows = draft.teacher_rows[valid]
    terms: list[RowTerm] = [objective.slot_loss] if objective.has_slot_loss else []
    if objective.e2e and objective.e2e_form == "direct":
        terms.append(total_variation)
    teacher = (batch.final_hidden[rows], batch.lse[rows])
    values, seen = slot_terms(draft.hidden[valid], draft.labels[valid], head, tuple(terms), teacher)
    dense = [_to_chains(value, valid) for value in values]
    slots = SlotStatistics(*(_to_chains(x, valid) for x in vars(seen).values()))
    covered = head.t2d[draft.labels] >= 0
    numerators, denominators = _fractions(dense, slots, valid, covered, objective)
    right = slots.correct & valid
    return Outcome(
        numerators,
        denominators,
        count=valid.sum(0),
        correct=right.sum(0),
        reached=right.cumprod(-1).sum(0),
        acceptance=slots.acceptance.sum(0),
        missing=slots.missing.sum(0),
    )


def _fractions(
    dense: list[Tensor], slots: SlotStatistics, valid: Tensor, covered: Tensor, objective: Objective
) -> tuple[Tensor, Tensor]:
    numerators: list[Tensor] = []
    denominators: list[Tensor] = []
    chains = valid.all(-1) if objective.complete_chains else valid.any(-1)
    if objective.has_slot_loss:
        loss = dense[0]
        weight = _slot_weights(slots, valid & covered if objective.label_only else valid, objective).to(loss.dtype)
        if objective.depth_weights is None:
            numerators.append((weight * loss).sum())
            denominators.append(weight.sum())
        else:
            depth_weights = loss.new_tensor(_per_slot(objective.depth_weights, loss.shape[1]))
            numerators.extend((depth_weights * (weight * loss).sum(0)).unbind())
            denominators.extend(weight.sum(0).unbind())
        if objective.e2e and objective.e2e_form == "surrogate":
            coupled = (weights.coupling(slots.acceptance, valid) * loss).sum(-1)
            numerators.append(objective.e2e * (coupled * chains).sum())
            denominators.append(chains.sum().to(loss.dtype))
    if objective.e2e and objective.e2e_form == "direct":
        chain_loss = end_to_end_tv(1 - dense[-1], valid)
        numerators.append(objective.e2e * (chain_loss * chains).sum())
        denominators.append(chains.sum().to(chain_loss.dtype))
    return torch.stack(numerators), torch.stack(denominators)


def _slot_weights(slots: SlotStatistics, valid: Tensor, objective: Objective) -> Tensor:
    match objective.slots:
        case "decay":
            return weights.exponential_decay(valid, objective.gamma)
        case "d-pace":
            return weights.d_pace(slots.label_probability, valid, objective.pace)
        case "accept-until-fail":
            return weights.accept_until_fail(slots.correct, valid)
    return valid.float()


def _per_slot(depth_weights: tuple[float, ...], depths: int) -> tuple[float, ...]:
    if len(depth_weights) != depths:
        raise ValueError(
            f"depth_weights has {len(depth_weights)} entries but a chain has {depths} slots; give one per slot."
        )
    return depth_weights


def _to_chains(values: Tensor, valid: Tensor) -> Tensor:
    """Scatter the values [n] of the valid slots back to [C, N]; invalid slots get zero."""
    return values.new_zeros(valid.shape).masked_scatter(valid, values)
