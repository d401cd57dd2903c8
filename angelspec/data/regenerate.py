"""Regeneration: the target itself answers every prompt, in the mode in which it will be served.

    python -m angelspec.data.regenerate --prompts prompts.jsonl --split train --out answers --shards 4

A drafter has to imitate its target, so it is trained on what *this* target says, with this sampling, this chat template
and this thinking mode; the answers of a data set are thrown away (AngelSpec, arXiv 2607.25852, section on data).

Work is cut into shards. A shard is written when all of it is answered, features first, answers last, so that a killed
run loses at most the shard it was in; the next run keeps every shard whose run key is the same and makes the others.
The answer to a prompt depends on its own seed alone, not on the shard, the batch or the order.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import shutil
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from angelspec.data.answering import Interviewer, Mode, Say
from angelspec.data.prompts import SPLITS, Prompt, read_prompts
from angelspec.data.records import (
    SHARD_NAME,
    ShardError,
    answers_path,
    features_path,
    open_shard,
    read_run_key,
    write_shard,
)
from angelspec.data.statistics import sample_places, token_table
from angelspec.data.templates import ChatTemplate
from angelspec.device import announce, choose_policy
from angelspec.io import atomic_path
from angelspec.targets.load import load_target
from angelspec.targets.model import Target, default_layer_ids
from angelspec.targets.spec import SMOLLM2, TargetError, TargetSpec

RUN_KEY_VERSION = 1


@dataclass(frozen=True)
class Work:
    """How the work is cut. No single answer depends on it."""

    shards: int = 1
    answer_tokens: int | None = None  # over all shards, at most
    slots: int = 16  # conversations at the same time
    max_prompt_tokens: int = 1024  # longer first questions are skipped and counted
    statistics_tokens: int = 1000  # answer tokens per domain and shard whose entropy is measured


@dataclass(frozen=True)
class Part:
    """The prompts of one shard, in the order in which they are asked, and its share of the token budget."""

    index: int
    prompts: tuple[Prompt, ...]
    answer_tokens: int | None


@dataclass(frozen=True)
class Bill:
    """What some shards will cost at most."""

    prompts: int
    answers: int
    answer_tokens: int
    prompt_tokens: int
    disk_bytes: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.prompts:,} prompts of {self.prompt_tokens:,} tokens; at most {self.answers:,} answers of "
            f"{self.answer_tokens:,} tokens, {self.seconds / 60:.1f} minutes, {self.disk_bytes / 2**30:.2f} GiB on disk"
        )


def statistics_path(folder: str | Path, index: int) -> Path:
    """Token statistics of a sample of one shard's answers (see `angelspec.data.statistics.token_table`)."""
    return Path(folder) / f"statistics-{index:05d}.parquet"


def divide(prompts: Sequence[Prompt], work: Work) -> list[Part]:
    """Deal prompts out to shards. They are sorted by id, a hash, so that every shard is a fair mix of all domains.

    Raises ValueError for no prompts, repeated ids, and more shards than prompts.
    """
    repeated = [name for name, count in Counter(prompt.id for prompt in prompts).items() if count > 1]
    if repeated:
        raise ValueError(f"{len(repeated)} prompt ids occur more than once, first {repeated[0]}; remove the copies.")
    if not 1 <= work.shards <= len(prompts):
        raise ValueError(
            f"{len(prompts)} prompts cannot be cut into {work.shards} shards; ask for 1 to {len(prompts)}."
        )
    order = sorted(prompts, key=lambda prompt: prompt.id)
    share = None if work.answer_tokens is None else work.answer_tokens // work.shards
    return [Part(i, tuple(order[i :: work.shards]), share) for i in range(work.shards)]


def run_key(target: Target, mode: Mode, part: Part) -> dict[str, Any]:
    """All that decides what a shard holds (JSON-ready). `part` tells the shards of a run apart, the rest is the
    run's."""
    asked = hashlib.sha256(json.dumps([[prompt.id, prompt.seed] for prompt in part.prompts]).encode())
    key = {
        "version": RUN_KEY_VERSION,
        "target": target.identity,
        "dtype": str(target.cache_dtype).removeprefix(
            "torch."
        ),  # what the weights are stored in, where kernels pack them
        "chat": ChatTemplate(target.tokenizer, mode.thinking, mode.system).identity,
        "sampling": {"temperature": mode.temperature, "top_p": mode.top_p, "top_k": mode.top_k},
        "max_new_tokens": mode.max_new_tokens,
        "stop_ids": target.eos_ids,
        "layer_ids": default_layer_ids(target.dims.num_layers, mode.layers),
        "part": {"index": part.index, "prompts": asked.hexdigest()[:16], "answer_tokens": part.answer_tokens},
    }
    return json.loads(json.dumps(key))


