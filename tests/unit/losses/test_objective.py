"""Objectives on whole chains: the normaliser, the mixtures of the two training stages, MTP's depths, invalid slots."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from angelspec.losses.objective import Objective, Outcome, evaluate
from angelspec.training.types import DraftHead, DraftHidden, PackedBatch

CHAINS, SLOTS, HIDDEN, VOCAB, LENGTH = 8, 4, 6, 17, 24


def make(seed: int = 0) -> tuple[DraftHidden, PackedBatch, DraftHead]:
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(VOCAB, HIDDEN, generator=generator, dtype=torch.float64)
    final_hidden = torch.randn(LENGTH, HIDDEN, generator=generator, dtype=torch.float64)
    batch = PackedBatch(
        tokens=torch.randint(VOCAB, (LENGTH,), generator=generator),
        positions=torch.arange(LENGTH),
        documents=torch.zeros(LENGTH, dtype=torch.int64),
        supervised=torch.ones(LENGTH, dtype=torch.bool),
        features=final_hidden[:, None],
        final_hidden=final_hidden,
        lse=(final_hidden @ weight.T).logsumexp(-1),
    )
    lengths = torch.tensor([4, 4, 4, 3, 2, 1, 0, 4])
    draft = DraftHidden(
        hidden=torch.randn(CHAINS, SLOTS, HIDDEN, generator=generator, dtype=torch.float64, requires_grad=True),
        labels=torch.randint(VOCAB, (CHAINS, SLOTS), generator=generator),
        teacher_rows=torch.randint(LENGTH, (CHAINS, SLOTS), generator=generator),
        valid=torch.arange(SLOTS) < lengths[:, None],
    )
    return draft, batch, DraftHead.restrict(weight)


def total(outcome: Outcome) -> Tensor:
    return (outcome.numerators / outcome.denominators).sum()


def acceptances(draft: DraftHidden, batch: PackedBatch, head: DraftHead) -> Tensor:
    p = (batch.final_hidden[draft.teacher_rows] @ head.weight.T).softmax(-1)
    return torch.minimum(p, (draft.hidden @ head.weight.T).softmax(-1)).sum(-1)


def gradient(loss: Tensor, draft: DraftHidden) -> Tensor:
    return torch.autograd.grad(loss, draft.hidden)[0]


def test_decayed_cross_entropy_is_the_weighted_mean() -> None:
    draft, batch, head = make()
    outcome = evaluate(draft, batch, head, Objective(ce=1.0, slots="decay", gamma=2.0))
    ce = -(draft.hidden @ head.weight.T).log_softmax(-1).gather(-1, draft.labels[..., None])[..., 0]
    weight = torch.exp(-torch.arange(SLOTS) / 2.0) * draft.valid
    expected = (weight * ce).sum() / weight.sum()
    torch.testing.assert_close(total(outcome), expected)
    torch.testing.assert_close(gradient(total(outcome), draft), gradient(expected, draft))


def test_final_stage_is_one_minus_the_mean_accepted_share() -> None:
    draft, batch, head = make()
    outcome = evaluate(draft, batch, head, Objective(e2e=1.0))
    alpha = torch.where(draft.valid, acceptances(draft, batch, head), 1.0)
    length = draft.valid.sum(-1)
    used = length > 0
    shares = (alpha.cumprod(-1) * draft.valid).sum(-1)[used] / length[used]
    torch.testing.assert_close(total(outcome), (1 - shares).mean())
    torch.testing.assert_close(gradient(total(outcome), draft), gradient((1 - shares).mean(), draft))


def test_mtp_depths_are_averaged_apart_and_chains_must_be_complete() -> None:
    draft, batch, head = make()
    share = (0.4, 0.3, 0.2, 0.1)
    outcome = evaluate(draft, batch, head, Objective(tv=1.0, e2e=0.5, depth_weights=share, complete_chains=True))
    alpha = acceptances(draft, batch, head)
    depths = [share[d] * (1 - alpha[draft.valid[:, d], d]).mean() for d in range(SLOTS)]
    complete = draft.valid.all(-1)
    coupled = (1 - alpha[complete].cumprod(-1).mean(-1)).mean()
    expected = torch.stack(depths).sum() + 0.5 * coupled
    torch.testing.assert_close(total(outcome), expected)
    torch.testing.assert_close(gradient(total(outcome), draft), gradient(expected, draft))


def test_surrogate_coupling_of_tv_has_the_gradient_of_the_direct_form() -> None:
    draft, batch, head = make()
    plain = evaluate(draft, batch, head, Objective(tv=1.0))
    direct = evaluate(draft, batch, head, Objective(tv=1.0, e2e=1.0, complete_chains=True))
    surrogate = evaluate(draft, batch, head, Objective(tv=1.0, e2e=1.0, e2e_form="surrogate", complete_chains=True))
    slot_part = gradient(total(plain), draft)
    coupled = gradient(total(direct), draft) - slot_part
    torch.testing.assert_close(gradient(total(surrogate), draft) - slot_part, coupled)
    assert coupled.abs().max() > 1e-4


def test_two_halves_add_up_to_the_whole() -> None:
    draft, batch, head = make()
    objective = Objective(lk_hybrid=1.0, e2e=0.3, slots="d-pace")
    whole = evaluate(draft, batch, head, objective)
    halves = []
    for part in (slice(0, 3), slice(3, None)):
        piece = DraftHidden(draft.hidden[part], draft.labels[part], draft.teacher_rows[part], draft.valid[part])
        halves.append(evaluate(piece, batch, head, objective))
    for name in vars(whole):
        torch.testing.assert_close(sum(getattr(half, name) for half in halves), getattr(whole, name))


def test_invalid_slots_change_nothing() -> None:
    draft, batch, head = make()
    objective = Objective(lk_hybrid=1.0, ce=0.1, e2e=1.0, slots="d-pace")
    expected = evaluate(draft, batch, head, objective)
    garbage = torch.where(draft.valid[..., None], draft.hidden, 1e6)
    other = DraftHidden(
        garbage, torch.where(draft.valid, draft.labels, 0), draft.teacher_rows * draft.valid, draft.valid
    )
    outcome = evaluate(other, batch, head, objective)
    for name in vars(expected):
        torch.testing.assert_close(getattr(outcome, name), getattr(expected, name))


def test_cross_entropy_ignores_labels_outside_the_draft_vocabulary() -> None:
    draft, batch, _ = make()
    weight = make()[2].weight
    head = DraftHead.restrict(weight, torch.arange(9))
    outcome = evaluate(draft, batch, head, Objective(ce=1.0))
    inside = draft.valid & (draft.labels < 9)
    assert 0 < inside.sum() < draft.valid.sum()
    ce = -(draft.hidden @ head.weight.T).log_softmax(-1).gather(-1, draft.labels.clamp(max=8)[..., None])[..., 0]
    torch.testing.assert_close(total(outcome), ce[inside].mean())
    assert int(outcome.count.sum()) == int(draft.valid.sum())


def test_statistics_count_slots_and_prefixes() -> None:
    draft, batch, head = make()
    right = ((draft.hidden @ head.weight.T).argmax(-1) == draft.labels) & draft.valid
    outcome = evaluate(draft, batch, head, Objective(ce=1.0))
    assert outcome.correct.tolist() == right.sum(0).tolist()
    assert outcome.reached.tolist() == right.cumprod(-1).sum(0).tolist()
    torch.testing.assert_close(outcome.acceptance, (acceptances(draft, batch, head) * draft.valid).sum(0).detach())


@pytest.mark.parametrize(
    "wrong", [{}, {"ce": -1.0}, {"ce": float("nan")}, {"e2e": 1.0, "e2e_form": "surrogate"}, {"ce": 1.0, "gamma": 0.0}]
)
def test_senseless_objectives_are_refused(wrong: dict) -> None:
    with pytest.raises(ValueError):
        Objective(**wrong)


def test_depth_weights_must_match_the_depths() -> None:
    draft, batch, head = make()
    with pytest.raises(ValueError, match="one per slot"):
        evaluate(draft, batch, head, Objective(ce=1.0, depth_weights=(1.0,)))
