"""Answer shards: what is written comes back, and what is broken or foreign is named."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from angelspec.data.packing import pack
from angelspec.data.records import (
    AnswerRecord,
    AnswerStore,
    FeatureShard,
    ShardError,
    TargetRows,
    answers_path,
    features_path,
    list_shards,
    read_records,
    read_run_key,
    write_shard,
)

KEY = {"layer_ids": [1, 2], "target": {"name": "toy"}, "part": "aa", "temperature": 0.7}


def make_record(number: int, prompt: int = 3, response: int = 4) -> AnswerRecord:
    messages = ({"role": "user", "content": f"What is {number}? ü"}, {"role": "assistant", "content": "\nA number.\n"})
    start = 10 * number
    return AnswerRecord(
        id=f"id{number}",
        domain="math",
        source="toy",
        turn=number % 2,
        messages=messages,
        prompt_ids=tuple(range(start, start + prompt)),
        response_ids=tuple(range(start + prompt, start + prompt + response)),
        finish_reason="stop",
        seed=2**62 + number,
    )


def make_rows(record: AnswerRecord, seed: int = 0) -> TargetRows:
    generator = torch.Generator().manual_seed(seed)
    n = record.length - 1
    features = torch.randn(n, 2, 8, generator=generator).bfloat16()
    return TargetRows(features, torch.randn(n, 8, generator=generator).bfloat16(), torch.randn(n, generator=generator))


RECORDS = [make_record(1), make_record(2, response=1), make_record(3, prompt=1, response=9)]
ROWS = [make_rows(record, seed) for seed, record in enumerate(RECORDS)]


@pytest.fixture
def folder(tmp_path):
    write_shard(tmp_path, 0, RECORDS[:2], ROWS[:2], KEY)
    write_shard(tmp_path, 3, RECORDS[2:], ROWS[2:], {**KEY, "part": "bb"})
    return tmp_path


def test_records_and_run_key_come_back(folder):
    assert list_shards(folder) == [0, 3]
    assert read_records(folder, 0) == RECORDS[:2]
    assert read_run_key(folder, 3) == {**KEY, "part": "bb"}
    assert FeatureShard(folder, 0).layer_ids == (1, 2)


def test_target_rows_come_back_to_their_records(folder):
    store = AnswerStore(folder)
    assert store.records == RECORDS
    for place, expected in enumerate(ROWS):
        found = store.rows(place)
        assert torch.equal(found.features, expected.features)
        assert torch.equal(found.final_hidden, expected.final_hidden)
        assert torch.equal(found.lse, expected.lse)


def test_documents_pack_with_the_answer_supervised(folder):
    batch = pack(list(AnswerStore(folder).documents()))
    assert batch.tokens.tolist() == [token for r in RECORDS for token in (*r.prompt_ids, *r.response_ids)]
    expected = [on for r in RECORDS for on in [False] * len(r.prompt_ids) + [True] * len(r.response_ids)]
    assert batch.supervised.tolist() == expected
    assert batch.features.dtype == torch.bfloat16


def test_nothing_but_whole_files_is_left_behind(folder):
    names = sorted(path.name for path in folder.iterdir())
    expected = [path.name for i in (0, 3) for path in (answers_path(folder, i), features_path(folder, i))]
    assert names == sorted(expected)


def test_rows_that_do_not_fit_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ShardError, match=r"needs 6 target rows; it has .3."):
        write_shard(tmp_path, 0, RECORDS[:1], [make_rows(make_record(1, prompt=1, response=3))], KEY)
    with pytest.raises(ShardError, match="1 answers but target rows of 2"):
        write_shard(tmp_path, 0, RECORDS[:1], ROWS[:2], KEY)
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_no_parquet_file(tmp_path, monkeypatch):
    def full_disk(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("angelspec.data.records.pq.write_table", full_disk)
    with pytest.raises(OSError, match="No space"):
        write_shard(tmp_path, 0, RECORDS[:1], ROWS[:1], KEY)
    assert [path.name for path in tmp_path.iterdir()] == [features_path(tmp_path, 0).name]
    with pytest.raises(ShardError, match="holds no answers"):
        list_shards(tmp_path)


def test_answers_without_features(tmp_path):
    write_shard(tmp_path, 0, RECORDS, None, KEY)
    assert AnswerStore(tmp_path, features=False).records == RECORDS
    with pytest.raises(ShardError, match="missing or broken"):
        AnswerStore(tmp_path)


@pytest.mark.parametrize("keep", [0, 1, 0.5, 0.99])
def test_cut_feature_file_is_named(folder, keep):
    path = features_path(folder, 0)
    data = path.read_bytes()
    path.write_bytes(data[: int(keep if keep in (0, 1) else keep * len(data))])
    with pytest.raises(ShardError, match=r"features-00000.safetensors is missing or broken"):
        AnswerStore(folder)


def test_cut_parquet_file_is_named(folder):
    path = answers_path(folder, 3)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ShardError, match=r"answers-00003.parquet .*Delete it"):
        AnswerStore(folder)
    with pytest.raises(ShardError, match=r"answers-00003.parquet .*Delete it"):
        read_run_key(folder, 3)


def test_features_of_another_shard_are_refused(folder):
    features_path(folder, 3).replace(features_path(folder, 0))
    with pytest.raises(ShardError, match="does not belong to the answers beside it"):
        AnswerStore(folder)


def test_answers_of_different_runs_do_not_mix(folder):
    write_shard(folder, 4, RECORDS[:1], ROWS[:1], {**KEY, "temperature": 0.0})
    with pytest.raises(ShardError, match="mixes answers of 2 runs"):
        AnswerStore(folder)


def test_empty_folder_says_what_makes_answers(tmp_path):
    with pytest.raises(ShardError, match="snakemake"):
        list_shards(tmp_path)
    with pytest.raises(ShardError, match="snakemake"):
        list_shards(tmp_path / "absent")


def test_foreign_parquet_file_is_refused(folder):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"text": ["x"]}), answers_path(folder, 0))
    with pytest.raises(ShardError, match="columns"):
        read_records(folder, 0)
    with pytest.raises(ShardError, match="no whole shard"):
        read_run_key(folder, 0)


def test_records_are_values():
    assert dataclasses.replace(RECORDS[0]) == RECORDS[0]
    assert RECORDS[0].length == 7
