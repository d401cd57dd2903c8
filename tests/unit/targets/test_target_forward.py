"""The ragged forward against transformers' own, on tiny random models in float64.

Two shapes of the same computation sum in different orders, so across shapes "equal" means within 1e-12 (logits are of
order 10; the differences seen are 1e-14). Where the shapes are the same, the bits are.
"""

from __future__ import annotations

import random

import pytest
import torch

from angelspec.targets.rows import Rows
from tests.tiny_targets import TINY_VOCAB, build_tiny_target

KINDS = ("llama", "qwen3", "qwen3_sliding", "qwen3_moe")
LAYERS = (0, 2, 3)
LENGTHS = (40, 5, 23, 1)
SLOTS = (6, 1, 3, 2)


@pytest.fixture(params=KINDS)
def target(request, tiny_target):
    return tiny_target(request.param)


def sequences(lengths=LENGTHS, seed=1) -> list[list[int]]:
    source = random.Random(seed)
    return [[source.randrange(1, TINY_VOCAB) for _ in range(length)] for length in lengths]


def prefill(target, cache, slots, tokens, **kwargs):
    return target.forward(Rows.concatenate([(s, 0, t) for s, t in zip(slots, tokens, strict=True)]), cache, **kwargs)


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_ragged_equals_one_by_one_stock(target, stock):
    tokens = sequences()
    got = prefill(target, target.new_cache(8, 64), SLOTS, tokens, layer_ids=LAYERS)
    start = 0
    for ids in tokens:
        want, mine = stock(target, torch.tensor([ids])), slice(start, start + len(ids))
        close(got.logits[mine], want.logits[0])
        close(got.final_hidden[mine], want.hidden_states[-1][0])
        for column, layer in enumerate(LAYERS[:-1]):
            close(got.features[mine, column], want.hidden_states[layer + 1][0])
        # transformers reports the last layer after the norm; ours is the residual stream before it
        close(target.final_norm(got.features[mine, 2]), want.hidden_states[-1][0])
        start += len(ids)
    assert start == got.logits.shape[0]


def test_ragged_equals_padded_stock(target, stock):
    tokens = sequences()
    width = max(map(len, tokens))
    padded = torch.tensor([ids + [0] * (width - len(ids)) for ids in tokens])
    mask = torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids in tokens])
    want = stock(target, padded, attention_mask=mask).logits[mask.bool()]
    close(prefill(target, target.new_cache(8, 64), SLOTS, tokens).logits, want)


def test_feature_of_position_t_is_that_of_a_fresh_forward_of_prefix_t(target, stock):
    (ids,) = sequences([12])
    got = prefill(target, target.new_cache(1, 16), [0], [ids], layer_ids=(1,))
    for t in range(len(ids)):
        fresh = stock(target, torch.tensor([ids[: t + 1]]))
        close(got.features[t, 0], fresh.hidden_states[2][0, -1])
        close(got.final_hidden[t], fresh.hidden_states[-1][0, -1])


@pytest.mark.parametrize("plan", ["1", "7", "17", "40", "random"])
def test_any_cut_into_passes_gives_the_whole(target, stock, plan):
    """Chunks of one size (17 and 40 are attended alone, 1 and 7 padded together) and random ones, sequences mixed."""
    tokens, source = sequences(), random.Random(7)
    cache, done, seen = target.new_cache(8, 64), [0] * len(tokens), [[] for _ in tokens]
    while any(d < len(t) for d, t in zip(done, tokens, strict=True)):
        active = [i for i, t in enumerate(tokens) if done[i] < len(t)]
        if plan == "random":
            active = source.sample(active, source.randint(1, len(active)))
        sizes = {i: source.randint(1, 30) if plan == "random" else int(plan) for i in active}
        pieces = [(SLOTS[i], done[i], tokens[i][done[i] : done[i] + sizes[i]]) for i in active]
        result = target.forward(Rows.concatenate(pieces), cache)
        for i, part in zip(active, result.logits.split([len(p[2]) for p in pieces]), strict=True):
            seen[i].append(part)
            done[i] += len(part)
    for ids, parts in zip(tokens, seen, strict=True):
        close(torch.cat(parts), stock(target, torch.tensor([ids])).logits[0])


def test_same_call_twice_gives_the_same_bits(target):
    tokens, cache = sequences(), target.new_cache(8, 64)
    first = prefill(target, cache, SLOTS, tokens, layer_ids=LAYERS)
    second = prefill(target, cache, SLOTS, tokens, layer_ids=LAYERS)
    assert torch.equal(first.logits, second.logits)
    assert torch.equal(first.features, second.features)
    assert torch.equal(first.final_hidden, second.final_hidden)


def test_rejected_rows_leave_no_trace(target):
    """Draft rows that were refused, and a former owner of the slot, are overwritten before anything can see them."""
    (ids,) = sequences([30])
    clean, used = target.new_cache(2, 64), target.new_cache(2, 64)
    prefill(target, used, [1, 0], sequences([60, 50], seed=5))
    for cache in (clean, used):
        prefill(target, cache, [1], [ids[:20]])
    target.forward(Rows.concatenate([(1, 20, [3, 1, 4, 1, 5, 9, 2, 6])]), used)
    rows = Rows.concatenate([(1, 20, ids[20:22])])
    assert torch.equal(target.forward(rows, clean).logits, target.forward(rows, used).logits)
    rest = Rows.concatenate([(1, 22, ids[22:])])
    assert torch.equal(target.forward(rest, clean).logits, target.forward(rest, used).logits)


