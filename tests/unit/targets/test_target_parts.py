"""Cache, ragged layout, attention registry and the refusal of architectures that would be computed wrongly."""

from __future__ import annotations

import pytest
import torch

from angelspec.targets import attention
from angelspec.targets.cache import KVCache
from angelspec.targets.float64 import keep_float64
from angelspec.targets.model import Target, default_layer_ids
from angelspec.targets.ragged import build_context
from angelspec.targets.rows import Rows
from angelspec.targets.spec import UnsupportedTarget
from tests.tiny_targets import TinyTokenizer, build_tiny_target


def small_cache(slots=4, max_len=100) -> KVCache:
    return KVCache.allocate(1, slots, max_len, 1, 2, dtype=torch.float64, device="cpu")


def context(pieces, cache=None, windows=(None,), backend="torch"):
    rows = Rows.concatenate(pieces)
    return build_context(rows, cache or small_cache(), backend=backend, heads_per_kv=2, windows=windows)


def rows(tokens, positions, slots) -> Rows:
    return Rows(*(torch.tensor(values) for values in (tokens, positions, slots)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (rows([], [], []), "at least one"),
        (rows([1, 2], [0], [0, 0]), "equally many"),
        (rows([1], [0], [4]), "outside the cache of 4 slots x 100 positions"),
        (rows([1], [0], [-1]), "outside the cache"),
        (rows([1], [100], [0]), "outside the cache"),
        (rows([1], [-1], [0]), "outside the cache"),
        (rows([1, 2, 3], [0, 0, 1], [0, 1, 0]), "a slot occurs twice"),
        (rows([1, 2], [5, 5], [0, 0]), "must increase"),
        (rows([1, 2], [5, 4], [0, 0]), "must increase"),
    ],
)
def test_rows_that_do_not_fit_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        build_context(given, small_cache(), backend="torch", heads_per_kv=1, windows=(None,))


def test_groups_of_a_pass():
    got = context([(2, 10, [7, 7]), (0, 3, [7])])
    assert got.group_slots.tolist() == [2, 0]
    assert got.group_rows.tolist() == [2, 1]
    assert got.group_starts.tolist() == [0, 2]
    assert got.cache_rows.tolist() == [210, 211, 3]
    assert got.max_context == 12


def test_one_row_in_every_slot_is_attended_in_place():
    """The common case of decoding: the whole cache as a view, no padding, no gathering, context cut to the bucket."""
    got = context([(slot, 40 + slot, [1]) for slot in range(4)])
    (segment,) = got.segments
    assert (segment.slots, segment.shape, segment.gather) == (slice(0, 4), (4, 1, 64), None)


def test_slots_far_apart_are_copied_and_near_ones_are_not():
    cache = small_cache(slots=64)
    assert context([(0, 0, [1]), (63, 0, [1])], cache).segments[0].slots.tolist() == [0, 63]
    assert context([(5, 0, [1]), (10, 0, [1])], cache).segments[0].slots == slice(5, 11)


def test_wide_chunks_are_attended_alone():
    got = context([(0, 0, [1] * 20), (1, 9, [1]), (3, 2, [1] * 3)])
    assert [segment.shape for segment in got.segments] == [(1, 20, 64), (3, 3, 64)]
    assert sorted(torch.cat([segment.rows for segment in got.segments]).tolist()) == list(range(24))


def test_mask_shows_the_past_and_the_window_only():
    got = context([(0, 5, [1])], windows=(None, 3))
    full, window = (got.segments[0].masks[key][0, 0] for key in (None, 3))
    assert (full == 0).nonzero()[:, 1].tolist() == [0, 1, 2, 3, 4, 5] * 2  # two query heads share the key head
    assert (window == 0).nonzero()[:, 1].tolist() == [3, 4, 5] * 2
    assert torch.isneginf(full[full != 0]).all()


def test_context_never_exceeds_the_cache():
    assert context([(0, 99, [1])]).segments[0].shape == (1, 1, 100)


def test_other_backends_get_no_masks():
    assert context([(0, 5, [1])], backend="cpu").segments == ()


