"""Regeneration on a tiny random target: whose words, which rows, what is kept, and what is never half-written."""

from __future__ import annotations

import dataclasses
import json

import pandas as pd
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from angelspec.data import regenerate as stage
from angelspec.data.answering import Interviewer, Mode, affordable, questions
from angelspec.data.prompts import make_prompt, write_prompts
from angelspec.data.records import AnswerStore, ShardError, answers_path, features_path
from angelspec.data.regenerate import Work, divide, estimate, main, regenerate, run_key, statistics_path
from angelspec.decoding.engine import Engine
from angelspec.targets.float64 import keep_float64
from angelspec.targets.model import Target
from angelspec.targets.rows import Rows

LAYERS = 6
MODE = Mode(temperature=0.9, top_p=0.95, max_new_tokens=6, layers=2)
WORK = Work(shards=2, slots=4, statistics_tokens=50)


@pytest.fixture(scope="module")
def target(chatml):
    config = LlamaConfig(
        vocab_size=len(chatml),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.3,
        eos_token_id=chatml.eos_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = keep_float64(LlamaForCausalLM(config).double())
    identity = {"kind": "random", "name": "tiny", "revision": "0", "digest": "none"}
    return Target(model, chatml, identity)


def ask(text, domain="math", **more):
    return make_prompt(text, domain=domain, source="toy", kind="k", split="train", licence="none", **more)


PROMPTS = [ask(f"What is {i} times eight?", ("chat", "code", "math")[i % 3]) for i in range(7)]
TALK = ask([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Tell me about tea"},
            {"role": "user", "content": "Then about coffee"}])  # fmt: skip


def answers_of(folder):
    return {(r.id, r.turn): r for r in AnswerStore(folder).records}


def test_answers_are_the_targets_own_in_its_template_and_mode(target, tmp_path):
    regenerate(target, [*PROMPTS, TALK], tmp_path, MODE, WORK, say=lambda line: None)
    found = answers_of(tmp_path)
    assert set(found) == {(p.id, 0) for p in PROMPTS} | {(TALK.id, 0), (TALK.id, 1)}
    for prompt in PROMPTS:
        record = found[prompt.id, 0]
        messages = [{"role": "user", "content": prompt.text}]
        rendered = target.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        assert record.prompt_ids == tuple(target.tokenizer(rendered, add_special_tokens=False)["input_ids"])
        assert record.seed == prompt.seed
        assert record.domain == prompt.domain
        assert record.finish_reason == ("stop" if record.response_ids[-1] in target.eos_ids else "length")
        assert len(record.response_ids) <= 6


def test_second_question_is_asked_after_the_first_answer(target, tmp_path):
    regenerate(target, [TALK], tmp_path, MODE, dataclasses.replace(WORK, shards=1), say=lambda line: None)
    first, second = AnswerStore(tmp_path).records
    said = target.tokenizer.decode(list(first.response_ids), skip_special_tokens=True)
    assert [m["role"] for m in second.messages] == ["system", "user", "assistant", "user", "assistant"]
    assert second.messages[2]["content"] == said
    rendered = target.tokenizer.apply_chat_template(
        list(second.messages[:-1]), tokenize=False, add_generation_prompt=True
    )
    assert list(second.prompt_ids) == target.tokenizer(rendered, add_special_tokens=False)["input_ids"]
    assert (first.turn, second.turn) == (0, 1)


def test_rows_equal_a_fresh_forward_of_the_whole_document(target, tmp_path):
    regenerate(target, PROMPTS, tmp_path, MODE, WORK, say=lambda line: None)
    store = AnswerStore(tmp_path)
    layer_ids = store.run_keys[0]["layer_ids"]
    for place, record in enumerate(store.records):
        ids = torch.tensor([record.prompt_ids + record.response_ids])[:, :-1]
        n = ids.shape[1]
        rows = Rows(ids[0], torch.arange(n), torch.zeros(n, dtype=torch.int64))
        out = target.forward(rows, target.new_cache(1, n), layer_ids=tuple(layer_ids))
        found = store.rows(place)
        torch.testing.assert_close(found.features.double(), out.features, rtol=2**-8, atol=1e-6)
        torch.testing.assert_close(found.final_hidden.double(), out.final_hidden, rtol=2**-8, atol=1e-6)
        torch.testing.assert_close(found.lse.double(), out.logits.double().logsumexp(1), rtol=0, atol=1e-4)


def test_answers_do_not_depend_on_shards_slots_or_order(target, tmp_path):
    regenerate(target, [*PROMPTS, TALK], tmp_path / "a", MODE, WORK, say=lambda line: None)
    other = Work(shards=1, slots=2, statistics_tokens=50)
    regenerate(target, [TALK, *PROMPTS[::-1]], tmp_path / "b", MODE, other, say=lambda line: None)
    assert answers_of(tmp_path / "a") == answers_of(tmp_path / "b")


def test_whole_shards_are_kept_and_missing_ones_made(target, tmp_path, monkeypatch):
    lines = []
    assert regenerate(target, PROMPTS, tmp_path, MODE, WORK, only=1, say=lines.append) == [1]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert regenerate(target, PROMPTS, tmp_path, MODE, WORK, say=lines.append) == [0]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    whole = answers_of(tmp_path)
    assert len(whole) == len(PROMPTS)
    # Nothing to do: no engine is made.
    monkeypatch.setattr(Engine, "__init__", lambda *args, **kwargs: pytest.fail("an engine was made"))
    assert regenerate(target, PROMPTS, tmp_path, MODE, WORK, say=lines.append) == []
    assert "nothing to do" in lines[-1]


def test_the_bill_is_said_before_the_first_answer_and_holds(target, tmp_path):
    lines = []
    regenerate(target, [*PROMPTS, TALK], tmp_path, MODE, WORK, say=lines.append)
    assert lines[0].startswith("0 of 2 shards are there; to do: 8 prompts of")
    assert "at most 9 answers of 54 tokens" in lines[0]
    assert "minutes" in lines[0]
    assert lines[1].startswith("shard 1 of 2")

    worker = Interviewer(target, MODE, [*PROMPTS, TALK], slots=4)
    bill = estimate(worker, divide([*PROMPTS, TALK], WORK), (1000.0, 10.0))
    store = AnswerStore(tmp_path)
    assert sum(len(r.response_ids) for r in store.records) <= bill.answer_tokens == 54
    assert sum(len(r.prompt_ids) for r in store.records) <= bill.prompt_tokens + 32
    assert sum(features_path(tmp_path, i).stat().st_size for i in range(2)) <= bill.disk_bytes + 2 * 4096
    assert bill.seconds == pytest.approx(bill.prompt_tokens / 1000 + 5.4)


def test_token_budget_is_never_exceeded(target, tmp_path):
    lines = []
    work = dataclasses.replace(WORK, shards=1, answer_tokens=20)
    regenerate(target, PROMPTS, tmp_path, MODE, work, say=lines.append)
    records = AnswerStore(tmp_path).records
    used = sum(len(r.response_ids) for r in records)
    assert 20 - MODE.max_new_tokens < used <= 20
    assert f"left out: {len(PROMPTS) - len(records)} beyond the token budget" in lines[-1]
    assert affordable([TALK, *PROMPTS], 17, 6) == [TALK]


def test_statistics_of_a_sample_lie_beside_each_shard(target, tmp_path):
    regenerate(target, PROMPTS, tmp_path, MODE, WORK, say=lambda line: None)
    table = pd.concat([pd.read_parquet(statistics_path(tmp_path, i)) for i in range(2)])
    assert len(table) == sum(len(r.response_ids) for r in AnswerStore(tmp_path).records)
    assert table.entropy.between(0, 6.1).all()
    assert table.top1.between(1 / 400, 1).all()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"temperature": 0.0}, "sampling"),
        ({"top_p": 0.5}, "sampling"),
        ({"thinking": False}, "chat"),
        ({"system": "Be terse."}, "chat"),
        ({"max_new_tokens": 5}, "max_new_tokens"),
        ({"layers": 1}, "layer_ids"),
    ],
)
def test_another_run_key_is_refused_and_replaced_only_on_demand(target, tmp_path, change, name):
    regenerate(target, PROMPTS, tmp_path, MODE, WORK, say=lambda line: None)
    before = answers_path(tmp_path, 0).read_bytes()
    mode = dataclasses.replace(MODE, **change)
    with pytest.raises(ShardError, match=rf"made by another run: {name} was .*--replace-stale"):
        regenerate(target, PROMPTS, tmp_path, mode, WORK, say=lambda line: None)
    assert answers_path(tmp_path, 0).read_bytes() == before
    made = regenerate(target, PROMPTS, tmp_path, mode, WORK, replace_stale=True, say=lambda line: None)
    assert made == [0, 1]
    assert AnswerStore(tmp_path).run_keys[0] == run_key(target, mode, divide(PROMPTS, WORK)[0])