def test_a_request_alone_equals_the_same_request_among_64(target):
    source = random.Random(3)
    lengths = [source.randint(1, 30) for _ in range(64)]
    tokens, slots = sequences(lengths, seed=4), source.sample(range(64), 64)
    batch_cache = target.new_cache(64, 48)
    prefill(target, batch_cache, slots, tokens)
    step = [(slot, len(ids), [1 + slot, 2, 3][: 1 + slot % 3]) for slot, ids in zip(slots, tokens, strict=True)]
    together = target.forward(Rows.concatenate(step), batch_cache, layer_ids=LAYERS)
    ends = [0]
    for _, _, new in step:
        ends.append(ends[-1] + len(new))
    for i in (0, 13, 63):
        alone_cache = target.new_cache(1, 48)
        prefill(target, alone_cache, [0], [tokens[i]])
        alone = target.forward(Rows.concatenate([(0, *step[i][1:])]), alone_cache, layer_ids=LAYERS)
        close(together.logits[ends[i] : ends[i + 1]], alone.logits)
        close(together.features[ends[i] : ends[i + 1]], alone.features)


def test_a_prefill_chunk_beside_decode_and_verify_rows(target, stock):
    """One wide group alone, narrow ones padded together, slots far apart (copied) and in no order."""
    lengths, slots = (45, 18, 9, 33), (30, 2, 57, 11)
    tokens, heads = sequences(lengths, seed=9), (5, 17, 6, 25)
    cache = target.new_cache(64, 64)
    prefill(target, cache, slots, [t[:h] for t, h in zip(tokens, heads, strict=True)])
    pieces = [(s, h, t[h:]) for s, h, t in zip(slots, heads, tokens, strict=True)]
    got = target.forward(Rows.concatenate(pieces), cache).logits
    want = [stock(target, torch.tensor([t])).logits[0, h:] for t, h in zip(tokens, heads, strict=True)]
    close(got, torch.cat(want))


def test_logits_only_for_the_rows_asked_for(tiny_llama):
    tokens = sequences()
    every = prefill(tiny_llama, tiny_llama.new_cache(8, 64), SLOTS, tokens)
    wanted = torch.tensor([68, 39, 44])
    some = prefill(tiny_llama, tiny_llama.new_cache(8, 64), SLOTS, tokens, logit_rows=wanted)
    close(some.logits, every.logits[wanted])
    none = prefill(tiny_llama, tiny_llama.new_cache(8, 64), SLOTS, tokens, logit_rows=wanted[:0])
    assert none.logits.shape == (0, TINY_VOCAB)
    assert none.features.shape == (len(every.logits), 0, 32)


def test_features_change_with_the_layers_asked_for(tiny_llama):
    (ids,) = sequences([6])
    cache = tiny_llama.new_cache(1, 8)
    both = prefill(tiny_llama, cache, [0], [ids], layer_ids=(3, 0)).features
    assert prefill(tiny_llama, cache, [0], [ids]).features.shape[1] == 0
    single = prefill(tiny_llama, cache, [0], [ids], layer_ids=(0,)).features
    assert torch.equal(both[:, 1], single[:, 0])
    assert not torch.equal(both[:, 0], single[:, 0])


@pytest.mark.parametrize("layer_ids", [(4,), (-1,), (0, 0), (True,), (1.0,), ("1",)])
def test_wrong_layer_ids_are_refused(tiny_llama, layer_ids):
    with pytest.raises(ValueError, match=r"expected different integers in 0\.\.3"):
        prefill(tiny_llama, tiny_llama.new_cache(1, 8), [0], [[1, 2]], layer_ids=layer_ids)


def test_results_can_be_trained_on_and_weights_cannot(tiny_llama):
    """Features feed a drafter's training: they must not be inference tensors, and no gradient flows into the target."""
    got = prefill(tiny_llama, tiny_llama.new_cache(1, 8), [0], [[1, 2]], layer_ids=(1,))
    weight = torch.ones(32, dtype=torch.float64, requires_grad=True)
    (got.features[:, 0] * weight).sum().backward()
    assert weight.grad is not None
    assert not any(parameter.requires_grad for parameter in tiny_llama.model.parameters())


def test_stock_float32_model_is_left_unmodified(stock):
    """Below float64 nothing of the model is replaced; the difference is float32 rounding."""
    target = build_tiny_target("qwen3_moe", dtype=torch.float32)
    tokens = sequences()
    got = prefill(target, target.new_cache(8, 64), SLOTS, tokens).logits
    want = torch.cat([stock(target, torch.tensor([ids])).logits[0] for ids in tokens])
    torch.testing.assert_close(got, want, rtol=0, atol=2e-5)
    assert got.dtype == torch.float32
    assert all("forward" not in vars(module) for module in target.model.modules())
