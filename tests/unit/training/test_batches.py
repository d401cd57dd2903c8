"""Data order, packing and anchors: repeatable from a seed and a position, on one process or many."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
import torch
from torch import Tensor

from angelspec.data.packing import pack
from angelspec.training.batches import BatchConfig, Batches, NothingToTrainOn, keyed_generator
from angelspec.training.layout import candidate_anchors
from angelspec.training.types import PackedBatch
from tests.unit.training.tiny import TinyStore

CONFIG = BatchConfig(sequences=3, max_length=64, anchors=5)


def make(config: BatchConfig = CONFIG, seed: int = 5, store: TinyStore | None = None) -> Batches:
    store = store or TinyStore(documents=17)
    return Batches(store, store.lengths, config, seed)


def same(left: tuple[PackedBatch, Tensor], right: tuple[PackedBatch, Tensor]) -> bool:
    columns = [f.name for f in dataclasses.fields(PackedBatch)]
    return torch.equal(left[1], right[1]) and all(
        torch.equal(getattr(left[0], c), getattr(right[0], c)) for c in columns
    )


def test_a_position_is_all_that_resuming_needs() -> None:
    batches = make()
    for _ in range(4):
        batches.next()
    resumed = make()
    resumed.position = dataclasses.replace(batches.position)
    for _ in range(6):  # well into the next epochs
        assert same(batches.next(), resumed.next())


def test_the_global_generator_is_neither_read_nor_moved() -> None:
    batches, again = make(), make()
    torch.manual_seed(1)
    before, first = torch.get_rng_state(), batches.next()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert same(again.next(), first)
    assert not same(make(seed=6).next(), first)


def test_every_document_comes_once_an_epoch_and_in_another_order_in_the_next() -> None:
    batches = make()
    epochs: dict[int, list[int]] = {0: [], 1: []}
    while batches.position.epoch < 2:
        places, (epoch, _) = batches._advance()
        epochs[epoch] += places
    assert all(Counter(places) == Counter(range(17)) for places in epochs.values())
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize("world", [2, 3])
def test_processes_share_exactly_the_batch_of_one(world: int) -> None:
    alone, shares = make(), [make() for _ in range(world)]
    for _ in range(4):
        batch, anchors = alone.next()
        parts = [share.next(rank, world) for rank, share in enumerate(shares)]
        assert sum(len(part) for part, _ in parts) == len(batch)
        chosen = sorted((part.tokens[a].item(), part.positions[a].item()) for part, own in parts for a in own)
        assert chosen == sorted((batch.tokens[a].item(), batch.positions[a].item()) for a in anchors)


def test_sequences_keep_the_limit_and_documents_stay_apart() -> None:
    batches = make()
    for _ in range(5):
        batch, anchors = batches.next()
        assert len(batch) <= CONFIG.sequences * CONFIG.max_length
        starts = batch.positions == 0
        assert torch.equal(starts.cumsum(0) - 1, batch.documents)
        assert len(anchors) <= CONFIG.sequences * CONFIG.anchors and (anchors[1:] > anchors[:-1]).all()
        assert batch.supervised[anchors + 1].all()
        assert torch.equal(batch.documents[anchors], batch.documents[anchors + 1])


def test_whole_blocks_when_asked() -> None:
    batches = make(dataclasses.replace(CONFIG, labels=6))
    batch, anchors = batches.next()
    assert torch.equal(batch.documents[anchors], batch.documents[anchors + 6])


def test_anchors_are_uniform_over_the_supervised_positions() -> None:
    store = TinyStore(documents=1)
    store.lengths = [(4, 10)]  # ten candidates: the last prompt token, and answer tokens but the last
    batches = make(BatchConfig(sequences=1, max_length=64, anchors=4), store=store)
    counts = torch.zeros(14)
    for _ in range(500):
        counts[batches.next()[1]] += 1
    assert counts[:3].sum() == 0 and counts[13] == 0
    assert (counts[3:13] - 200).abs().max() < 50  # 4 of 10, 500 times: standard deviation 11


def test_long_documents_are_cut_and_hopeless_ones_dropped_with_a_count() -> None:
    store = TinyStore(documents=3)
    store.lengths = [(5, 500), (70, 20), (1, 1)]  # cut; prompt alone too long; no anchor with a context
    batches = make(store=store)
    assert batches.dropped == 2
    assert len(batches.next()[0]) == CONFIG.sequences * CONFIG.max_length


@pytest.mark.parametrize("lengths", [(1, 1), (1, 2), (2, 1), (5, 0), (5, 3), (3, 200)])
@pytest.mark.parametrize("labels", [1, 3])
def test_a_document_is_dropped_exactly_when_it_has_no_anchor(lengths: tuple[int, int], labels: int) -> None:
    store = TinyStore(documents=1)
    store.lengths = [lengths]
    batch = pack([store.document(0).truncate(CONFIG.max_length)])
    if len(candidate_anchors(batch, labels)):
        assert make(dataclasses.replace(CONFIG, labels=labels), store=store).dropped == 0
    else:
        with pytest.raises(NothingToTrainOn):
            make(dataclasses.replace(CONFIG, labels=labels), store=store)


def test_nothing_to_train_on_is_said() -> None:
    store = TinyStore(documents=2)
    store.lengths = [(1, 1), (5, 0)]
    with pytest.raises(NothingToTrainOn, match="None of 2 documents"):
        make(store=store)
    with pytest.raises(NothingToTrainOn):
        Batches(store, [], CONFIG, 0)


def test_more_processes_than_sequences_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be shared by 4 processes"):
        make().next(0, 4)


def test_keys_give_different_streams() -> None:
    draws = {
        tuple(torch.rand(2, generator=keyed_generator(*key)).tolist()) for key in [(1, 2), (2, 1), (1, 2, 0), (12,)]
    }
    assert len(draws) == 4
