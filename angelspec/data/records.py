"""Answers on disk: one parquet file per shard, and beside it what the target computed while it read and wrote them.

    answers-00000.parquet          one row per answer; the run key is in the file's metadata
    features-00000.safetensors     features [M, T, H] and final_hidden [M, H] bfloat16, lse [M] float32,
                                   offsets [docs + 1] int64

Document i of the feature file is row i of the parquet file, and owns the rows offsets[i] to offsets[i+1]. Row t of a
document is the target's state after reading token t of prompt + response; the last token was never fed, so a document
of n tokens has n - 1 rows. The feature file is written first and the parquet file last, each under a temporary name and
then renamed: a parquet file that exists belongs to a whole shard.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from angelspec.data.masks import mask_answer
from angelspec.data.packing import Document
from angelspec.io import atomic_path

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("domain", pa.string()),
        ("source", pa.string()),
        ("turn", pa.int32()),
        ("messages", pa.string()),
        ("prompt_ids", pa.list_(pa.int32())),
        ("response_ids", pa.list_(pa.int32())),
        ("finish_reason", pa.string()),
        ("seed", pa.int64()),
    ]
)
RUN_KEY = "run_key"
SHARD_NAME = re.compile(r"answers-(\d{5})\.parquet")


class ShardError(ValueError):
    """A shard that is broken, missing, or was made by another run. The message names the file and the way out."""


@dataclass(frozen=True)
class AnswerRecord:
    """One answer of the target. `messages` ends with it; `prompt_ids` is the whole conversation before it, rendered."""

    id: str
    domain: str
    source: str
    turn: int
    messages: tuple[dict[str, str], ...]
    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    finish_reason: str
    seed: int

    @property
    def length(self) -> int:
        """Tokens of prompt and answer together."""
        return len(self.prompt_ids) + len(self.response_ids)


@dataclass(frozen=True)
class TargetRows:
    """What the target computed for one document of n tokens: features [n-1, T, H], final_hidden [n-1, H], lse [n-1]."""

    features: Tensor
    final_hidden: Tensor
    lse: Tensor


def answers_path(folder: str | Path, index: int) -> Path:
    return Path(folder) / f"answers-{index:05d}.parquet"


def features_path(folder: str | Path, index: int) -> Path:
    return Path(folder) / f"features-{index:05d}.safetensors"


def list_shards(folder: str | Path) -> list[int]:
    """Indices of the whole shards of a folder, in order. Raises ShardError when there is none."""
    names = [SHARD_NAME.fullmatch(path.name) for path in Path(folder).glob("answers-*.parquet")]
    indices = sorted(int(match[1]) for match in names if match)
    if not indices:
        raise ShardError(
            f"{folder} holds no answers (answers-00000.parquet, ...). `snakemake --cores all answers` makes them, or "
            "`python -m angelspec.data.regenerate` for prompts of your own."
        )
    return indices


def write_shard(
    folder: str | Path,
    index: int,
    records: Sequence[AnswerRecord],
    rows: Sequence[TargetRows] | None,
    run_key: Mapping[str, Any],
) -> None:
    """Write one shard, features first. `rows` None writes the answers alone.

    Raises ShardError, before anything is written, when the rows do not belong to the records.
    """
    if rows is not None:
        if len(rows) != len(records):
            raise ShardError(f"Shard {index}: {len(records)} answers but target rows of {len(rows)} documents.")
        for record, row in zip(records, rows, strict=True):
            _check_rows(index, record, row)
        offsets = torch.tensor([0, *(len(row.lse) for row in rows)]).cumsum(0)
        tensors = {
            "features": torch.cat([row.features for row in rows]).to(torch.bfloat16).contiguous(),
            "final_hidden": torch.cat([row.final_hidden for row in rows]).to(torch.bfloat16).contiguous(),
            "lse": torch.cat([row.lse for row in rows]).float().contiguous(),
            "offsets": offsets,
        }
        with atomic_path(features_path(folder, index)) as temporary:
            save_file(tensors, temporary, metadata=_metadata(run_key))
    columns = [[_cell(record, name) for record in records] for name in SCHEMA.names]
    table = pa.Table.from_arrays(
        [pa.array(column, type=field.type) for column, field in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA.with_metadata(_metadata(run_key)),
    )
    with atomic_path(answers_path(folder, index)) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def read_run_key(folder: str | Path, index: int) -> dict[str, Any]:
    """The run key of a shard, read from the parquet footer alone."""
    path = answers_path(folder, index)
    try:
        metadata = pq.read_schema(path).metadata or {}
        return json.loads(metadata[RUN_KEY.encode()])
    except (pa.ArrowInvalid, OSError, KeyError, ValueError) as error:
        raise ShardError(f"{path} is no whole shard of answers ({error}). Delete it and run again.") from error


def read_records(folder: str | Path, index: int) -> list[AnswerRecord]:
    """All answers of one shard, in the order of the feature file."""
    path = answers_path(folder, index)
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise ShardError(f"{path} cannot be read ({error}). Delete it and run again.") from error
    if table.schema.names != SCHEMA.names:
        raise ShardError(f"{path} has columns {table.schema.names}; expected {SCHEMA.names}. Delete it and run again.")
    return [_record(row) for row in table.to_pylist()]


class FeatureShard:
    """The feature file of one shard, mapped into memory: a document is copied only when it is asked for."""

    def __init__(self, folder: str | Path, index: int) -> None:
        self.path = features_path(folder, index)
        try:
            self._file = safe_open(self.path, framework="pt")
            self.run_key = json.loads((self._file.metadata() or {})[RUN_KEY])
            self.offsets = self._file.get_tensor("offsets").tolist()
            rows = self._file.get_slice("features").get_shape()[0]
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            raise ShardError(
                f"{self.path} is missing or broken ({error}). Delete {answers_path(folder, index).name} beside it "
                "and run again: both are made anew."
            ) from error
        if self.offsets[-1] != rows:
            raise ShardError(f"{self.path} has {rows} rows but its offsets end at {self.offsets[-1]}; delete it.")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def layer_ids(self) -> tuple[int, ...]:
        """Target layers whose outputs were captured."""
        return tuple(self.run_key["layer_ids"])

    def rows(self, document: int) -> TargetRows:
        """Target rows of one document, read from disk."""
        start, end = self.offsets[document], self.offsets[document + 1]
        return TargetRows(*(self._file.get_slice(name)[start:end] for name in ("features", "final_hidden", "lse")))


def open_shard(
    folder: str | Path, index: int, *, features: bool = True
) -> tuple[list[AnswerRecord], dict[str, Any], FeatureShard | None]:
    """Answers, run key and feature file of one shard. Raises ShardError when it is broken or its two files differ."""
    key = read_run_key(folder, index)
    records = read_records(folder, index)
    if not features:
        return records, key, None
    shard = FeatureShard(folder, index)
    expected = [record.length - 1 for record in records]
    found = [end - start for start, end in pairwise(shard.offsets)]
    if found != expected or shard.run_key != key:
        raise ShardError(f"{shard.path} does not belong to the answers beside it. Delete both and run again.")
    return records, key, shard


class AnswerStore:
    """All shards of a folder: the records in memory, the features on disk.

    Raises ShardError for a folder without shards, a broken shard, or shards of different runs.
    """

    def __init__(self, folder: str | Path, *, features: bool = True) -> None:
        self.folder = Path(folder)
        self.records: list[AnswerRecord] = []
        self.run_keys: list[dict[str, Any]] = []
        self._places: list[tuple[FeatureShard | None, int]] = []
        for index in list_shards(folder):
            records, key, shard = open_shard(folder, index, features=features)
            self.run_keys.append(key)
            self.records += records
            self._places += [(shard, document) for document in range(len(records))]
        modes = {json.dumps({**key, "part": None}, sort_keys=True) for key in self.run_keys}
        if len(modes) > 1:
            raise ShardError(f"{folder} mixes answers of {len(modes)} runs (target, sampling or template differ).")

    def __len__(self) -> int:
        return len(self.records)

    def rows(self, place: int) -> TargetRows:
        """Target rows of record `place`."""
        shard, document = self._places[place]
        if shard is None:
            raise ShardError(
                f"The answers of {self.folder} were opened without their features; open them with features."
            )
        return shard.rows(document)

    def document(self, place: int) -> Document:
        """Record `place` with mask and target rows, ready for packing."""
        masked, rows = mask_answer(self.records[place]), self.rows(place)
        tokens, supervised = torch.tensor(masked.ids), torch.tensor(masked.supervised)
        return Document(tokens, supervised, rows.features, rows.final_hidden, rows.lse)

    def documents(self) -> Iterator[Document]:
        return (self.document(place) for place in range(len(self)))


def _check_rows(index: int, record: AnswerRecord, row: TargetRows) -> None:
    expected = record.length - 1
    found = {len(row.features), len(row.final_hidden), len(row.lse)}
    if found != {expected}:
        raise ShardError(
            f"Shard {index}: answer {record.id} turn {record.turn} has {record.length} tokens and needs "
            f"{expected} target rows; it has {sorted(found)}."
        )


def _metadata(run_key: Mapping[str, Any]) -> dict[str, str]:
    return {RUN_KEY: json.dumps(run_key, sort_keys=True)}


def _cell(record: AnswerRecord, name: str) -> Any:
    value = getattr(record, name)
    return json.dumps(value, ensure_ascii=False) if name == "messages" else value


def _record(row: dict[str, Any]) -> AnswerRecord:
    ids = {name: tuple(row[name]) for name in ("prompt_ids", "response_ids")}
    return AnswerRecord(**{**row, **ids, "messages": tuple(json.loads(row["messages"]))})
