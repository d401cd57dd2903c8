"""Packing: a packed row computes exactly what its documents compute one by one."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM

from angelspec.data.packing import IGNORED, Document, attention_allowed, pack, plan_bins, shifted_labels

VOCAB, HIDDEN, LAYERS = 97, 32, 2


def make_document(length: int, prompt: int, seed: int) -> Document:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(VOCAB, (length,), generator=generator)
    rows = length - 1
    return Document(
        tokens,
        torch.arange(length) >= prompt,
        torch.randn(rows, LAYERS, HIDDEN, generator=generator),
        torch.randn(rows, HIDDEN, generator=generator),
        torch.randn(rows, generator=generator),
    )


DOCUMENTS = [make_document(7, 3, 0), make_document(1, 0, 1), make_document(12, 5, 2), make_document(4, 1, 3)]


@pytest.fixture(scope="module")
def llama() -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        intermediate_size=48,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        attn_implementation="sdpa",  # the eager softmax is float32 even in a float64 model
    )
    torch.manual_seed(0)
    return LlamaForCausalLM(config).double().eval()


def packed_logits(model: LlamaForCausalLM, batch, allowed: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    bias = torch.zeros(allowed.shape, dtype=torch.float64).masked_fill(~allowed, torch.finfo(torch.float64).min)
    with torch.no_grad():
        return model(batch.tokens[None], attention_mask=bias[None, None], position_ids=positions[None]).logits[0]


def test_packed_logits_and_losses_equal_those_of_the_documents_alone(llama):
    batch = pack(DOCUMENTS)
    packed = packed_logits(llama, batch, attention_allowed(batch.documents, batch.positions), batch.positions)
    with torch.no_grad():
        alone = [llama(document.tokens[None]).logits[0] for document in DOCUMENTS]
    torch.testing.assert_close(packed, torch.cat(alone), rtol=0, atol=1e-12)

    packed_loss = torch.nn.functional.cross_entropy(
        packed, shifted_labels(batch, 1), ignore_index=IGNORED, reduction="sum"
    )
    losses = []
    for logits, document in zip(alone, DOCUMENTS, strict=True):
        labels = torch.where(document.supervised[1:], document.tokens[1:], IGNORED)
        losses.append(torch.nn.functional.cross_entropy(logits[:-1], labels, ignore_index=IGNORED, reduction="sum"))
    torch.testing.assert_close(packed_loss, torch.stack(losses).sum(), rtol=0, atol=1e-10)


def test_isolation_needs_the_mask_and_the_positions(llama):
    """The test above can fail: leaving out either half of the isolation changes the logits."""
    batch = pack(DOCUMENTS)
    allowed = attention_allowed(batch.documents, batch.positions)
    right = packed_logits(llama, batch, allowed, batch.positions)
    rows = torch.arange(len(batch))
    causal_only = packed_logits(llama, batch, rows[None, :] <= rows[:, None], batch.positions)
    assert (causal_only - right).abs().max() > 1e-3
    # One shift for a whole document changes nothing (rotary angles are relative), so stretch the positions instead.
    stretched = packed_logits(llama, batch, allowed, batch.positions * 2)
    assert (stretched - right).abs().max() > 1e-6


def test_changing_one_document_moves_no_row_of_another(llama):
    other = make_document(12, 5, 99)
    before, after = pack(DOCUMENTS), pack([*DOCUMENTS[:2], other, *DOCUMENTS[3:]])
    allowed = attention_allowed(before.documents, before.positions)
    difference = packed_logits(llama, before, allowed, before.positions) - packed_logits(
        llama, after, allowed, after.positions
    )
    changed = difference.abs().amax(dim=1) > 0
    assert changed[before.documents == 2].any()
    assert not changed[before.documents != 2].any()


@pytest.mark.parametrize("shift", [1, 2, 3, 6, 40])
def test_labels_against_a_naive_loop(shift):
    batch = pack(DOCUMENTS)
    expected = []
    for document in DOCUMENTS:
        for t in range(len(document)):
            inside = t + shift < len(document) and bool(document.supervised[t + shift])
            expected.append(int(document.tokens[t + shift]) if inside else IGNORED)
    assert shifted_labels(batch, shift).tolist() == expected


def test_attention_against_a_naive_loop():
    batch = pack(DOCUMENTS)
    owner, place = batch.documents.tolist(), batch.positions.tolist()
    expected = [[owner[i] == owner[j] and place[j] <= place[i] for j in range(len(batch))] for i in range(len(batch))]
    assert attention_allowed(batch.documents, batch.positions).tolist() == expected


def test_rows_of_the_target_stay_with_their_tokens_and_last_rows_are_zero():
    batch = pack(DOCUMENTS)
    start = 0
    for document in DOCUMENTS:
        end = start + len(document)
        assert torch.equal(batch.features[start : end - 1], document.features)
        assert torch.equal(batch.lse[start : end - 1], document.lse)
        assert torch.equal(batch.final_hidden[start : end - 1], document.final_hidden)
        assert not batch.features[end - 1].any()
        assert not batch.final_hidden[end - 1].any()
        assert batch.lse[end - 1] == 0
        start = end
    assert start == len(batch)


def test_truncated_document_loses_the_row_of_its_new_last_token():
    short = DOCUMENTS[2].truncate(6)
    assert len(short) == 6
    assert torch.equal(short.features, DOCUMENTS[2].features[:5])
    assert DOCUMENTS[2].truncate(12) is DOCUMENTS[2]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 50), max_size=60), st.integers(50, 120))
def test_every_document_is_placed_once_and_no_row_overflows(lengths, capacity):
    bins = plan_bins(lengths, capacity)
    assert sorted(i for members in bins for i in members) == list(range(len(lengths)))
    assert all(0 < sum(lengths[i] for i in members) <= capacity for members in bins)
    # First fit: no two rows could be one.
    loads = sorted(sum(lengths[i] for i in members) for members in bins)
    assert len(loads) < 2 or loads[0] + loads[1] > capacity
    assert bins == plan_bins(lengths, capacity)


@pytest.mark.parametrize(
    ("lengths", "capacity", "words"), [([5, 9], 8, "Document 1 has 9"), ([0], 8, "0 tokens"), ([1], 0, "capacity")]
)
def test_what_does_not_fit_is_named(lengths, capacity, words):
    with pytest.raises(ValueError, match=words):
        plan_bins(lengths, capacity)


def test_broken_documents_and_empty_packs_are_refused():
    with pytest.raises(ValueError, match="no document"):
        pack([])
    good = DOCUMENTS[0]
    with pytest.raises(ValueError, match="needs 6 rows of lse; it has 7"):
        Document(good.tokens, good.supervised, good.features, good.final_hidden, torch.zeros(7))
    with pytest.raises(ValueError, match="shift is 0"):
        shifted_labels(pack(DOCUMENTS), 0)
