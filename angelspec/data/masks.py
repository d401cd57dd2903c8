"""Loss masks: which tokens of a rendered conversation the target itself wrote.

The mask is a *prefix difference*. For the assistant message i let

    before = render(messages[:i], generation prompt on),    after = render(messages[:i+1]).

The target wrote exactly what `after` has and `before` has not. Hugging Face's `{% generation %}` tags would say the
same, but hardly any stock template carries them, and without them a mask of all zeros or all ones comes back silently.
The difference is taken on *characters*; a token that straddles the border belongs to the generation prompt. Tokenising
the two texts apart and comparing ids would be wrong wherever the tokenizer merges across the border.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol, TypeVar

from angelspec.data.templates import ChatTemplate, Message, TemplateError, check_messages


@dataclass(frozen=True)
class MaskedText:
    """One document: `ids` [n] token ids, `supervised` [n] true where the target wrote the token."""

    ids: list[int]
    supervised: list[bool]

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.supervised):
            raise ValueError(f"{len(self.ids)} ids but {len(self.supervised)} mask entries; they must be as many.")


class HasResponse(Protocol):
    """Anything with the token ids of a prompt and of the answer to it, such as an AnswerRecord."""

    @property
    def prompt_ids(self) -> Sequence[int]: ...

    @property
    def response_ids(self) -> Sequence[int]: ...


Answered = TypeVar("Answered", bound=HasResponse)


def mask_conversation(template: ChatTemplate, messages: Sequence[Message], stop_ids: Sequence[int]) -> MaskedText:
    """Token ids and mask of a whole conversation, every assistant message supervised.

    Of what the template writes after an answer only the first stop token is supervised: the target emits it and is then
    stopped, so it never writes the line break that follows in ChatML.

    Raises TemplateError when the template rewrites earlier turns (Qwen3 removes their thinking): then no single text
    holds all answers as they were written. Use one document per answer (`split_turns`).
    """
    check_messages(messages)
    whole = template.render(messages, generation=False)
    written: list[tuple[int, int]] = []
    for place, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before = template.render(messages[:place], generation=True)
        after = template.render(messages[: place + 1], generation=False)
        if not (after.startswith(before) and whole.startswith(after)):
            raise TemplateError(
                f"The text before assistant message {place} is no prefix of the conversation: this template rewrites "
                "what it rendered earlier. Build one document per answer (split_turns)."
            )
        written.append((len(before), len(after)))
    return _mask_characters(template, whole, written, stop_ids)


def split_turns(messages: Sequence[Message]) -> list[list[Message]]:
    """One conversation per assistant message: everything up to and including it. Each is masked on its last message."""
    check_messages(messages)
    return [list(messages[: i + 1]) for i, message in enumerate(messages) if message["role"] == "assistant"]


def mask_last_turn(template: ChatTemplate, messages: Sequence[Message], stop_ids: Sequence[int]) -> MaskedText:
    """Token ids and mask of a conversation that ends with an assistant message, which alone is supervised."""
    check_messages(messages)
    if messages[-1]["role"] != "assistant":
        raise TemplateError(f"The last message must be the assistant's; it is the {messages[-1]['role']}'s.")
    before = template.render(messages[:-1], generation=True)
    whole = template.render(messages, generation=False)
    if not whole.startswith(before):
        raise TemplateError(
            "The rendered prompt is no prefix of the rendered conversation. The generation prompt of this template "
            f"does not match its assistant turns: prompt ends {before[-40:]!r}, conversation goes on "
            f"{whole[max(0, len(before) - 40) : len(before)]!r}. Check the thinking flag."
        )
    return _mask_characters(template, whole, [(len(before), len(whole))], stop_ids)


def mask_answer(record: HasResponse) -> MaskedText:
    """Mask of a regenerated answer. It needs no template: the target wrote exactly `response_ids`."""
    prompt, response = list(record.prompt_ids), list(record.response_ids)
    return MaskedText(prompt + response, [False] * len(prompt) + [True] * len(response))


def keep_supervised(records: Iterable[Answered]) -> tuple[list[Answered], Counter[str]]:
    """Records that can teach something, and a count of the dropped ones by reason.

    Raises ValueError when nothing is left: training on nothing must not look like training.
    """
    kept: list[Answered] = []
    dropped: Counter[str] = Counter()
    for record in records:
        if not record.prompt_ids:
            dropped["no prompt tokens"] += 1
        elif not record.response_ids:
            dropped["no supervised tokens"] += 1
        else:
            kept.append(record)
    if not kept:
        reasons = (
            ", ".join(f"{count} with {reason}" for reason, count in dropped.items()) or "there was none to begin with"
        )
        raise ValueError(
            f"No record with supervised tokens is left: {reasons}. Check the chat template and the answers."
        )
    return kept, dropped


def _mask_characters(
    template: ChatTemplate, text: str, written: Sequence[tuple[int, int]], stop_ids: Sequence[int]
) -> MaskedText:
    """Tokenise `text` once; supervise tokens that lie wholly inside a `written` span, up to its first stop token."""
    if not getattr(template.tokenizer, "is_fast", False):
        raise TemplateError(
            "Masks need a fast tokenizer (character offsets); this one is slow. Convert it to tokenizer.json."
        )
    encoded = template.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids, offsets = list(encoded["input_ids"]), encoded["offset_mapping"]
    supervised = [False] * len(ids)
    # Only the ends of the offsets are to be trusted: byte-level tokenizers move the start past white space, so that a
    # line break may be reported as an empty span. A token therefore begins where the one before it ended.
    ends = list(accumulate((last for _, last in offsets), max))
    begins = [0, *ends[:-1]]
    for start, stop in written:
        for place, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            # `start < end` leaves out the trailing bytes of a character that the generation prompt ended with.
            if begin < start or not start < end <= stop:
                continue
            supervised[place] = True
            if ids[place] in stop_ids:
                break
    return MaskedText(ids, supervised)