def test_another_attention_is_plugged_in_by_name(monkeypatch):
    """A backend written the slow way, row by row, from slots and positions alone: the signature of the kernels."""
    seen = []

    def row_by_row(q, new, cache, ragged, scale, window):
        seen.append((tuple(q.shape), window))
        k, v = cache
        k[ragged.slots, ragged.positions], v[ragged.slots, ragged.positions] = new
        group = q.shape[1] // k.shape[2]
        out = torch.empty_like(q)
        for i, (slot, position) in enumerate(zip(ragged.slots.tolist(), ragged.positions.tolist(), strict=True)):
            keys = k[slot, : position + 1].repeat_interleave(group, dim=1)
            values = v[slot, : position + 1].repeat_interleave(group, dim=1)
            weights = (torch.einsum("hd,shd->hs", q[i], keys) * scale).softmax(-1)
            out[i] = torch.einsum("hs,shd->hd", weights, values)
        return out

    monkeypatch.setitem(attention.BACKENDS, "slow", row_by_row)
    usual = build_tiny_target("llama")
    model = build_tiny_target("llama").model
    slow = Target(model, TinyTokenizer(), {}, backend="slow")
    step = Rows.concatenate([(1, 0, [5, 6, 7]), (0, 0, [9])])
    got = slow.forward(step, slow.new_cache(2, 8)).logits
    torch.testing.assert_close(got, usual.forward(step, usual.new_cache(2, 8)).logits, rtol=0, atol=1e-12)
    assert seen == [((4, 4, 8), None)] * 4


def test_unknown_or_unfit_backends_are_refused(monkeypatch):
    monkeypatch.setitem(attention.BACKENDS, "other", attention.torch_attention)
    with pytest.raises(ValueError, match="'nope' is unknown; there is torch"):
        Target(build_tiny_target("llama").model, TinyTokenizer(), {}, backend="nope")
    with pytest.raises(UnsupportedTarget, match="sliding-window layers need the torch"):
        Target(build_tiny_target("qwen3_sliding").model, TinyTokenizer(), {}, backend="other")


def test_plain_call_of_the_model_says_what_to_do():
    target = build_tiny_target("llama")
    with pytest.raises(ValueError, match="set_attn_implementation"):
        target.model(torch.tensor([[1, 2]]))


def causal_lm(config):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_config(config, dtype=torch.float32)


def test_architectures_that_would_be_computed_wrongly_are_refused():
    from transformers import Gemma2Config, GPT2Config, GraniteConfig, Qwen3NextConfig

    shape = {
        "vocab_size": 11,
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 8,
    }
    cases = [
        (GPT2Config(vocab_size=11, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0), "no embed_tokens"),
        (Gemma2Config(**shape), "softcapping"),
        (GraniteConfig(**shape, logits_scaling=8.0), "logits_scaling=8.0"),
        (Qwen3NextConfig(**shape, num_experts=2, num_experts_per_tok=1), "attention registry"),
    ]
    for config, message in cases:
        with pytest.raises(UnsupportedTarget, match=message):
            Target(causal_lm(config), TinyTokenizer(), {})


def test_layers_without_a_kv_cache_are_refused():
    model = build_tiny_target("llama").model
    model.config.layer_types = ["full_attention", "linear_attention"] * 2
    with pytest.raises(UnsupportedTarget, match="layers of type linear_attention"):
        Target(model, TinyTokenizer(), {})


def test_end_tokens_of_all_sources_are_known():
    model = build_tiny_target("llama").model
    model.generation_config.eos_token_id = [7, 3]
    assert Target(model, TinyTokenizer(), {}).eos_ids == (0, 3, 7)


def test_cache_limits(tiny_llama):
    with pytest.raises(ValueError, match="at least one slot"):
        tiny_llama.new_cache(0, 8)
    with pytest.raises(ValueError, match="beyond the target's 512 positions"):
        tiny_llama.new_cache(1, 513)
    cache = tiny_llama.new_cache(3, 10)
    assert cache.k[0].shape == (3, 10, 2, 8)
    assert cache.nbytes() == 4 * 2 * 3 * 10 * 2 * 8 * 8


def test_default_layer_ids():
    assert default_layer_ids(30, 5) == (1, 8, 14, 20, 27)
    assert default_layer_ids(36, 5) == (1, 9, 17, 25, 33)
    assert default_layer_ids(30, 1) == (27,)
    for layers, count in ((4, 2), (6, 5), (30, 0)):
        with pytest.raises(ValueError, match="different features"):
            default_layer_ids(layers, count)


def test_keep_float64_refuses_other_types():
    with pytest.raises(ValueError, match="expects a float64 model"):
        keep_float64(build_tiny_target("llama", dtype=torch.float32).model)
