"""Loss masks: exactly the target's own tokens, whatever the tokenizer merges and the template adds."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field

import pytest

from angelspec.data.masks import (
    MaskedText,
    keep_supervised,
    mask_answer,
    mask_conversation,
    mask_last_turn,
    split_turns,
)
from angelspec.data.templates import ChatTemplate, TemplateError

TWO_TURNS = [
    {"role": "user", "content": "Tell me about tea."},
    {"role": "assistant", "content": "\n\nTea is brewed from leaves — since long ago.\n"},
    {"role": "user", "content": "Then about coffee"},
    {"role": "assistant", "content": "Coffee is brewed\n    from beans. \U0001f375"},
]


@dataclass
class Answer:
    prompt_ids: list[int] = field(default_factory=lambda: [5, 6])
    response_ids: list[int] = field(default_factory=lambda: [7, 8, 9])


def supervised_text(tokenizer, masked: MaskedText) -> str:
    return tokenizer.decode(
        [t for t, on in zip(masked.ids, masked.supervised, strict=True) if on], skip_special_tokens=False
    )


def test_exactly_the_answers_and_their_stop_tokens_are_supervised(chatml):
    masked = mask_conversation(ChatTemplate(chatml), TWO_TURNS, [chatml.eos_token_id])
    expected = "".join(m["content"] + "<|im_end|>" for m in TWO_TURNS if m["role"] == "assistant")
    assert supervised_text(chatml, masked) == expected
    assert masked.ids == ChatTemplate(chatml).encode(ChatTemplate(chatml).render(TWO_TURNS, generation=False))


def test_no_token_of_any_generation_prompt_is_supervised(chatml):
    template = ChatTemplate(chatml)
    masked = mask_last_turn(template, TWO_TURNS[:2], [chatml.eos_token_id])
    prompt = template.prompt_ids(TWO_TURNS[:1])
    assert masked.ids[: len(prompt)] == prompt
    assert masked.supervised[: len(prompt)] == [False] * len(prompt)
    assert masked.supervised[len(prompt)]


def test_line_break_after_the_stop_token_is_not_supervised(chatml):
    masked = mask_conversation(ChatTemplate(chatml), TWO_TURNS, [chatml.eos_token_id])
    stops = [i for i, token in enumerate(masked.ids) if token == chatml.eos_token_id and masked.supervised[i]]
    assert len(stops) == 2
    assert [masked.supervised[i + 1] for i in stops] == [False, False]


def test_empty_think_tags_of_the_generation_prompt_are_masked(thinking):
    masked = mask_last_turn(ChatTemplate(thinking, thinking=False), TWO_TURNS, [thinking.eos_token_id])
    assert supervised_text(thinking, masked) == TWO_TURNS[3]["content"] + "<|im_end|>"


def test_thinking_flag_that_does_not_fit_the_conversation_supervises_what_the_target_would_write(thinking):
    masked = mask_last_turn(ChatTemplate(thinking), TWO_TURNS, [thinking.eos_token_id])
    assert supervised_text(thinking, masked).startswith("<think>")


def test_template_that_rewrites_earlier_turns_is_refused_as_one_document(thinking):
    template = ChatTemplate(thinking, thinking=False)
    with pytest.raises(TemplateError, match="split_turns"):
        mask_conversation(template, TWO_TURNS, [thinking.eos_token_id])
    texts = [
        supervised_text(thinking, mask_last_turn(template, turn, [thinking.eos_token_id]))
        for turn in split_turns(TWO_TURNS)
    ]
    assert texts == [m["content"] + "<|im_end|>" for m in TWO_TURNS if m["role"] == "assistant"]


def test_generation_prompt_that_does_not_match_is_refused(chatml):
    odd = copy.deepcopy(chatml)
    odd.chat_template = chatml.chat_template.replace(
        "<|im_start|>assistant\n{% endif %}", "<|im_start|>bot\n{% endif %}"
    )
    with pytest.raises(TemplateError, match="no prefix"):
        mask_last_turn(ChatTemplate(odd), TWO_TURNS, [odd.eos_token_id])


def test_a_token_that_straddles_the_border_belongs_to_the_prompt(chatml):
    # The prompt ends with "b" and the answer starts with "r": BPE has learnt "br" from "Be brief" and "brewed".
    merged = copy.deepcopy(chatml)
    merged.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    talk = [{"role": "user", "content": "Tea is b"}, {"role": "assistant", "content": "rewed from leaves"}]
    masked = mask_last_turn(ChatTemplate(merged), talk, [merged.eos_token_id])
    text = supervised_text(merged, masked)
    assert "rewed from leaves".endswith(text)
    assert text != "rewed from leaves"


def test_bytes_of_the_prompts_last_character_are_not_supervised(chatml):
    bare = copy.deepcopy(chatml)
    bare.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    talk = [{"role": "user", "content": "tea \U0001f375"}, {"role": "assistant", "content": "\U0001f375 yes"}]
    masked = mask_last_turn(ChatTemplate(bare), talk, [bare.eos_token_id])
    assert supervised_text(bare, masked) == "\U0001f375 yes"
    assert masked.supervised.index(True) == len(chatml.encode("tea \U0001f375", add_special_tokens=False))


def test_record_mask_equals_the_template_mask(chatml):
    template = ChatTemplate(chatml)
    prompt = template.prompt_ids(TWO_TURNS[:1])
    answer = Answer(prompt, [*template.encode(TWO_TURNS[1]["content"]), chatml.eos_token_id])
    from_record = mask_answer(answer)
    from_template = mask_last_turn(template, TWO_TURNS[:2], [chatml.eos_token_id])
    assert from_record.ids == from_template.ids[: len(from_record.ids)]
    assert from_record.supervised == from_template.supervised[: len(from_record.ids)]
    assert not any(from_template.supervised[len(from_record.ids) :])


def test_records_without_supervised_tokens_are_dropped_and_counted():
    good = Answer()
    kept, dropped = keep_supervised([good, Answer(response_ids=[]), Answer(prompt_ids=[]), Answer(response_ids=[])])
    assert kept == [good]
    assert dropped == Counter({"no supervised tokens": 2, "no prompt tokens": 1})


def test_nothing_left_is_an_error_with_the_counts():
    with pytest.raises(ValueError, match="2 with no supervised tokens"):
        keep_supervised([Answer(response_ids=[]), Answer(response_ids=[])])
    with pytest.raises(ValueError, match="none to begin with"):
        keep_supervised([])


def test_last_message_must_be_the_assistants(chatml):
    with pytest.raises(TemplateError, match="it is the user's"):
        mask_last_turn(ChatTemplate(chatml), TWO_TURNS[:1], [chatml.eos_token_id])


def test_slow_tokenizers_are_refused(chatml):
    class Slow:
        chat_template = chatml.chat_template
        is_fast = False
        apply_chat_template = staticmethod(chatml.apply_chat_template)

    with pytest.raises(TemplateError, match="fast tokenizer"):
        mask_last_turn(ChatTemplate(Slow()), TWO_TURNS, [2])
