"""The chunked vocabulary pass: equal to the whole computation, exact over V at the cost of V_d columns, small in
memory.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from angelspec.losses.ce import cross_entropy
from angelspec.losses.lk import lk_hybrid
from angelspec.losses.tv import total_variation
from angelspec.losses.vocabulary import slot_terms
from angelspec.training.types import DraftHead

ROWS, HIDDEN, VOCAB = 29, 12, 50


@pytest.fixture
def setting() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    hidden, final_hidden = torch.randn(2, ROWS, HIDDEN, generator=generator, dtype=torch.float64)
    weight = torch.randn(VOCAB, HIDDEN, generator=generator, dtype=torch.float64)
    labels = torch.randint(VOCAB, (ROWS,), generator=generator)
    return hidden, final_hidden, weight, labels


@pytest.mark.parametrize("chunk", [1, 8, 100])
def test_chunked_gradient_equals_autograd_through_all_logits(setting: tuple[Tensor, ...], chunk: int) -> None:
    hidden, final_hidden, weight, labels = setting
    draft_ids = torch.arange(0, VOCAB, 2)
    head = DraftHead.restrict(weight, draft_ids)
    p = (final_hidden @ weight.T).softmax(-1)
    mixing = torch.randn(2, ROWS, generator=torch.Generator().manual_seed(2), dtype=torch.float64)

    plain = hidden.clone().requires_grad_()
    q = torch.zeros(ROWS, VOCAB, dtype=torch.float64).index_copy(
        -1, draft_ids, (plain @ weight[draft_ids].T).softmax(-1)
    )
    tv = 0.5 * (p - q).abs().sum(-1)
    label_q = q.gather(-1, labels[:, None])[:, 0]
    ce = torch.where(label_q > 0, -label_q.clamp_min(1e-300).log(), 0.0)
    (mixing * torch.stack([ce, tv])).sum().backward()

    ours = hidden.clone().requires_grad_()
    teacher = (final_hidden, (final_hidden @ weight.T).logsumexp(-1))
    values, seen = slot_terms(ours, labels, head, (cross_entropy, total_variation), teacher, chunk)
    (mixing * values).sum().backward()

    torch.testing.assert_close(values.detach(), torch.stack([ce, tv]).detach())
    torch.testing.assert_close(ours.grad, plain.grad)
    torch.testing.assert_close(seen.label_probability, label_q.detach())
    torch.testing.assert_close(seen.missing, 1 - p[:, draft_ids].sum(-1))
    torch.testing.assert_close(seen.acceptance, 1 - tv.detach())


def test_only_the_hidden_states_receive_a_gradient(setting: tuple[Tensor, ...]) -> None:
    hidden, final_hidden, weight, labels = setting
    weight = weight.clone().requires_grad_()
    head = DraftHead.restrict(weight)
    values, _ = slot_terms(hidden.clone().requires_grad_(), labels, head, (cross_entropy,))
    values.sum().backward()
    assert weight.grad is None


def test_a_drafter_of_another_target_is_refused(setting: tuple[Tensor, ...]) -> None:
    hidden, _, weight, labels = setting
    with pytest.raises(ValueError, match="built for another target"):
        slot_terms(hidden[:, :-1], labels, DraftHead.restrict(weight), (cross_entropy,))


class LargestTensor(TorchDispatchMode):
    """The most elements that any single operation wrote."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(tensor, Tensor):
                self.elements = max(self.elements, tensor.numel())
        return out


def test_logits_never_exist_for_all_rows_at_once() -> None:
    rows, hidden_size, vocab, chunk = 1024, 16, 2048, 32
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(rows, hidden_size, generator=generator, requires_grad=True)
    weight = torch.randn(vocab, hidden_size, generator=generator)
    teacher = (torch.randn(rows, hidden_size, generator=generator), torch.full((rows,), 10.0))
    head = DraftHead.restrict(weight)
    labels = torch.randint(vocab, (rows,), generator=generator)
    with LargestTensor() as largest:
        values, _ = slot_terms(hidden, labels, head, (lk_hybrid,), teacher, chunk)
        values.sum().backward()
    assert largest.elements == 2 * chunk * vocab  # draft and teacher of one chunk, and not rows * vocab


def test_peak_memory_is_that_of_a_chunk() -> None:
    """Live bytes inside the pass, by torch's own allocation events: a few arrays of one chunk, plus H numbers a row."""
    rows, hidden_size, vocab, chunk = 2048, 16, 4096, 64
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(rows, hidden_size, generator=generator, requires_grad=True)
    head = DraftHead.restrict(torch.randn(vocab, hidden_size, generator=generator))
    teacher = (torch.randn(rows, hidden_size, generator=generator), torch.full((rows,), 10.0))
    labels = torch.randint(vocab, (rows,), generator=generator)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        slot_terms(hidden, labels, head, (lk_hybrid,), teacher, chunk)[0].sum().backward()
    live = peak = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    one_chunk, all_rows = 4 * chunk * vocab, 4 * rows * vocab
    assert one_chunk < peak < 12 * one_chunk, f"{peak / one_chunk:.1f} chunks"
    assert peak < all_rows / 2
