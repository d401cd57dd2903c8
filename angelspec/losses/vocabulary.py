"""The vocabulary pass: from draft hidden states to per-slot losses, a few rows at a time.

The LM head is frozen, so of d loss / d logits [n, V_d] only its image under the head is ever needed, d loss / d hidden
[n, H]. It is computed while the logits of a chunk of rows exist anyway. What survives a chunk is one value and one
Jacobian row of H numbers per slot and term; logits never exist for all anchors at once, nothing is recomputed in the
backward pass, and everything that mixes slots (D-PACE weights, end-to-end products, normalisers) is ordinary autograd
on the small per-slot values.

Matrix products of n x H x V_d: one for q, one for p, one per term that is differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from angelspec.losses.laws import Laws
from angelspec.training.types import DraftHead

RowTerm = Callable[[Laws], tuple[Tensor, Tensor]]
"""Value [n] and gradient with respect to the draft logits [n, V_d] of one loss, row by row."""

CHUNK_ELEMENTS = {"cpu": 2**21, "cuda": 2**26}  # logits of a chunk
MIN_CHUNK = 128  # rows; a product with fewer spends its time on reading the head


@dataclass(frozen=True)
class SlotStatistics:
    """What was seen on the way, [n] each and without gradient.

    label_probability q(label), 0 outside V_d; correct: the draft's likeliest token is the label; acceptance alpha =
    sum min(p, q) and missing (mass of p outside V_d), both NaN without a teacher.
    """

    label_probability: Tensor
    correct: Tensor
    acceptance: Tensor
    missing: Tensor


def slot_terms(
    hidden: Tensor,
    labels: Tensor,
    head: DraftHead,
    terms: tuple[RowTerm, ...],
    teacher: tuple[Tensor, Tensor] | None = None,
    chunk: int | None = None,
) -> tuple[Tensor, SlotStatistics]:
    """Values [K, n] of the K `terms` for n slots, differentiable in `hidden` only.

    hidden [n, H]; labels [n] target ids; teacher = (final_hidden [n, H], lse [n]) of the teacher rows, needed by every
    term but CE; chunk = rows whose logits exist at the same time (chosen from V_d when None).
    """
    if hidden.shape[-1] != head.weight.shape[-1]:
        raise ValueError(
            f"The drafter's hidden size is {hidden.shape[-1]} but the LM head takes {head.weight.shape[-1]}:"
            " the drafter was built for another target."
        )
    elements = CHUNK_ELEMENTS.get(hidden.device.type, CHUNK_ELEMENTS["cpu"])
    chunk = chunk or max(MIN_CHUNK, elements // head.weight.shape[0])
    draft_labels = head.t2d[labels]
    values, probability, correct, acceptance, missing = _VocabularyPass.apply(
        hidden, draft_labels, head.weight, teacher, terms, chunk
    )
    return values, SlotStatistics(probability, correct, acceptance, missing)


class _VocabularyPass(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,
        hidden: Tensor,
        labels: Tensor,
        weight: Tensor,
        teacher: tuple[Tensor, Tensor] | None,
        terms: tuple[RowTerm, ...],
        chunk: int,
    ) -> tuple[Tensor, ...]:
        rows, dtype = hidden.shape[0], _accumulation_dtype(weight)
        differentiate = ctx.needs_input_grad[0]
        values = hidden.new_zeros((len(terms), rows), dtype=dtype)
        jacobian = hidden.new_empty((len(terms), *hidden.shape), dtype=dtype) if differentiate else None
        statistics = [hidden.new_full((rows,), torch.nan, dtype=dtype) for _ in range(3)]
        correct = torch.zeros(rows, dtype=torch.bool, device=hidden.device)
        for start in range(0, rows, chunk):
            part = slice(start, start + chunk)
            laws = _chunk_laws(hidden[part], labels[part], weight, teacher, part)
            for index, term in enumerate(terms):
                values[index, part], gradient = term(laws)
                if jacobian is not None:
                    jacobian[index, part] = _matmul(gradient, weight)
            _record(laws, part, statistics, correct)
        if jacobian is not None:
            ctx.save_for_backward(jacobian)
            ctx.hidden_dtype = hidden.dtype
        probability, acceptance, missing = statistics
        ctx.mark_non_differentiable(probability, correct, acceptance, missing)
        return values, probability, correct, acceptance, missing

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, *_: Any) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        (jacobian,) = ctx.saved_tensors
        gradient = torch.einsum("kn,knh->nh", upstream.to(jacobian.dtype), jacobian)
        return gradient.to(ctx.hidden_dtype), None, None, None, None, None


def _chunk_laws(
    hidden: Tensor, labels: Tensor, weight: Tensor, teacher: tuple[Tensor, Tensor] | None, part: slice
) -> Laws:
    if teacher is None:
        return Laws.of(_matmul(hidden, weight.T), labels)
    # One product for draft and teacher: the head is the big operand, and it is read once.
    both = torch.cat([hidden, teacher[0][part].to(hidden.dtype)])
    logits, teacher_logits = _matmul(both, weight.T).split(len(hidden))
    return Laws.of(logits, labels, teacher_logits.sub_(teacher[1][part, None].to(logits.dtype)))


def _record(laws: Laws, part: slice, statistics: list[Tensor], correct: Tensor) -> None:
    probability, acceptance, missing = statistics
    probability[part] = laws.label_log_q().exp()
    correct[part] = laws.logits.argmax(-1) == laws.labels
    if laws.teacher is not None:
        acceptance[part], missing[part] = laws.acceptance, laws.missing


def _accumulation_dtype(weight: Tensor) -> torch.dtype:
    return torch.float32 if weight.dtype in (torch.bfloat16, torch.float16) else weight.dtype


def _matmul(left: Tensor, right: Tensor) -> Tensor:
    """Product in the head's dtype with a float32 result: logits rounded to bfloat16 would blur p and q."""
    left = left.to(right.dtype)
    if right.dtype in (torch.bfloat16, torch.float16) and right.is_cuda:
        return torch.mm(left, right, out_dtype=torch.float32)
    return (left @ right).to(_accumulation_dtype(right))