def test_other_prompts_and_other_cuts_are_another_run(target, tmp_path):
    regenerate(target, PROMPTS, tmp_path, MODE, WORK, say=lambda line: None)
    with pytest.raises(ShardError, match="part was"):
        regenerate(target, PROMPTS[1:], tmp_path, MODE, WORK, say=lambda line: None)
    one = dataclasses.replace(WORK, shards=1)
    with pytest.raises(ShardError, match="answers-00001.parquet does not belong to this run"):
        regenerate(target, PROMPTS, tmp_path, MODE, one, say=lambda line: None)
    regenerate(target, PROMPTS, tmp_path, MODE, one, replace_stale=True, say=lambda line: None)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        path.name for path in (answers_path(tmp_path, 0), features_path(tmp_path, 0), statistics_path(tmp_path, 0))
    )


def test_a_broken_feature_file_is_noticed_before_it_is_kept(target, tmp_path):
    regenerate(target, PROMPTS, tmp_path, MODE, WORK, say=lambda line: None)
    path = features_path(tmp_path, 1)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ShardError, match="features-00001"):
        regenerate(target, PROMPTS, tmp_path, MODE, WORK, say=lambda line: None)


def test_an_interrupted_run_keeps_what_was_whole_and_nothing_else(target, tmp_path, monkeypatch):
    original = Interviewer.answer

    def second_is_interrupted(self, prompts, budget=None):
        if answers_path(tmp_path, 0).exists():
            raise KeyboardInterrupt
        return original(self, prompts, budget)

    monkeypatch.setattr(Interviewer, "answer", second_is_interrupted)
    with pytest.raises(KeyboardInterrupt):
        regenerate(target, PROMPTS, tmp_path, MODE, WORK, say=lambda line: None)
    assert not list(tmp_path.glob("*-00001.*"))
    monkeypatch.undo()
    assert regenerate(target, PROMPTS, tmp_path, MODE, WORK, say=lambda line: None) == [1]


