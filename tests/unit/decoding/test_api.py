"""The public interface on a tiny target: prompts of every form, batches, streams, and drafters by name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import angelspec
from angelspec.decoding import api
from angelspec.decoding.engine import Engine
from angelspec.decoding.exactness import BiasedCombination
from angelspec.decoding.request import Request
from angelspec.drafters.checkpoint import DrafterMismatch, save_drafter
from angelspec.drafters.dfly import DFly, DFlyConfig
from angelspec.drafters.serving import ServedDrafter
from angelspec.verification.policies import Fixed

PROMPTS = ["to be or not to be, to be", "one two one two", "x"]


@pytest.fixture
def folder(tiny_llama: Any, tmp_path: Path) -> Iterator[Path]:
    """A drafter with random weights on disk."""
    fields = {"num_layers": 1, "block_size": 4, "target_layer_ids": (0, 2), "mask_token_id": 5}
    torch.manual_seed(0)
    drafter = DFly(DFlyConfig.for_target(tiny_llama.config, tiny_llama.identity, **fields)).double()
    save_drafter(tmp_path / "dfly", drafter, provenance={}, card={})
    yield tmp_path / "dfly"


def test_it_is_exported_without_loading_torch() -> None:
    assert angelspec.SpeculativeDecoder is api.SpeculativeDecoder
    code = "import sys, angelspec; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    with pytest.raises(AttributeError, match="no attribute 'Decoder'"):
        angelspec.Decoder  # noqa: B018


def test_three_lines(tiny_llama: Any, folder: Path) -> None:
    decoder = angelspec.SpeculativeDecoder.from_pretrained(tiny_llama, folder)
    answers = decoder.generate(PROMPTS, max_new_tokens=9, chat=False)
    plain = angelspec.SpeculativeDecoder.from_pretrained(tiny_llama).generate(PROMPTS, max_new_tokens=9, chat=False)
    assert [a.token_ids for a in answers] == [a.token_ids for a in plain]
    assert [a.text for a in answers] == [a.text for a in plain] and answers[0].drafted > 0
    assert decoder.stats.committed == sum(len(a.token_ids) for a in answers)


@pytest.mark.parametrize("concurrency", [1, 2, 16])
def test_batches_of_any_form_are_answered_in_order(tiny_llama: Any, concurrency: int) -> None:
    decoder = api.SpeculativeDecoder.from_pretrained(tiny_llama, "ngram", concurrency=concurrency)
    ids = [tiny_llama.tokenizer.encode(p) for p in PROMPTS]
    options = {"max_new_tokens": 7, "temperature": 0.8, "seed": 5, "ignore_eos": True}
    by_text, by_ids = decoder.generate(PROMPTS, chat=False, **options), decoder.generate(ids, **options)
    assert [a.token_ids for a in by_text] == [a.token_ids for a in by_ids]
    assert [a.params.seed for a in by_text] == [5, 6, 7] and [a.id for a in by_text] == ["0", "1", "2"]
    own = Request("x", ids[1], by_text[1].params, 7)
    assert Engine(tiny_llama, slots=1, max_len=99).run([own])[0].token_ids == by_text[1].token_ids
    assert decoder.generate(ids[2], **{**options, "seed": 7})[0].token_ids == by_text[2].token_ids  # one prompt alone
    longer = decoder.generate(ids, **{**options, "max_new_tokens": 40})  # needs a larger engine
    assert all(a.token_ids == b.token_ids[:7] and len(b.token_ids) == 40 for a, b in zip(by_text, longer, strict=True))


def test_conversations_go_through_the_chat_template(tiny_llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    class Template:
        def __init__(self, tokenizer: Any) -> None:
            pass

        def prompt_ids(self, messages: list[dict[str, str]]) -> list[int]:
            seen.append(messages)
            return [1, 2, 3]

    monkeypatch.setattr(api, "ChatTemplate", Template)
    decoder = api.SpeculativeDecoder(tiny_llama)
    talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    assert len(decoder.requests(talk)) == 1 and len(decoder.requests(["hi", talk])) == 2
    assert seen == [talk, [{"role": "user", "content": "hi"}], talk]


@pytest.mark.parametrize("stop", [(), "l"])
def test_a_stream_ends_up_with_the_same_answers(tiny_llama: Any, stop: str) -> None:
    decoder = api.SpeculativeDecoder.from_pretrained(tiny_llama, "ngram", concurrency=2, policy=Fixed(2))
    options: dict[str, Any] = {"max_new_tokens": 30, "temperature": 1.0, "chat": False, "stop": stop}
    answers = decoder.generate(PROMPTS, **options)
    pieces = list(decoder.stream(PROMPTS, **options))
    for i, answer in enumerate(answers):
        own = [p for p in pieces if p.index == i]
        assert "".join(p.text for p in own) == answer.text
        assert sum((p.token_ids for p in own), ()) == answer.token_ids
        assert [p.answer is None for p in own] == [True] * (len(own) - 1) + [False]
        assert own[-1].answer is not None and own[-1].answer.token_ids == answer.token_ids
        assert all(0 <= p.accepted <= len(p.token_ids) for p in own)


def test_a_stream_given_up_leaves_a_usable_decoder(tiny_llama: Any) -> None:
    decoder = api.SpeculativeDecoder(tiny_llama)
    options = {"max_new_tokens": 20, "chat": False}
    before = [a.token_ids for a in decoder.generate(PROMPTS, **options)]
    stream = decoder.stream(PROMPTS, **options)
    next(stream)
    stream.close()
    assert [a.token_ids for a in decoder.generate(PROMPTS, **options)] == before


def test_rule_b_draws_its_drafts(tiny_llama: Any, folder: Path) -> None:
    decoder = api.SpeculativeDecoder.from_pretrained(tiny_llama, folder, rule="B")
    assert isinstance(decoder.drafter, ServedDrafter) and decoder.drafter.sample
    answers = decoder.generate(PROMPTS, max_new_tokens=9, temperature=1.0, chat=False)
    assert all(1 <= len(a.token_ids) <= 9 for a in answers)

    with pytest.raises(BiasedCombination, match="biased under rule B"):
        api.SpeculativeDecoder.from_pretrained(tiny_llama, folder, rule="B", policy=Fixed(2, looks_at="batch"))


def test_what_cannot_be_loaded_or_asked(tiny_llama: Any, tiny_qwen3: Any, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="drafter 'eagle' is unknown; there is ar, ngram"):
        api.SpeculativeDecoder.from_pretrained(tiny_llama, "eagle")
    with pytest.raises(DrafterMismatch, match="trained for another"):
        api.SpeculativeDecoder.from_pretrained(tiny_qwen3, folder)
    with pytest.raises(DrafterMismatch, match="no config.json"):
        api.SpeculativeDecoder.from_pretrained(tiny_llama, tmp_path)
    with pytest.raises(ValueError, match="target 'gpt' is no folder"):
        api.SpeculativeDecoder.from_pretrained("gpt")
    with pytest.raises(ValueError, match="concurrency is 0"):
        api.SpeculativeDecoder(tiny_llama, concurrency=0)
    with pytest.raises(ValueError, match="no prompt given"):
        api.SpeculativeDecoder(tiny_llama).generate([])
    assert api.target_spec("smollm2").kind == "wheel" and api.target_spec(tmp_path).kind == "folder"
    assert api.target_spec("owner/name@" + "0" * 40).revision == "0" * 40
