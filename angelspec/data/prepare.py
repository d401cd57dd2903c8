"""Prepare the prompts of a run: draw them from their sources, keep train and eval apart, write prompts and manifest.

    python -m angelspec.data.prepare --config config/config.yaml --scale laptop --out results/laptop/prompts

Evaluation prompts are drawn first. A training prompt is then dropped if it has the id of any evaluation prompt or is a
near-duplicate of one (numbers ignored); what was dropped is counted in the manifest. Everything is drawn and checked
before anything is written; the manifest is written last, so its presence means that the folder is whole.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from angelspec.config import Config, ConfigError, SourceConfig, load_config
from angelspec.data.dedup import NearIndex, document_counts, shingles
from angelspec.data.manifest import Manifest, describe, prompts_digest, read_manifest, table, write_manifest
from angelspec.data.prompts import SPLITS, Prompt, PromptError, estimate_tokens, read_prompts, write_prompts
from angelspec.data.sources import chat, code, math
from angelspec.data.sources.code_library import library_digest
from angelspec.data.sources.hub import stream_hub
from angelspec.data.sources.humaneval import read_humaneval
from angelspec.data.sources.jsonl import OnBad, read_jsonl
from angelspec.provenance import file_digest, source_digest

PROMPTS_FILE, MANIFEST_FILE = "prompts.jsonl", "manifest.json"
GENERATORS = {"chat": chat.generate, "code": code.generate, "math": math.generate}

EVAL_THRESHOLD = 0.5  # a training prompt this similar to an evaluation prompt is dropped; numbers are ignored
SAME_THRESHOLD = 0.8  # two prompts of one generator this similar count as one
LOOK_AHEAD = 2000  # prompts from which the commonness of word sequences is estimated
PATIENCE = 3000  # refused prompts in a row after which a generator is taken to have nothing new


@dataclass(frozen=True)
class Wanted:
    """How many prompts of one source are wanted per split."""

    name: str
    source: SourceConfig
    train: int = 0
    eval: int = 0


def wanted_by(config: Config) -> list[Wanted]:
    """The sources that the active scale asks for, in the order of the configuration."""
    train, evaluation = config.budget.prompts.train, config.budget.prompts.eval
    return [
        Wanted(name, source, train.get(name, 0), evaluation.get(name, 0))
        for name, source in config.sources.items()
        if train.get(name, 0) or evaluation.get(name, 0)
    ]


def prepare(
    out: str | Path,
    wanted: Sequence[Wanted],
    *,
    seed: int,
    max_tokens: int,
    on_bad: OnBad | None = None,
    cache_dir: str | Path | None = None,
) -> Manifest:
    """Draw all wanted prompts and write `prompts.jsonl` and `manifest.json` into `out`.

    Args:
        wanted: sources with their counts.
        seed: seed of the run; it decides which prompts are drawn, not the seeds of their answers.
        max_tokens: longer prompts (by `estimate_tokens`) are skipped and counted.
        on_bad: "error" or "skip" for unusable and repeated records of files and data sets; None means "skip" for data
            sets of the Hub, which nobody here can correct, and "error" for everything else.
        cache_dir: where wheels are kept.

    Raises:
        PromptError: a source cannot be read, a record is unusable, or a source has too few usable prompts.
    """
    if not any(want.train or want.eval for want in wanted):
        raise PromptError("no prompts are asked for: give at least one source a count under scales.<scale>.prompts")
    gate = Gate(max_tokens)
    kept: dict[str, list[Prompt]] = {want.name: [] for want in wanted}
    skipped: dict[str, Counter[str]] = {want.name: Counter() for want in wanted}
    for split in ("eval", "train"):
        gate.open(split, chain.from_iterable(kept.values()))
        for want in wanted:
            count = want.eval if split == "eval" else want.train
            if count:
                policy = on_bad or ("skip" if want.source.kind == "hub" else "error")
                stream = open_source(want.name, want.source, split, seed, policy, skipped[want.name], cache_dir)
                kept[want.name] += _take(stream, count, want, split, gate, policy, skipped[want.name])
    prompts = sorted(chain.from_iterable(kept.values()), key=lambda prompt: (prompt.split, prompt.id))
    entries = tuple(
        describe(kept[w.name], name=w.name, domain=w.source.domain, kind=w.source.kind, revision=_revision(w.source),
                 licence=w.source.licence, skipped=skipped[w.name])
        for w in wanted
    )  # fmt: skip
    parameters = {"max_tokens": max_tokens, "eval_threshold": EVAL_THRESHOLD, "same_threshold": SAME_THRESHOLD}
    manifest = Manifest(entries, prompts_digest(prompts), seed, parameters=parameters)
    out = Path(out)
    (out / MANIFEST_FILE).unlink(missing_ok=True)  # the old one must not vouch for new prompts
    write_prompts(out / PROMPTS_FILE, prompts)
    write_manifest(out / MANIFEST_FILE, manifest)
    return manifest


def load_prepared(folder: str | Path, split: str | None = None) -> list[Prompt]:
    """The prompts of a prepared folder, checked against its manifest.

    Raises:
        PromptError: the manifest is missing, or the prompts are not those that it describes.
    """
    folder = Path(folder)
    if split is not None and split not in SPLITS:
        raise PromptError(f"split is {split!r}, expected one of {SPLITS} or None for both")
    if not (folder / MANIFEST_FILE).is_file():
        raise PromptError(f"{folder} has no {MANIFEST_FILE}: preparation did not finish; run it again")
    prompts = read_prompts(folder / PROMPTS_FILE)
    if prompts_digest(prompts) != read_manifest(folder / MANIFEST_FILE).digest:
        raise PromptError(f"{folder / PROMPTS_FILE} is not what its manifest describes; prepare the prompts again")
    return [prompt for prompt in prompts if split in (None, prompt.split)]


def open_source(
    name: str,
    source: SourceConfig,
    split: str,
    seed: int,
    on_bad: OnBad,
    skipped: Counter[str],
    cache_dir: str | Path | None = None,
) -> Iterator[Prompt]:
    """The stream of prompts of one configured source for one split."""
    common = {"domain": source.domain, "source": name, "split": split, "licence": source.licence}
    records = {"field": source.field, "on_bad": on_bad, "skipped": skipped}
    if source.kind == "builtin":
        if source.name not in GENERATORS:
            raise PromptError(f"source {name}: no generator {source.name!r}; there are {', '.join(GENERATORS)}")
        stream = GENERATORS[source.name](split, seed)
        return (replace(prompt, source=name, domain=source.domain) for prompt in stream)
    if source.kind == "wheel":
        return read_humaneval(source, seed=seed, cache_dir=cache_dir, **common)
    if source.kind == "jsonl":
        if source.sha256 and Path(source.name).is_file() and file_digest(source.name) != source.sha256:
            raise PromptError(
                f"source {name}: {source.name} has SHA-256 {file_digest(source.name)}, expected "
                f"{source.sha256}; restore the "
                "file, or correct sha256 if the change is intended"
            )
        return read_jsonl(source.name, **common, **records)
    return stream_hub(
        source.name,
        revision=source.revision,
        subset=source.subset,
        hub_split=source.split or "train",
        seed=seed,
        **common,
        **records,
    )


class Gate:
    """Says which prompts may not pass: too long, known already, or too close to an evaluation prompt."""

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens
        self.known: dict[str, str] = {}  # id -> split
        self.evaluation = NearIndex(Counter(), EVAL_THRESHOLD)
        self.split = ""

    def open(self, split: str, earlier: Iterable[Prompt]) -> None:
        """Begin a split; `earlier` are the prompts of the split before, from which training keeps its distance."""
        self.split = split
        items = [shingles(prompt.text, mask_numbers=True) for prompt in earlier]
        self.evaluation = NearIndex(document_counts(items), EVAL_THRESHOLD)
        for item in items:
            self.evaluation.add(item)

    def refusal(self, prompt: Prompt, same: NearIndex | None) -> str | None:
        """Why the prompt may not pass, or None; a prompt that passes is remembered."""
        if estimate_tokens(prompt.text) > self.max_tokens:
            return "too long"
        if prompt.id in self.known:
            return "repeated" if self.known[prompt.id] == self.split else "used for evaluation"
        if self.evaluation.find(shingles(prompt.text, mask_numbers=True)):
            return "near-duplicate of an evaluation prompt"
        if same is not None:
            item = shingles(prompt.text)
            if same.find(item):
                return "near-duplicate inside the source"
            same.add(item)
        self.known[prompt.id] = self.split
        return None


def _take(
    stream: Iterator[Prompt], count: int, want: Wanted, split: str, gate: Gate, on_bad: OnBad, skipped: Counter[str]
) -> list[Prompt]:
    """The first `count` prompts of a stream that the gate lets pass."""
    builtin = want.source.kind == "builtin"
    same = None
    if builtin:  # templates repeat themselves; records of other data sets are only compared by id
        first = list(islice(stream, min(LOOK_AHEAD, 4 * count)))
        same = NearIndex(document_counts(shingles(prompt.text) for prompt in first), SAME_THRESHOLD)
        stream = chain(first, stream)
    taken: list[Prompt] = []
    refused = 0
    for prompt in stream:
        reason = gate.refusal(prompt, same)
        if reason is None:
            taken.append(prompt)
            refused = 0
            if len(taken) == count:
                return taken
            continue
        if reason == "repeated" and on_bad == "error" and not builtin:
            raise PromptError(
                f"source {want.name}: the prompt with id {prompt.id} occurs twice; remove one, or set on_bad: skip"
            )
        skipped[reason] += 1
        refused += 1
        if builtin and refused > PATIENCE:
            break
    reasons = ", ".join(f"{number} {reason}" for reason, number in skipped.items()) or "none was refused"
    raise PromptError(
        f"source {want.name}: {count} {split} prompts are asked for, it has {len(taken)} usable "
        f"ones ({reasons}); ask for fewer "
        "or add a source"
    )


def _revision(source: SourceConfig) -> str:
    if source.kind == "builtin":
        code_digest = source_digest("data/sources", "data/prompts.py")
        return f"code {code_digest[:16]}" + (f", library {library_digest()[:16]}" if source.name == "code" else "")
    if source.kind == "jsonl" or Path(source.name).is_dir():
        return f"sha256 {file_digest(source.name)}"
    return source.revision or ""


def summary(manifest: Manifest) -> str:
    """The manifest as a small text table."""
    rows = table(manifest)
    columns: Mapping[str, int] = {key: max(len(key), *(len(str(row[key])) for row in rows)) for key in rows[0]}
    lines = ["  ".join(key.ljust(width) for key, width in columns.items())]
    lines += ["  ".join(str(row[key]).ljust(width) for key, width in columns.items()) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m angelspec.data.prepare", description="Draw the prompts of a run.")
    parser.add_argument("--config", default="config/config.yaml", help="the configuration file")
    parser.add_argument("--scale", default=None, help="scale, if not the one the file names")
    parser.add_argument("--out", required=True, help="folder for prompts.jsonl and manifest.json")
    parser.add_argument("--on-bad", choices=("error", "skip"), default=None, help="what to do with unusable records")
    options = parser.parse_args(arguments)
    try:
        config = load_config(options.config, options.scale)
        manifest = prepare(
            options.out,
            wanted_by(config),
            seed=config.seed,
            max_tokens=config.budget.prompts.max_tokens,
            on_bad=options.on_bad,
        )
    except (PromptError, ConfigError) as error:
        print(f"prepare: {error}", file=sys.stderr)
        return 1
    print(summary(manifest))
    return 0


if __name__ == "__main__":
    sys.exit(main())
