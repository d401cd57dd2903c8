"""The commands generate and bench, with a tiny target in place of the real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from angelspec.cli import app
from angelspec.commands import common
from angelspec.device import choose_policy
from angelspec.evaluation.summary import check_row
from angelspec.evaluation.trace import read_trace


@pytest.fixture
def tiny_commands(tiny_llama: Any, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    """The commands with the tiny target in place of the real one, and its tokenizer in place of a chat template."""
    monkeypatch.setattr(common, "load", lambda *options: (tiny_llama, choose_policy("cpu", "float64", 1, False)))
    encode = tiny_llama.tokenizer.encode
    monkeypatch.setattr(common, "encode_prompts", lambda target, texts, raw=False: [encode(t) for t in texts])
    return CliRunner()


def test_bench_writes_rows_and_says_what_was_measured(tiny_commands: CliRunner, tmp_path: Path) -> None:
    path, prompts = tmp_path / "out.json", tmp_path / "gsm.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": f"how much is {i} + {i}?"}) + "\n" for i in range(4)))
    options = ["--arms", "ar,ngram,ngram-fixed2", "--concurrency", "1,2", "--new-tokens", "5", "--blocks", "2"]
    files = ["--prompts", str(prompts), "--json", str(path), "--trace", str(tmp_path / "traces")]
    result = tiny_commands.invoke(app, ["bench", *options, *files])
    assert result.exit_code == 0, result.output
    assert "4 prompts of" in result.output and "compiled in" in result.output
    written = json.loads(path.read_text())
    assert {(r["arm"], r["concurrency"], r["domain"]) for r in written["rows"]} == {
        (arm, c, domain) for arm in ("ar", "ngram", "ngram-fixed2") for c in (1, 2) for domain in ("gsm", "all")
    }
    for row in written["rows"]:
        check_row(row)
    assert len(written["blocks"]) == 3 * 2 * 2
    frame, about = read_trace(tmp_path / "traces" / "ngram-gsm-T0-x2.parquet")
    assert about["arm"] == "ngram" and about["concurrency"] == 2 and len(frame)
    assert written["about"]["policy"]["dtype"] == "float64" and written["about"]["hardware"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["bench", "--arms", "ar,eagle"], "arm 'eagle' is unknown; there is ar, ngram, or the folder"),
        (["bench", "--concurrency", "1,two"], "'1,two' is not a list of whole numbers"),
        (["generate"], "no prompt given"),
        (["generate", "hello", "--top-p", "2"], "top_p is 2.0"),
        (["generate", "hello", "--rule", "C"], "acceptance rule is 'C'"),
    ],
)
def test_wrong_options_end_with_one_readable_line(tiny_commands: CliRunner, options: list[str], message: str) -> None:
    result = tiny_commands.invoke(app, options)
    assert isinstance(result.exception, ValueError) and message in str(result.exception)


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "holds no prompts"), ('{"prompt": 3}\n', "line 1 has no text"), ('{"prompt": "a"}\n{', "line 2 is not JSON")],
)
def test_broken_prompt_files_are_named_with_their_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        common.read_prompt_file(path)


def test_generate_streams_one_answer_and_prints_several(tiny_commands: CliRunner, tmp_path: Path) -> None:
    one = tiny_commands.invoke(app, ["generate", "hello", "--max-new", "6"])
    assert one.exit_code == 0 and "\033" not in one.output  # plain: this is no terminal
    path = tmp_path / "answers.jsonl"
    options = ["--drafter", "ngram", "--max-new", "6", "--temperature", "1", "--seed", "5", "--json", str(path)]
    several = tiny_commands.invoke(app, ["generate", "hello", "world", *options])
    assert several.exit_code == 0, several.output
    assert "> hello" in several.output and "> world" in several.output and "tau" in several.output
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [r["seed"] for r in records] == [5, 6] and all(len(r["response_ids"]) <= 6 for r in records)


def test_accepted_draft_tokens_are_green_on_a_terminal(
    tiny_llama: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from angelspec.commands.generate import GREEN, PLAIN, _Stream
    from angelspec.decoding.request import Chunk

    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    stream = _Stream(tiny_llama.tokenizer, ())
    stream(Chunk("0", [33, 34, 35], accepted=2))
    stream.finish()
    assert capsys.readouterr().out == f"{GREEN}A{PLAIN}{GREEN}B{PLAIN}C\n"
