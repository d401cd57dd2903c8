"""Prompts from records of other people: the lines of a JSONL file, or the rows of a Hub data set.

A record has its prompt in a text field (`prompt`) or as a conversation (`messages`, in the form of OpenAI or of ShareGPT).
Assistant turns are left out: the target answers itself. What cannot be used is an error or a counted skip, by `on_bad`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from angelspec.data.prompts import Message, Prompt, PromptError, make_prompt

OnBad = Literal["error", "skip"]
FIELDS = ("messages", "conversations", "prompt")  # tried in this order when no field is named
SHAREGPT_ROLES = {"human": "user", "gpt": "assistant", "system": "system"}


def read_jsonl(
    path: str | Path,
    *,
    domain: str,
    source: str,
    split: str,
    licence: str,
    field: str | None = None,
    on_bad: OnBad = "error",
    skipped: Counter[str] | None = None,
) -> Iterator[Prompt]:
    """Prompts of a JSONL file, in the order of its lines; blank lines are passed over.

    Args:
        field: the field that holds the prompt; None takes `messages`, `conversations` or `prompt`, whichever there is.
        on_bad: "error" stops at the first unusable line, "skip" counts it in `skipped` by reason.

    Raises:
        PromptError: the file is missing or empty, or (with "error") a line cannot be used.
    """
    path = Path(path)
    if not path.is_file():
        raise PromptError(f"source {source}: {path} is no file; give the path of a JSONL file")

    def rows() -> Iterator[tuple[str, Any]]:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield f"{path.name}, line {number}", line

    yield from from_records(
        rows(), domain=domain, source=source, split=split, licence=licence, field=field, on_bad=on_bad, skipped=skipped
    )


def from_records(
    rows: Iterable[tuple[str, Any]],
    *,
    domain: str,
    source: str,
    split: str,
    licence: str,
    field: str | None,
    on_bad: OnBad,
    skipped: Counter[str] | None,
) -> Iterator[Prompt]:
    """Prompts of (place, record) pairs, where a record is a mapping or the bytes of a JSON object.

    Raises:
        PromptError: no record at all, or (with on_bad "error") one that cannot be used, with its place.
    """
    if on_bad not in ("error", "skip"):
        raise ValueError(f"on_bad is {on_bad!r}, expected 'error' or 'skip'")
    rows_seen = 0
    for place, row in rows:
        rows_seen += 1
        try:
            record = _decode(row)
            content = prompt_of(record, field)
            answer = record.get("answer")
            yield make_prompt(
                content,
                domain=domain,
                source=source,
                kind=source,
                split=split,
                licence=licence,
                answer=answer if isinstance(answer, str) else None,
            )
        except PromptError as error:
            if on_bad == "error":
                raise PromptError(f"source {source}: {place}: {error}. Correct it, or set on_bad: skip") from error
            if skipped is not None:
                skipped[_reason(error)] += 1
    if rows_seen == 0:
        raise PromptError(f"source {source}: it has no records; an empty file or split cannot be a source")


def prompt_of(record: Mapping[str, Any], field: str | None) -> str | list[Message]:
    """The prompt of one record: a text, or the messages of a conversation in OpenAI form.

    Raises:
        PromptError: the field is missing, or is neither a text nor a list of messages.
    """
    name = field or next((name for name in FIELDS if name in record), None)
    if name is None or name not in record:
        wanted = repr(field) if field else "any of " + ", ".join(FIELDS)
        raise PromptError(
            f"field missing: expected {wanted}, the record has {', '.join(sorted(map(str, record))) or 'nothing'}"
        )
    value = record[name]
    if isinstance(value, str):
        if not value.strip():
            raise PromptError(f"empty prompt: field {name!r} has no text")
        return value
    if isinstance(value, list) and value:
        return [_openai_form(message) for message in value]
    raise PromptError(
        f"wrong type: field {name!r} is {type(value).__name__}, expected a text or a non-empty list of messages"
    )


def _openai_form(message: Any) -> Any:
    if isinstance(message, Mapping) and {"from", "value"} <= message.keys():
        return {"role": SHAREGPT_ROLES.get(message["from"], message["from"]), "content": message["value"]}
    return message


def _decode(row: Any) -> Mapping[str, Any]:
    if isinstance(row, bytes):
        try:
            row = json.loads(row.decode("utf-8"))
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise PromptError(f"broken line: no JSON ({error})") from error
    if not isinstance(row, Mapping):
        raise PromptError(f"wrong type: the record is {type(row).__name__}, expected an object with fields")
    return row


def _reason(error: PromptError) -> str:
    """The part of an error that names its sort, without place and values."""
    head = str(error).partition(":")[0]
    return head if head in ("field missing", "empty prompt", "wrong type", "broken line") else "unusable messages"
