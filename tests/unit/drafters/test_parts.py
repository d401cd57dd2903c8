"""Sizes from the target, rotary angles, draft vocabulary, mask token, initialisation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AddedToken, LlamaConfig, Qwen3Config
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from angelspec.drafters.base import NeuralDrafter
from angelspec.drafters.config import target_sizes
from angelspec.drafters.initialise import initialise_from_target, initialise_random, typical_size
from angelspec.drafters.layers import Rotary, rotate
from angelspec.drafters.vocab import choose_draft_vocab, choose_mask_token, count_tokens, coverage
from angelspec.training.types import PackedBatch

IDENTITY = {"kind": "folder", "name": "x", "revision": "1", "digest": "d"}
SCALED = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


@pytest.mark.parametrize(
    "rope", [{"rope_type": "default", "rope_theta": 100000.0}, SCALED, SCALED | {"rope_type": "linear"}]
)
def test_rotary_is_that_of_the_target(make: Callable[..., NeuralDrafter], rope: dict) -> None:
    config = LlamaConfig(
        hidden_size=36, num_attention_heads=3, num_key_value_heads=1, head_dim=16, rope_parameters=dict(rope)
    )
    sizes = target_sizes(config, IDENTITY)
    assert sizes["head_dim"] == 16 and sizes["num_kv_heads"] == 1 and sizes["hidden_size"] == 36
    ours = Rotary(
        dataclasses.replace(make("dflash").config, **{key: sizes[key] for key in ("rope_parameters", "head_dim")})
    )
    positions, x = torch.tensor([0, 1, 7, 300]), torch.randn(4, 3, 16)
    cos, sin = LlamaRotaryEmbedding(config)(x, positions[None])
    expected = apply_rotary_pos_emb(x[None].transpose(1, 2), x[None].transpose(1, 2), cos, sin)[0].transpose(1, 2)[0]
    torch.testing.assert_close(rotate(x, ours(positions, x.dtype)), expected, rtol=0, atol=1e-6)


def test_partial_rotary_leaves_the_rest_alone(make: Callable[..., NeuralDrafter]) -> None:
    rope = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
    config = dataclasses.replace(make("dflash").config, rope_parameters=rope)
    x = torch.randn(3, 2, 8)
    turned = rotate(x, Rotary(config)(torch.tensor([1, 2, 3]), x.dtype))
    assert torch.equal(turned[..., 4:], x[..., 4:]) and not torch.allclose(turned[..., :4], x[..., :4])
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))


def test_full_attention_rotation_of_a_mixed_target() -> None:
    rope = {
        "full_attention": {"rope_type": "default", "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    }
    config = SimpleNamespace(**{**Qwen3Config().to_dict(), "rope_parameters": rope})
    assert target_sizes(config, IDENTITY)["rope_parameters"]["rope_theta"] == 1e6


@pytest.mark.parametrize("kind", ["qwen3", "qwen3_moe"])
def test_other_targets(make: Callable[..., NeuralDrafter], tiny_target: Callable[..., Any], kind: str) -> None:
    """An untied head and q/k norms in the target: drafters are built, borrow and draft."""
    drafter = make("dfly", target=tiny_target(kind))
    assert drafter.logits(torch.randn(2, 32)).shape == (2, 97)


def test_bad_sizes(make: Callable[..., NeuralDrafter]) -> None:
    config = make("dfly").config
    for field, value, message in (
        ("block_size", 1, "at least 2"),
        ("num_kv_heads", 3, "evenly"),
        ("mask_token_id", 97, "vocabulary of 97"),
        ("target_layer_ids", (), "at least one layer"),
        ("head", "gru", "correction, markov or none"),
        ("draft_vocab_size", 0, "1 to 97"),
    ):
        with pytest.raises(ValueError, match=message):
            dataclasses.replace(config, **{field: value})
    with pytest.raises(ValueError, match="one layer"):
        dataclasses.replace(make("mtp").config, num_layers=2)


def test_draft_vocabulary_from_counts() -> None:
    counts = count_tokens([[5, 5, 5, 2], torch.tensor([2, 7, 9])], 12)
    assert counts.tolist() == [0, 0, 2, 0, 0, 3, 0, 1, 0, 1, 0, 0]
    d2t = choose_draft_vocab(counts, 3, always=(11,))
    assert d2t.tolist() == [2, 5, 11] and coverage(counts, d2t) == pytest.approx(5 / 7)
    assert choose_draft_vocab(counts, 6).tolist() == [0, 1, 2, 5, 7, 9], "free places go to the lowest ids"
    assert coverage(counts, torch.arange(12)) == 1.0
    with pytest.raises(ValueError, match="expected 1 to 12"):
        choose_draft_vocab(counts, 13, always=(11,))


def test_draft_vocabulary_is_exact(make: Callable[..., NeuralDrafter]) -> None:
    """Logits over V_d are rows of the full logits, and ids map there and back."""
    d2t = torch.tensor([1, 4, 50, 96])
    full, small = make("dflash"), make("dflash", d2t=d2t)
    hidden = torch.randn(6, 32)
    torch.testing.assert_close(small.logits(hidden), full.logits(hidden)[:, d2t], rtol=0, atol=1e-12)
    torch.testing.assert_close(small.head.weight @ hidden.T, small.logits(hidden).T)
    assert torch.equal(small.to_target_ids(torch.arange(4)), d2t)
    assert torch.equal(small.head.t2d[d2t], torch.arange(4)) and int((small.head.t2d >= 0).sum()) == 4


class FakeTokenizer:
    """The special tokens that matter for the choice of a mask token, as SmolLM2 has them."""

    def __init__(self, size: int, mask: int | None, spare: list[str]) -> None:
        self.size, self.mask_token_id, self.chat_template = size, mask, "{{ '<|im_start|>' }}"
        self.bos_token_id, self.eos_token_id, self.pad_token_id, self.unk_token_id = 1, 2, 2, 0
        names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *spare]
        self.added_tokens_decoder = {i: AddedToken(name, special=True) for i, name in enumerate(names)}

    def __len__(self) -> int:
        return self.size


def test_mask_token() -> None:
    assert choose_mask_token(FakeTokenizer(100, 9, []), 100) == 9
    assert choose_mask_token(FakeTokenizer(100, None, []), 128) == 100, "a row of the embedding without a token"
    assert choose_mask_token(FakeTokenizer(100, None, ["<gh_stars>", "<empty_output>"]), 100) == 4
    with pytest.raises(ValueError, match="no unused special token"):
        choose_mask_token(FakeTokenizer(100, None, []), 100)


@pytest.mark.slow
def test_mask_token_of_smollm2(smollm2: Any) -> None:
    token = choose_mask_token(smollm2.tokenizer, smollm2.dims.vocab_size)
    assert smollm2.tokenizer.convert_ids_to_tokens(token) == "<empty_output>"
    assert smollm2.tokenizer.added_tokens_decoder[token].special


@pytest.mark.parametrize("kind", ["dflash", "dfly"])
def test_layers_of_the_target(
    make: Callable[..., NeuralDrafter], batch: PackedBatch, tiny_llama: Any, kind: str
) -> None:
    drafter = make(kind)
    initialise_from_target(drafter, tiny_llama.layers, (0, 3), tiny_llama.final_norm)
    for own, source in zip(drafter.layers, (tiny_llama.layers[0], tiny_llama.layers[3]), strict=True):
        for part in ("self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.down_proj", "input_layernorm"):
            assert torch.equal(own.get_submodule(part).weight, source.get_submodule(part).weight)
    assert torch.equal(drafter.norm.weight, tiny_llama.final_norm.weight)
    torch.testing.assert_close(drafter.fc(batch.features.flatten(1)), batch.features[:, -1])


def test_a_copied_layer_computes_what_the_target_computes(
    make: Callable[..., NeuralDrafter], tiny_target: Callable[..., Any]
) -> None:
    """With q/k norms on both sides a copied layer, run causally, is the target's layer."""
    target = tiny_target("qwen3")
    drafter = make("mtp", target=target)
    initialise_from_target(drafter, target.layers, (2,), target.final_norm)
    layer, x = drafter.layers[0], torch.randn(6, 32)
    positions = torch.arange(6)

    def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.transpose(0, 1) for t in (q, k, v))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(
            0, 1
        )

    ours = layer(x, drafter.rotary(positions, x.dtype), causal)
    model = target.model.base_model
    source = target.layers[2]
    implementation = target.model.config._attn_implementation
    target.model.config._attn_implementation = "sdpa"
    try:
        theirs = source(x[None], position_embeddings=model.rotary_emb(x[None], positions[None]))
    finally:
        target.model.config._attn_implementation = implementation
    torch.testing.assert_close(ours, (theirs[0] if isinstance(theirs, tuple) else theirs)[0], rtol=0, atol=1e-6)


