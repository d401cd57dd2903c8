"""The default target, fetched as for any user: right tokens, right chat format, sense, and float32 close to stock."""

from __future__ import annotations

import torch

from angelspec.targets.rows import Rows
from angelspec.targets.spec import SMOLLM2

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


def prompt_ids(target, messages) -> list[int]:
    return target.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)


def test_dimensions_and_identity(smollm2):
    dims = smollm2.dims
    assert (dims.num_layers, dims.hidden_size, dims.num_heads, dims.num_kv_heads, dims.head_dim) == (30, 576, 9, 3, 64)
    assert (dims.vocab_size, dims.intermediate_size) == (49152, 1536)
    assert dims.rope_parameters["rope_theta"] == 100000.0
    assert smollm2.identity["name"] == SMOLLM2.name
    assert smollm2.identity["digest"].startswith("sha256:")


def test_chat_format(smollm2):
    text = smollm2.tokenizer.apply_chat_template(QUESTION, tokenize=False, add_generation_prompt=True)
    assert text == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    )
    ids = prompt_ids(smollm2, QUESTION)
    assert ids[:3] == [1, 9690, 198]  # <|im_start|>, system, line break: no second beginning-of-text token
    assert smollm2.tokenizer.convert_tokens_to_ids("<|im_end|>") == 2
    assert smollm2.eos_ids == (2,)


def test_tokens(smollm2):
    """Every digit alone, runs of white space whole also before a digit, and any text survives the round trip."""
    tokenizer = smollm2.tokenizer
    pieces = tokenizer.convert_ids_to_tokens(tokenizer.encode("x\n\n12. a  34"))
    assert pieces == ["x", "ĊĊ", "1", "2", ".", "Ġa", "ĠĠ", "3", "4"]
    text = "def f(x):\n\treturn x**2  # ünïcode ✓ 数学\n\n1. 2024-11-30"
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_it_answers_with_sense(smollm2):
    """Greedy, token by token through the cache. A wrong permutation or rotary base gives babble here."""
    ids, answer = prompt_ids(smollm2, QUESTION), []
    cache = smollm2.new_cache(1, 64)
    new = ids
    while len(answer) < 12 and (not answer or answer[-1] not in smollm2.eos_ids):
        start = len(ids) + len(answer) - len(new)
        rows = Rows.concatenate([(0, start, new)])
        logits = smollm2.forward(rows, cache, logit_rows=torch.tensor([len(new) - 1])).logits
        new = [int(logits[0].argmax())]
        answer += new
    assert smollm2.tokenizer.decode(answer) == "The capital of France is Paris.<|im_end|>"


def test_close_to_stock_transformers(smollm2, stock):
    """Prefill, then an 8-row and a 3-row verification in one pass. Logits reach 38, hidden states 600."""
    ids = prompt_ids(smollm2, QUESTION)
    want = stock(smollm2, torch.tensor([ids]))
    cache = smollm2.new_cache(4, 64)
    whole = smollm2.forward(Rows.concatenate([(2, 0, ids)]), cache, layer_ids=(1, 8, 14, 20, 27))
    torch.testing.assert_close(whole.logits, want.logits[0], rtol=0, atol=2e-4)
    features = torch.stack([want.hidden_states[k + 1][0] for k in (1, 8, 14, 20, 27)], dim=1)
    torch.testing.assert_close(whole.features, features, rtol=2e-5, atol=2e-4)
    smollm2.forward(Rows.concatenate([(0, 0, ids[:10])]), cache, logit_rows=torch.tensor([0]))
    last = len(ids) - 8
    got = smollm2.forward(Rows.concatenate([(2, last, ids[last:]), (0, 10, ids[10:13])]), cache).logits
    torch.testing.assert_close(got[:8], want.logits[0, last:], rtol=0, atol=2e-4)
    torch.testing.assert_close(got[8:], want.logits[0, 10:13], rtol=0, atol=2e-4)