def estimate(interviewer: Interviewer, parts: Sequence[Part], speed: tuple[float, float]) -> Bill:
    """Upper bounds for `parts`; speed is (prompt, answer) tokens a second, as `Interviewer.measure` returns it."""
    lengths, longest = interviewer.lengths, interviewer.mode.max_new_tokens
    asked = [prompt for part in parts for prompt in part.prompts if prompt.id in lengths]
    answers = sum(prompt.turns for prompt in asked)
    budget = sum(math.inf if part.answer_tokens is None else part.answer_tokens for part in parts)
    tokens = int(min(answers * longest, budget))
    # A later turn reads the conversation again: the first question, and the answers since.
    read = sum(lengths[p.id] * p.turns + longest * p.turns * (p.turns - 1) // 2 for p in asked)
    row_bytes = (len(interviewer.layer_ids) + 1) * interviewer.target.dims.hidden_size * 2 + 4
    return Bill(len(asked), answers, tokens, read, (tokens + read) * row_bytes, read / speed[0] + tokens / speed[1])


def regenerate(
    target: Target,
    prompts: Sequence[Prompt],
    folder: str | Path,
    mode: Mode,
    work: Work,
    *,
    only: int | None = None,
    replace_stale: bool = False,
    say: Say = print,
) -> list[int]:
    """Answer all prompts (or those of shard `only`) into `folder`; returns the shards that were made now.

    Whole shards with the same run key are kept. Shards of another run are an error, or made anew with `replace_stale`.
    Raises ShardError, TemplateError, ValueError and OSError; what was written before stays whole.
    """
    folder = Path(folder)
    parts = divide(prompts, work)
    if only is not None and not 0 <= only < work.shards:
        raise ValueError(f"There is no shard {only}; the {work.shards} shards are numbered 0 to {work.shards - 1}.")
    wanted = [part for part in parts if only is None or part.index == only]
    _clear_strangers(folder, work.shards, replace_stale)
    todo = [part for part in wanted if not _is_kept(folder, part.index, run_key(target, mode, part), replace_stale)]
    if not todo:
        say(f"all {len(wanted)} shards of answers are there, made in this very mode; nothing to do")
        return []
    asked = [prompt for part in todo for prompt in part.prompts]
    interviewer = Interviewer(target, mode, asked, slots=work.slots, max_prompt_tokens=work.max_prompt_tokens, say=say)
    for reason, count in interviewer.skipped.items():
        say(f"skipped: {count} prompts, {reason}")
    bill = estimate(interviewer, todo, interviewer.measure(asked))
    say(f"{len(wanted) - len(todo)} of {len(wanted)} shards are there; to do: {bill}")
    _require_space(folder, bill.disk_bytes)
    for part in todo:
        say(f"shard {part.index + 1} of {work.shards}: {_make(interviewer, folder, part, work.statistics_tokens)}")
    return [part.index for part in todo]


def _make(interviewer: Interviewer, folder: Path, part: Part, statistics_tokens: int) -> str:
    """Answer one part and write its shard: statistics, features, answers last. Returns a line about it."""
    started = time.perf_counter()
    answered = interviewer.answer(part.prompts, part.answer_tokens)
    target = interviewer.target
    sample = sample_places(answered.records, statistics_tokens)
    pairs = [(answered.records[i], answered.rows[i]) for i in sample]
    table = token_table(pairs, target.lm_head.weight.detach().float().cpu())
    with atomic_path(statistics_path(folder, part.index)) as temporary:
        table.to_parquet(temporary, index=False)
    write_shard(folder, part.index, answered.records, answered.rows, run_key(target, interviewer.mode, part))
    seconds = time.perf_counter() - started
    tokens = sum(len(record.response_ids) for record in answered.records)
    size = features_path(folder, part.index).stat().st_size
    return (
        f"{len(answered.records):,} answers, {tokens:,} tokens in {seconds:.0f} s ({tokens / seconds:.0f} a second), "
        f"{size / 2**30:.2f} GiB" + "".join(f"; left out: {n} {reason}" for reason, n in answered.dropped.items())
    )


def _is_kept(folder: Path, index: int, key: Mapping[str, Any], replace_stale: bool) -> bool:
    """Whether a shard is whole and of this run. A shard of another run is an error, or removed with `replace_stale`."""
    path = answers_path(folder, index)
    if not path.exists():
        return False
    found = read_run_key(folder, index)
    if found == key:
        open_shard(folder, index)
        return True
    if not replace_stale:
        names = sorted(name for name in {*found, *key} if found.get(name) != key.get(name))
        shown = "; ".join(f"{name} was {found.get(name)} and is {key.get(name)}" for name in names)
        raise ShardError(
            f"{path} was made by another run: {shown}. Choose another folder, delete this one, or give --replace-stale "
            "to have such shards made anew."
        )
    path.unlink()
    return False


def _clear_strangers(folder: Path, shards: int, replace_stale: bool) -> None:
    """Shards beyond the last one would be read as part of this run: an error, or removed with `replace_stale`."""
    names = [SHARD_NAME.fullmatch(path.name) for path in folder.glob("answers-*.parquet")]
    strangers = sorted(int(match[1]) for match in names if match and int(match[1]) >= shards)
    if strangers and not replace_stale:
        raise ShardError(
            f"{answers_path(folder, strangers[0])} does not belong to this run, which has {shards} shards. Choose "
            "another folder, delete this one, or give --replace-stale."
        )
    for index in strangers:
        for path in (answers_path(folder, index), features_path(folder, index), statistics_path(folder, index)):
            path.unlink(missing_ok=True)


def _require_space(folder: Path, needed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(
            f"The answers may take {needed / 2**30:.2f} GiB at {folder}, where {free / 2**30:.2f} GiB are free: make "
            "room, or lower the token budget or the number of captured layers."
        )


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m angelspec.data.regenerate", description=__doc__.split("\n")[0])
    thinking = {"on": True, "off": False, "default": None}
    mode, work = Mode(), Work()
    parser.add_argument("--prompts", required=True, help="file of prompts, from angelspec.data.prepare")
    parser.add_argument("--split", choices=SPLITS, help="answer the prompts of this split only")
    parser.add_argument("--out", required=True, help="folder of the shards")
    parser.add_argument(
        "--target", type=json.loads, default={}, help="fields of a target as JSON; default: SmolLM2-135M"
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--compile", default="auto", choices=("auto", "on", "off"))
    parser.add_argument("--threads", type=int, help="CPU threads; default: what the environment says, else all cores")
    parser.add_argument("--temperature", type=float, default=mode.temperature)
    parser.add_argument("--top-p", type=float, default=mode.top_p)
    parser.add_argument("--top-k", type=int, default=mode.top_k)
    parser.add_argument("--thinking", choices=tuple(thinking), default="default")
    parser.add_argument("--system", help="system prompt; default: what the chat template writes by itself")
    parser.add_argument("--max-new-tokens", type=int, default=mode.max_new_tokens)
    parser.add_argument("--layers", type=int, default=mode.layers, help="captured target layers T")
    parser.add_argument("--shards", type=int, default=work.shards)
    parser.add_argument("--shard", type=int, help="make this shard only, counted from 0")
    parser.add_argument("--answer-tokens", type=int, help="budget over all shards")
    parser.add_argument("--slots", type=int, default=work.slots)
    parser.add_argument("--max-prompt-tokens", type=int, default=work.max_prompt_tokens)
    parser.add_argument("--statistics-tokens", type=int, default=work.statistics_tokens)
    parser.add_argument("--replace-stale", action="store_true", help="make shards of another run anew")
    given = parser.parse_args(arguments)
    given.thinking = thinking[given.thinking]
    return given


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0; 1 with one line on standard error; 130 when interrupted (the shard at work is not written)."""
    given = _parse(arguments)
    names = ("temperature", "top_p", "top_k", "thinking", "system", "max_new_tokens", "layers")
    mode = Mode(**{name: getattr(given, name) for name in names})
    work = Work(given.shards, given.answer_tokens, given.slots, given.max_prompt_tokens, given.statistics_tokens)
    try:
        spec = TargetSpec(**given.target) if given.target else SMOLLM2
        prompts = [p for p in read_prompts(given.prompts) if given.split in (None, p.split)]
        policy = choose_policy(given.device, spec.dtype, given.threads, given.compile).apply()
        announce(policy)
        target = load_target(spec, policy)
        regenerate(target, prompts, given.out, mode, work, only=given.shard, replace_stale=given.replace_stale)
    except (ValueError, OSError, TypeError, TargetError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the shard at work is not written, the ones before it are whole", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