def test_norms_that_the_target_lacks_keep_the_size_of_its_logits(
    make: Callable[..., NeuralDrafter], tiny_llama: Any
) -> None:
    drafter, source = make("mtp", qk_norm=True), tiny_llama.layers[1].self_attn
    initialise_from_target(drafter, tiny_llama.layers, (1,), tiny_llama.final_norm)
    own, x = drafter.layers[0].self_attn, torch.randn(4000, 32)
    angles = drafter.rotary(torch.zeros(4000, dtype=torch.int64), x.dtype)
    x = drafter.layers[0].input_layernorm(x)
    for ours, theirs in ((own.queries(x, angles), source.q_proj(x)), (own.keys_values(x, angles)[0], source.k_proj(x))):
        ratio = ours.square().mean().sqrt() / theirs.square().mean().sqrt()
        assert 0.9 < ratio.item() < 1.1
    assert typical_size(torch.eye(8) * 3, torch.ones(8)) == pytest.approx(3.0)


def test_initialisation_refuses_what_does_not_fit(
    make: Callable[..., NeuralDrafter], tiny_target: Callable[..., Any]
) -> None:
    llama, qwen3, moe = (tiny_target(kind) for kind in ("llama", "qwen3", "qwen3_moe"))
    with pytest.raises(ValueError, match="name one for each"):
        initialise_from_target(make("dfly"), llama.layers, (1,), llama.final_norm)
    with pytest.raises(ValueError, match="gate_proj"):
        initialise_from_target(make("mtp", intermediate_size=8), llama.layers, (1,), llama.final_norm)
    with pytest.raises(ValueError, match="set qk_norm"):
        initialise_from_target(make("mtp", qk_norm=False), qwen3.layers, (1,), qwen3.final_norm)
    with pytest.raises(ValueError, match="dense gated MLP"):
        initialise_from_target(make("mtp"), moe.layers, (1,), moe.final_norm)


def test_random_initialisation_is_seeded_and_keeps_zeros(make: Callable[..., NeuralDrafter]) -> None:
    weights = []
    for seed in (0, 0, 1):
        drafter = type(make("dfly"))(make("dfly").config)
        initialise_random(drafter, torch.Generator().manual_seed(seed))
        weights.append(drafter.layers[1].mlp.up_proj.weight)
        assert drafter.correction.mlp.down_proj.weight.abs().max() == 0
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    assert 0.018 < weights[0].std().item() < 0.022
