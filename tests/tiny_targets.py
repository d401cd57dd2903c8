"""Tiny random targets in float64, built from transformers configs. Random, but the same in every run."""

from __future__ import annotations

from typing import Any

import torch

TINY_VOCAB = 97


class TinyTokenizer:
    """Just enough of a tokenizer for a random model: ids are characters modulo the vocabulary; 0 ends an answer."""

    eos_token_id = 0

    def encode(self, text: str) -> list[int]:
        return [1 + ord(character) % (TINY_VOCAB - 1) for character in text]

    def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
        return "".join(chr(32 + int(i)) for i in ids if not (skip_special_tokens and int(i) == 0))


def _tiny_config(kind: str) -> Any:
    from transformers import LlamaConfig, Qwen3Config, Qwen3MoeConfig

    shape = {
        "vocab_size": TINY_VOCAB,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 512,
        "initializer_range": 0.3,
        "bos_token_id": None,
        "eos_token_id": 0,
        "pad_token_id": None,
    }
    if kind == "llama":
        return LlamaConfig(**shape, tie_word_embeddings=True)
    if kind == "qwen3":
        return Qwen3Config(**shape, tie_word_embeddings=False)
    if kind == "qwen3_sliding":
        window = {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 2}
        return Qwen3Config(**shape, **window, tie_word_embeddings=False)
    if kind == "qwen3_moe":
        experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "norm_topk_prob": True}
        return Qwen3MoeConfig(**shape, **experts, tie_word_embeddings=False)
    raise ValueError(f"no tiny target of kind {kind!r}")


def build_tiny_target(kind: str, seed: int = 0, dtype: torch.dtype = torch.float64) -> Any:
    """A random target of ``kind``: llama, qwen3, qwen3_sliding or qwen3_moe. Same seed, same weights."""
    from transformers import AutoModelForCausalLM

    from angelspec.targets.float64 import keep_float64
    from angelspec.targets.model import Target

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(_tiny_config(kind), dtype=dtype)
    if dtype == torch.float64:
        keep_float64(model)
    identity = {"kind": "random", "name": f"tiny-{kind}", "revision": str(seed), "digest": "none"}
    return Target(model, TinyTokenizer(), identity)
