"""The manifest: what every prompt source is, at which revision and licence, how much came from it, and its digest."""

from __future__ import annotations

import hashlib
import json
import platform
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from angelspec.data.prompts import Prompt
from angelspec.io import read_json, write_json

FORMAT = 1


@dataclass(frozen=True)
class SourceEntry:
    """One source as it was used.

    Attributes:
        revision: commit, wheel version, SHA-256 of a file, or the digest of the generator's code.
        counts: prompts per split.
        kinds: different problem kinds, topics or tasks per split.
        skipped: records that were left out, by reason.
        digest: SHA-256 over ids, splits and texts (see `prompts_digest`).
    """

    name: str
    domain: str
    kind: str
    revision: str
    licence: str
    counts: dict[str, int]
    kinds: dict[str, int]
    skipped: dict[str, int]
    digest: str


@dataclass(frozen=True)
class Manifest:
    """All sources of a prompt file, and the digest of the whole."""

    sources: tuple[SourceEntry, ...]
    digest: str
    seed: int
    python: str = field(default_factory=lambda: ".".join(platform.python_version_tuple()[:2]))
    parameters: dict[str, Any] = field(default_factory=dict)
    format: int = FORMAT


def prompts_digest(prompts: Iterable[Prompt]) -> str:
    """SHA-256 over ids, splits and messages in order of id, so that the order of the file does not matter."""
    digest = hashlib.sha256()
    for prompt in sorted(prompts, key=lambda prompt: prompt.id):
        record = [prompt.id, prompt.split, prompt.messages]
        digest.update(json.dumps(record, ensure_ascii=False, sort_keys=True).encode() + b"\n")
    return digest.hexdigest()


def describe(
    prompts: list[Prompt], *, name: str, domain: str, kind: str, revision: str, licence: str, skipped: Counter[str]
) -> SourceEntry:
    """The entry of one source from the prompts that were kept of it."""
    counts = Counter(prompt.split for prompt in prompts)
    kinds = {split: len({prompt.kind for prompt in prompts if prompt.split == split}) for split in counts}
    return SourceEntry(
        name,
        domain,
        kind,
        revision,
        licence,
        dict(sorted(counts.items())),
        dict(sorted(kinds.items())),
        dict(sorted(skipped.items())),
        prompts_digest(prompts),
    )


def write_manifest(path: str | Path, manifest: Manifest) -> None:
    """Write the manifest as JSON, atomically."""
    write_json(path, asdict(manifest))


def read_manifest(path: str | Path) -> Manifest:
    """Read a manifest.

    Raises:
        ValueError: the file is no manifest of this format.
    """
    raw = read_json(path)
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise ValueError(f"{path} is no prompt manifest of format {FORMAT}; prepare the prompts again")
    return Manifest(**{**raw, "sources": tuple(SourceEntry(**entry) for entry in raw["sources"])})


def table(manifest: Manifest) -> list[dict[str, str | int]]:
    """One row per source, for printing."""
    return [
        {
            "source": entry.name, "domain": entry.domain, "train": entry.counts.get("train", 0),
            "eval": entry.counts.get("eval", 0), "skipped": sum(entry.skipped.values()), "licence": entry.licence,
            "revision": entry.revision[:12], "digest": entry.digest[:12],
        }
        for entry in manifest.sources
    ]  # fmt: skip
