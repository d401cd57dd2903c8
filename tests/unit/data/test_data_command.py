"""`angelspec data`: what it prints is what is on disk."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from angelspec.commands import data as command
from angelspec.config import load_config
from angelspec.data.manifest import Manifest, describe, prompts_digest, write_manifest
from angelspec.data.masks import mask_answer
from angelspec.data.prompts import make_prompt
from angelspec.data.records import AnswerRecord, write_shard
from angelspec.data.templates import ChatTemplate, token_pieces

CONFIG = Path(__file__).resolve().parents[3] / "config" / "config.yaml"


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=200, color_system=None, force_terminal=False)


def shown(console):
    return console.file.getvalue()


def make_records(tokenizer):
    template = ChatTemplate(tokenizer)
    talk = ({"role": "user", "content": "Tell me about tea ☕"},)
    prompt = tuple(template.prompt_ids(talk))
    records = []
    for number, (domain, text) in enumerate([("chat", "Tea is brewed 🍵.\nYes."), ("math", "56"), ("code", "a + b")]):
        answer = (*template.encode(text), tokenizer.eos_token_id)
        messages = (*talk, {"role": "assistant", "content": text})
        records.append(AnswerRecord(f"id{number}", domain, "toy", 0, messages, prompt, answer, "stop", 7))
    return records


def test_record_is_shown_with_exactly_the_answer_in_brackets(chatml, tmp_path, console, monkeypatch):
    records = make_records(chatml)
    write_shard(tmp_path, 0, records, None, {"target": {"name": "toy"}, "layer_ids": []})
    monkeypatch.setattr(command, "tokenizer_of", lambda settings, identity: chatml)
    command.show_record(console, None, tmp_path, 0)
    rendered = ChatTemplate(chatml).render(records[0].messages[:1], generation=True)
    assert rendered + "⟦Tea is brewed 🍵.\nYes.<|im_end|>⟧" in shown(console)
    assert "id0 turn 0  chat/toy" in shown(console)
    with pytest.raises(ValueError, match="numbered 0 to 2; there is no record 3"):
        command.show_record(console, None, tmp_path, 3)


def test_colours_follow_the_mask_token_by_token(chatml):
    record = make_records(chatml)[0]
    masked = mask_answer(record)
    text = command.coloured(chatml, masked.ids, masked.supervised)
    green = "".join(text.plain[span.start : span.end] for span in text.spans if span.style in command.SHADES)
    assert green == "Tea is brewed 🍵.↵\nYes.<|im_end|>"
    shades = [span.style for span in text.spans if span.style in command.SHADES]
    assert all(a != b for a, b in zip(shades, shades[1:], strict=False))


def test_pieces_join_to_the_text_and_count_every_token(chatml):
    ids = chatml.encode("Tea 🍵 — leaves\n", add_special_tokens=False)
    pieces = token_pieces(chatml, ids)
    assert "".join(piece for piece, _ in pieces) == "Tea 🍵 — leaves\n"
    assert sum(count for _, count in pieces) == len(ids)
    cut = token_pieces(chatml, chatml.encode("🍵", add_special_tokens=False)[:2])
    assert sum(count for _, count in cut) == 2


def test_mixtures_with_and_without_answers(chatml, tmp_path, console):
    settings = load_config(CONFIG, "smoke")
    command.show_mixtures(console, settings, tmp_path, None)
    assert "no answers" in shown(console)
    for name in settings.mixtures:
        assert name in shown(console)
    records = make_records(chatml)
    write_shard(tmp_path, 0, records, None, {"target": {}, "layer_ids": []})
    command.show_mixtures(console, settings, tmp_path, "chat")
    last = shown(console).splitlines()[-2]
    assert str(len(records[0].response_ids)) in last
    with pytest.raises(ValueError, match="mixture 'x' is not in the configuration"):
        command.show_mixtures(console, settings, tmp_path, "x")


def test_manifest_table_and_what_makes_it(tmp_path, console):
    with pytest.raises(FileNotFoundError, match="snakemake --cores all prompts"):
        command.show_manifest(console, tmp_path)
    prompt = make_prompt("2+2?", domain="math", source="toy", kind="k", split="train", licence="MIT")
    entry = describe(
        [prompt], name="toy", domain="math", kind="builtin", revision="r1", licence="MIT", skipped={"too long": 2}
    )
    write_manifest(tmp_path / "manifest.json", Manifest((entry,), prompts_digest([prompt]), 0))
    command.show_manifest(console, tmp_path)
    for word in ("toy", "MIT", "r1", entry.digest[:12], "toy: 2 skipped, too long"):
        assert word in shown(console)


def test_tokenizer_of_another_target_is_refused(tmp_path, monkeypatch):
    settings = load_config(CONFIG, "smoke")
    monkeypatch.setattr("angelspec.targets.fetch.fetch_target", lambda spec: tmp_path)
    monkeypatch.setattr("angelspec.targets.fetch.target_identity", lambda spec, folder: {"name": "a", "revision": "1"})
    with pytest.raises(ValueError, match="These answers are of b 2"):
        command.tokenizer_of(settings, {"name": "b", "revision": "2"})