def test_engine_interrupt_is_passed_on(target, monkeypatch):
    worker = Interviewer(target, MODE, PROMPTS, slots=4)
    original = Engine.run

    def interrupted(self, *args, **kwargs):
        answers = original(self, *args, **kwargs)
        self.interrupted = True
        return answers

    monkeypatch.setattr(Engine, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        worker.answer(PROMPTS)


def test_too_little_disk_is_said_before_work_starts(target, tmp_path, monkeypatch):
    usage = dataclasses.make_dataclass("Usage", ["free"])(10)
    monkeypatch.setattr(stage.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(OSError, match="0.00 GiB are free: make room"):
        regenerate(target, PROMPTS, tmp_path, MODE, WORK, say=lambda line: None)
    assert not list(tmp_path.iterdir())


def test_prompts_that_cannot_be_asked_are_skipped_and_counted(target, tmp_path):
    lines = []
    sly = ask("Hi <|im_end|> there")
    long = ask("tea " * 200)
    work = Work(shards=1, slots=4, max_prompt_tokens=100, statistics_tokens=10)
    regenerate(target, [*PROMPTS, sly, long], tmp_path, MODE, work, say=lines.append)
    assert "skipped: 1 prompts, longer than 100 tokens" in lines
    assert any("skipped: 1 prompts, does not render" in line and "<|im_end|>" in line for line in lines)
    assert len(AnswerStore(tmp_path)) == len(PROMPTS)
    with pytest.raises(ValueError, match=r"None of 2 prompts can be asked .*longer than 100"):
        Interviewer(target, MODE, [sly, long], max_prompt_tokens=100)


def test_later_turn_with_control_tokens_ends_the_conversation(target):
    talk = ask([{"role": "user", "content": "Tea"}, {"role": "user", "content": "<|im_end|>"}])
    answered = Interviewer(target, MODE, [talk], slots=2).answer([talk])
    assert [record.turn for record in answered.records] == [0]
    assert answered.dropped == {"later turns that do not render": 1}
    assert [len(q) for q in questions(TALK)] == [2, 1]


def test_cuts_that_make_no_sense_are_refused(target, tmp_path):
    with pytest.raises(ValueError, match="more than once"):
        divide([*PROMPTS, PROMPTS[0]], WORK)
    with pytest.raises(ValueError, match="cannot be cut into 9"):
        divide(PROMPTS, Work(shards=9))
    with pytest.raises(ValueError, match="numbered 0 to 1"):
        regenerate(target, PROMPTS, tmp_path, MODE, WORK, only=2)


def test_command_line_says_errors_in_one_line(tmp_path, capsys):
    assert main(["--prompts", str(tmp_path / "none.jsonl"), "--out", str(tmp_path / "out")]) == 1
    assert "none.jsonl" in capsys.readouterr().err
    path = tmp_path / "prompts.jsonl"
    write_prompts(path, PROMPTS)
    assert main(["--prompts", str(path), "--out", str(tmp_path / "out"), "--target", '{"kind": "moon"}']) == 1
    assert capsys.readouterr().err.startswith("error: ")


def test_command_line_makes_one_shard_in_the_given_mode(tmp_path, monkeypatch, target):
    class Policy:
        def apply(self):
            return self

    monkeypatch.setattr(stage, "load_target", lambda spec, policy: target)
    monkeypatch.setattr(stage, "choose_policy", lambda *wishes: Policy())
    monkeypatch.setattr(stage, "announce", lambda policy: None)
    write_prompts(tmp_path / "p.jsonl", PROMPTS)
    words = ["--prompts", str(tmp_path / "p.jsonl"), "--split", "train", "--out", str(tmp_path / "out")]
    words += ["--shards", "2", "--shard", "1", "--slots", "4", "--temperature", "0.9", "--top-p", "0.95"]
    words += ["--max-new-tokens", "6", "--layers", "2", "--thinking", "default", "--statistics-tokens", "50"]
    assert main(words) == 0
    store = AnswerStore(tmp_path / "out")
    assert store.run_keys == [run_key(target, MODE, divide(PROMPTS, WORK)[1])]
    assert json.dumps(store.run_keys[0])
    assert main([*words[:-2], "--temperature", "0"]) == 1
