"""The throughput run on a tiny target: rows, units, intervals, and what it refuses."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from angelspec.cli import app
from angelspec.commands import common
from angelspec.device import choose_policy
from angelspec.drafters.ar import ARDrafter
from angelspec.drafters.ngram import NGramDrafter
from angelspec.evaluation import throughput
from angelspec.evaluation.bench_prompts import bench_prompts
from angelspec.evaluation.memory import peak_bytes, reset_peak

COLUMNS = [
    "claim",
    "arm",
    "drafter",
    "mixture",
    "domain",
    "concurrency",
    "temperature",
    "metric",
    "value",
    "lo",
    "hi",
    "n",
    "unit",
    "seed",
    "scale",
    "hardware",
]


@pytest.fixture(scope="module")
def rows(tiny_llama: Any) -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(0)
    prompts = [torch.randint(1, 97, (6,), generator=generator).tolist() for _ in range(9)]
    setting = throughput.Setting(concurrency=(1, 3), new_tokens=8, repeats=3)
    said: list[str] = []
    arms = {"ar": ARDrafter, "ngram": lambda: NGramDrafter(3)}
    rows = throughput.run(tiny_llama, arms, prompts, setting, "this machine", said.append)
    assert len(said) == 4 and "tok/s" in said[0] and "peak" in said[0]
    return rows


def test_every_cell_has_every_metric_with_the_columns_of_the_summary(rows: list[dict[str, Any]]) -> None:
    assert len(rows) == 2 * 2 * (len(throughput.UNITS) + 1)
    for row in rows:
        assert list(row) == COLUMNS
        assert math.isfinite(row["value"]) and row["hardware"] == "this machine"
        if row["metric"] != "warm_up":
            assert row["unit"] == throughput.UNITS[row["metric"]] and row["n"] == 3
            assert row["lo"] <= row["value"] <= row["hi"]


def test_the_numbers_fit_each_other(rows: list[dict[str, Any]]) -> None:
    value = {(r["arm"], r["concurrency"], r["metric"]): r["value"] for r in rows}
    for arm in ("ar", "ngram"):
        for c in (1, 3):
            parts = sum(value[arm, c, m] for m in ("forward", "sample", "draft"))
            assert parts == pytest.approx(value[arm, c, "step"] * (1 - value[arm, c, "host_share"]), rel=0.2)
            # c requests run from start to end together, so the users' speeds add up to at least the total
            assert value[arm, c, "user_speed"] * c >= 0.95 * value[arm, c, "throughput"]
            assert value[arm, c, "peak_memory"] > 0.01
    assert value["ar", 1, "tau"] == 1.0 and value["ar", 1, "draft"] == 0.0
    assert value["ngram", 1, "tau"] >= 1.0 and value["ngram", 1, "draft"] > 0.0


def test_one_repeat_has_no_interval() -> None:
    row = throughput._row(throughput.Setting(), "ar", 1, "x", "tau", [2.0], "tokens/pass")
    assert (row["value"], row["lo"], row["hi"], row["n"]) == (2.0, None, None, 1)
    # mean 2, standard deviation 1, t(0.975, 2) = 4.303
    row = throughput._row(throughput.Setting(), "ar", 1, "x", "tau", [1.0, 2.0, 3.0], "tokens/pass")
    assert row["hi"] == pytest.approx(2 + 4.302653 / math.sqrt(3), rel=1e-6)


def test_settings_that_make_no_sense_are_refused(tiny_llama: Any) -> None:
    with pytest.raises(ValueError, match="concurrency is"):
        throughput.Setting(concurrency=(4, 0))
    with pytest.raises(ValueError, match="repeats 0"):
        throughput.Setting(repeats=0)
    with pytest.raises(ValueError, match="2 prompts for 4 requests"):
        throughput.run(tiny_llama, {"ar": ARDrafter}, [[1], [2]], throughput.Setting(concurrency=(4,)), "x")


def test_peak_memory_is_reset_where_the_system_allows_it() -> None:
    device = torch.device("cpu")
    big = torch.ones(40_000_000)  # 160 MB
    with_it = peak_bytes(device)
    del big
    reset_peak(device)
    if Path("/proc/self/clear_refs").exists():
        assert peak_bytes(device) < with_it - 100_000_000
    assert peak_bytes(device) > 10_000_000


def test_built_in_prompts_are_distinct_and_ordinary() -> None:
    prompts = bench_prompts()
    assert len(set(prompts)) == len(prompts) == 128
    assert all("{" not in p and 60 < len(p) < 160 for p in prompts)


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
    options = ["--arms", "ar,ngram", "--concurrency", "1,2", "--new-tokens", "5", "--repeats", "2"]
    result = tiny_commands.invoke(app, ["bench", *options, "--prompts", str(prompts), "--json", str(path)])
    assert result.exit_code == 0, result.output
    assert "4 prompts of" in result.output and "compiled in" in result.output
    written = json.loads(path.read_text())
    assert {(r["arm"], r["concurrency"], r["domain"]) for r in written["rows"]} == {
        (arm, c, "gsm") for arm in ("ar", "ngram") for c in (1, 2)
    }
    assert written["about"]["policy"]["dtype"] == "float64" and written["about"]["hardware"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["bench", "--arms", "ar,eagle"], "arm 'eagle' is unknown; there is ar, ngram"),
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
