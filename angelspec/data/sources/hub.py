"""Prompts from a data set of the Hugging Face Hub, at a pinned revision, streamed: only what is sampled is downloaded.

The sample is materialised by the caller as prompt records with content-addressed ids, so a run never depends on the Hub
being there again, and two machines can compare ids. A local folder of parquet or JSONL files works in the same way.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from angelspec.data.prompts import Prompt, PromptError
from angelspec.data.sources.jsonl import OnBad, from_records

SHUFFLE_BUFFER = 10_000  # rows held to draw the sample from; shards are shuffled as well
COMMIT = re.compile(r"[0-9a-f]{40}")


def stream_hub(
    name: str,
    *,
    revision: str | None,
    subset: str | None,
    hub_split: str,
    seed: int,
    domain: str,
    source: str,
    split: str,
    licence: str,
    field: str | None = None,
    on_bad: OnBad = "error",
    skipped: Counter[str] | None = None,
) -> Iterator[Prompt]:
    """Prompts of a Hub data set in an order shuffled by the seed; take as many as are wanted.

    Args:
        name: repository id, or the path of a local folder with data files.
        revision: the 40-digit commit; None only for a local folder.
        subset: configuration name of the data set, if it has several.
        hub_split: the data set's own split, e.g. "train"; `split` says what the prompts are used for here.

    Raises:
        PromptError: an unpinned revision, a data set that cannot be reached or has no such split, unusable rows.
    """
    local = Path(name).is_dir()
    if not local and not COMMIT.fullmatch(revision or ""):
        raise PromptError(
            f"source {source}: revision of {name} is {revision!r}, expected the 40 hexadecimal "
            "digits of a commit; copy it "
            "from 'Files and versions' on the data set's page"
        )
    rows = _stream(
        name, revision=None if local else revision, subset=subset, hub_split=hub_split, source=source, seed=seed
    )
    yield from from_records(
        rows, domain=domain, source=source, split=split, licence=licence, field=field, on_bad=on_bad, skipped=skipped
    )


def _stream(
    name: str, *, revision: str | None, subset: str | None, hub_split: str, source: str, seed: int
) -> Iterator[tuple[str, Any]]:
    from datasets import load_dataset  # slow to import, and not needed by the built-in sources

    try:
        rows = load_dataset(name, subset, split=hub_split, revision=revision, streaming=True)
        rows = rows.shuffle(seed=seed, buffer_size=SHUFFLE_BUFFER)
        for number, row in enumerate(rows):
            yield f"{name}, row {number} of the sample", row
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, PromptError):
            raise
        raise PromptError(
            f"source {source}: cannot read {name} (subset {subset}, split {hub_split}, revision {revision}): "
            f"{type(error).__name__}: {error}. Check the names, and the network unless the data set is local"
        ) from error
