"""Preparation: splits that share nothing, counted skips, clear errors, whole files or none, stable results."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from angelspec.config import SourceConfig, load_config
from angelspec.data import prepare as preparation
from angelspec.data.dedup import overlaps
from angelspec.data.manifest import read_manifest
from angelspec.data.prepare import EVAL_THRESHOLD, Wanted, load_prepared, main, prepare, summary, wanted_by
from angelspec.data.prompts import PromptError

BUILTIN = ("chat", "code", "math")


def source(kind: str, name: str, domain: str = "chat", **fields: Any) -> SourceConfig:
    empty = dict.fromkeys(field.name for field in dataclasses.fields(SourceConfig))
    return SourceConfig(**{**empty, "kind": kind, "name": name, "domain": domain, "licence": "MIT", **fields})


def builtin(train: int, evaluation: int) -> list[Wanted]:
    return [Wanted(name, source("builtin", name, name), train, evaluation) for name in BUILTIN]


def jsonl(path: Path, *records: Any) -> SourceConfig:
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records), encoding="utf-8")
    return source("jsonl", str(path))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prompts")
    prepare(folder, builtin(150, 40), seed=11, max_tokens=256)
    return folder


def test_train_and_eval_share_no_id_no_kind_and_no_near_duplicate(prepared: Path) -> None:
    train, held_out = load_prepared(prepared, "train"), load_prepared(prepared, "eval")
    assert (len(train), len(held_out)) == (450, 120)
    assert {p.id for p in train}.isdisjoint(p.id for p in held_out)
    assert {(p.source, p.kind) for p in train}.isdisjoint((p.source, p.kind) for p in held_out)
    assert {p.seed for p in train}.isdisjoint(p.seed for p in held_out)
    assert not overlaps([p.text for p in train], [p.text for p in held_out], EVAL_THRESHOLD)
    assert overlaps([held_out[0].text + " Indeed."], [held_out[0].text], EVAL_THRESHOLD)


def test_files_are_deterministic_and_more_only_appends(prepared: Path, tmp_path: Path) -> None:
    prepare(tmp_path, builtin(150, 40), seed=11, max_tokens=256)
    for name in ("prompts.jsonl", "manifest.json"):
        assert (tmp_path / name).read_bytes() == (prepared / name).read_bytes()
    prepare(tmp_path, builtin(180, 40), seed=11, max_tokens=256)
    assert {p.id for p in load_prepared(tmp_path)} > {p.id for p in load_prepared(prepared)}
    prepare(tmp_path, builtin(40, 10), seed=12, max_tokens=256)
    assert len({p.id for p in load_prepared(tmp_path)} & {p.id for p in load_prepared(prepared)}) < 30


def test_manifest_lists_every_source(prepared: Path) -> None:
    manifest = read_manifest(prepared / "manifest.json")
    assert [entry.name for entry in manifest.sources] == list(BUILTIN) and manifest.seed == 11
    for entry in manifest.sources:
        assert entry.counts == {"eval": 40, "train": 150} and entry.licence == "MIT" and len(entry.digest) == 64
        assert entry.revision.startswith("code ") and entry.kinds["eval"] >= 10
    assert "library" in manifest.sources[1].revision and manifest.python.startswith("3.")
    lines = summary(manifest).splitlines()
    assert len(lines) == 4 and lines[0].split() == [
        "source",
        "domain",
        "train",
        "eval",
        "skipped",
        "licence",
        "revision",
        "digest",
    ]


def test_a_training_prompt_close_to_an_evaluation_prompt_is_dropped_and_counted(tmp_path: Path) -> None:
    text = "Maria has 12 red marbles and gives 5 of them to her brother. How many red marbles are left for Maria?"
    held_out = jsonl(tmp_path / "e.jsonl", {"prompt": text})
    train = jsonl(tmp_path / "t.jsonl", {"prompt": text}, {"prompt": text.replace("12", "31").replace("5", "8")},
                  {"prompt": "Something else altogether is asked in this line."})  # fmt: skip
    manifest = prepare(
        tmp_path / "out", [Wanted("t", train, train=1), Wanted("e", held_out, eval=1)], seed=1, max_tokens=99
    )
    assert manifest.sources[0].skipped == {"used for evaluation": 1, "near-duplicate of an evaluation prompt": 1}
    assert [p.text[:9] for p in load_prepared(tmp_path / "out", "train")] == ["Something"]


def test_one_file_can_serve_both_splits(tmp_path: Path) -> None:
    words = ["apple", "river", "stone", "music", "tiger", "paper", "cloud", "light", "bread", "winter"]
    file = jsonl(
        tmp_path / "a.jsonl",
        *(
            {"prompt": f"Tell me what you know about {w}, {v} and their {w}{v} friends."}
            for w in words
            for v in words[:3]
            if w != v
        ),
    )
    prepare(tmp_path / "out", [Wanted("a", file, train=6, eval=2)], seed=1, max_tokens=99)
    assert len(load_prepared(tmp_path / "out", "train")) == 6 and len(load_prepared(tmp_path / "out", "eval")) == 2


@pytest.mark.parametrize(
    ("records", "message", "skip"),
    [
        (["{broken"], "line 3: broken line", "broken line"),
        ([{"text": "x"}], "line 3: field missing", "field missing"),
        ([{"prompt": "first"}], "occurs twice", "repeated"),
    ],
)
def test_bad_records_stop_or_are_counted_and_nothing_is_half_written(
    tmp_path: Path, records: list[Any], message: str, skip: str
) -> None:
    file = jsonl(tmp_path / "a.jsonl", {"prompt": "first"}, {"prompt": "second"}, *records, {"prompt": "third"})
    out = tmp_path / "out"
    with pytest.raises(PromptError, match=message):
        prepare(out, [Wanted("a", file, train=3)], seed=1, max_tokens=99)
    assert not out.exists()
    manifest = prepare(out, [Wanted("a", file, train=3)], seed=1, max_tokens=99, on_bad="skip")
    assert manifest.sources[0].skipped == {skip: 1} and len(load_prepared(out)) == 3


def test_long_prompts_are_counted_and_a_shortage_is_an_error(tmp_path: Path) -> None:
    file = jsonl(tmp_path / "a.jsonl", {"prompt": "word " * 100}, {"prompt": "short"})
    assert prepare(tmp_path / "o", [Wanted("a", file, train=1)], seed=1, max_tokens=50).sources[0].skipped == {
        "too long": 1
    }
    with pytest.raises(
        PromptError, match=r"source a: 2 train prompts are asked for, it has 1 usable ones \(1 too long\)"
    ):
        prepare(tmp_path / "p", [Wanted("a", file, train=2)], seed=1, max_tokens=50)
    assert not (tmp_path / "p").exists()


def test_a_generator_that_runs_dry_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation, "PATIENCE", 40)
    with pytest.raises(
        PromptError, match="source code: 9 train prompts are asked for, it has 0 usable ones .*too long"
    ):
        prepare(tmp_path / "o", [Wanted("code", source("builtin", "code"), train=9)], seed=1, max_tokens=2)


def test_generators_go_by_the_name_and_domain_of_the_configuration(tmp_path: Path) -> None:
    prepare(tmp_path, [Wanted("sums", source("builtin", "math", "arithmetic"), train=3)], seed=1, max_tokens=99)
    assert {(p.source, p.domain) for p in load_prepared(tmp_path)} == {("sums", "arithmetic")}


def test_wrong_sources_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match="no generator 'poems'; there are chat, code, math"):
        prepare(tmp_path / "o", [Wanted("x", source("builtin", "poems"), train=1)], seed=1, max_tokens=9)
    with pytest.raises(PromptError, match="no prompts are asked for"):
        prepare(tmp_path / "o", [Wanted("x", source("builtin", "chat"))], seed=1, max_tokens=9)
    file = dataclasses.replace(jsonl(tmp_path / "a.jsonl", {"prompt": "x"}), sha256="0" * 64)
    with pytest.raises(PromptError, match="expected 0000"):
        prepare(tmp_path / "o", [Wanted("x", file, train=1)], seed=1, max_tokens=9)
    with pytest.raises(PromptError, match="40 hexadecimal digits"):
        prepare(tmp_path / "o", [Wanted("x", source("hub", "a/b", revision="pin-me"), train=1)], seed=1, max_tokens=9)


def test_unfinished_and_changed_folders_are_noticed(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path, builtin(4, 2), seed=1, max_tokens=256)
    (tmp_path / "prompts.jsonl").write_bytes(
        b"".join((tmp_path / "prompts.jsonl").read_bytes().splitlines(keepends=True)[:-1])
    )
    with pytest.raises(PromptError, match="not what its manifest describes"):
        load_prepared(tmp_path)

    def full_disk(path: Path, prompts: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(preparation, "write_prompts", full_disk)
    with pytest.raises(OSError, match="no space"):
        prepare(tmp_path, builtin(4, 2), seed=2, max_tokens=256)
    with pytest.raises(PromptError, match="preparation did not finish"):
        load_prepared(tmp_path)


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_config("config/config.yaml", "smoke")
    assert [w.name for w in wanted_by(config)] == ["chat", "code", "math", "humaneval"]
    monkeypatch.setattr(preparation, "wanted_by", lambda config: builtin(3, 1))
    assert main(["--scale", "smoke", "--out", str(tmp_path / "o")]) == 0
    assert len(load_prepared(tmp_path / "o")) == 12 and capsys.readouterr().out.startswith("source")
    assert main(["--scale", "huge", "--out", str(tmp_path / "p")]) == 1
    assert capsys.readouterr().err.startswith("prepare: scale") and not (tmp_path / "p").exists()
