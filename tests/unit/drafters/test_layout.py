"""BlockLayout and ContextGrid against loops that read the definitions aloud."""

from __future__ import annotations

import pytest
import torch

from angelspec.training.layout import BlockLayout, ContextGrid, candidate_anchors, sample_anchors, slot_positions
from angelspec.training.types import PackedBatch


@pytest.fixture
def anchors(batch: PackedBatch) -> torch.Tensor:
    return candidate_anchors(batch)


def test_table_of_one_block(batch: PackedBatch) -> None:
    """The picture in the docstring, for the anchor at row 6 of the first document."""
    layout = BlockLayout.build(batch, torch.tensor([6]), 4)
    assert layout.positions.tolist() == [[6, 7, 8, 9]]
    assert layout.labels.tolist() == [batch.tokens[7:10].tolist()]
    assert layout.teacher_rows.tolist() == [[6, 7, 8]]
    assert layout.predecessors(batch).tolist() == [batch.tokens[6:9].tolist()]
    assert layout.valid.all()


def test_slots_against_a_loop(batch: PackedBatch, anchors: torch.Tensor) -> None:
    size = 5
    layout = BlockLayout.build(batch, anchors, size)
    for i, a in enumerate(anchors.tolist()):
        good = True
        for k in range(1, size):
            row = a + k
            good = good and row < len(batch) and bool(batch.documents[row] == batch.documents[a])
            good = good and bool(batch.supervised[row])
            assert bool(layout.valid[i, k - 1]) == good
            assert int(layout.positions[i, k]) == int(batch.positions[a]) + k
            if good:
                assert int(layout.labels[i, k - 1]) == int(batch.tokens[row])
                assert int(layout.teacher_rows[i, k - 1]) == row - 1
    assert int(layout.teacher_rows.max()) < len(batch)


def test_a_chain_ends_at_the_first_unsupervised_token(batch: PackedBatch) -> None:
    supervised = batch.supervised.clone()
    supervised[8] = False  # another speaker's token inside the block of anchor 6
    layout = BlockLayout.build(PackedBatch(**{**vars(batch), "supervised": supervised}), torch.tensor([6]), 5)
    assert layout.valid.tolist() == [[True, False, False, False]]


def test_the_teacher_is_the_row_whose_law_is_the_label(batch: PackedBatch, tiny_llama) -> None:
    """Row t of final_hidden gives the law of token t+1: the stored log-sum-exp is that of its logits."""
    layout = BlockLayout.build(batch, torch.tensor([6]), 4)
    logits = tiny_llama.lm_head(batch.final_hidden[layout.teacher_rows])
    torch.testing.assert_close(logits.logsumexp(-1), batch.lse[layout.teacher_rows])


@pytest.mark.parametrize("proposals", [1, 3])
def test_candidates_against_a_loop(batch: PackedBatch, proposals: int) -> None:
    expected = [
        a
        for a in range(len(batch))
        if batch.positions[a] > 0
        and a + proposals < len(batch)
        and all(
            batch.supervised[a + k] and batch.documents[a + k] == batch.documents[a] for k in range(1, proposals + 1)
        )
    ]
    assert candidate_anchors(batch, proposals).tolist() == expected
    assert 3 in expected, "the last prompt token is the first anchor of a request"


def test_sampled_anchors(anchors: torch.Tensor) -> None:
    draw = [sample_anchors(anchors, 7, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)]
    assert torch.equal(draw[0], draw[1]) and not torch.equal(draw[0], draw[2])
    assert len(draw[0]) == 7 and bool((draw[0].diff() > 0).all()) and set(draw[0].tolist()) <= set(anchors.tolist())
    assert torch.equal(sample_anchors(anchors, 10_000, torch.Generator().manual_seed(0)), anchors)


def test_every_anchor_is_sampled_equally_often() -> None:
    generator, candidates = torch.Generator().manual_seed(0), torch.arange(10, 20)
    counts = torch.zeros(30)
    for _ in range(2000):
        counts[sample_anchors(candidates, 3, generator)] += 1
    assert counts.sum() == 6000 and (counts[10:20] - 600).abs().max() < 100  # five standard deviations of 20


def test_grid_and_mask_against_a_loop(batch: PackedBatch) -> None:
    """For every query: context rows of its document before the anchor, own keys of its block, nothing else."""
    anchors = torch.tensor([5, 6, 20, 36, 40, 41, 60])  # the second document (rows 23..31) has none
    queries, keys = 3, 2
    grid = ContextGrid.build(batch, anchors)
    mask = grid.mask(queries, keys)[:, 0]
    documents, blocks, width = grid.visible.shape
    assert documents == 2 and mask.shape == (documents, blocks * queries, width + blocks * keys)
    for i, a in enumerate(anchors.tolist()):
        document, block = divmod(int(grid.cells[i]), blocks)
        for query in range(queries):
            line = mask[document, block * queries + query]
            seen = sorted(int(grid.rows[grid.padded[document, c]]) for c in range(width) if line[c])
            expected = [c for c in range(len(batch)) if c < a and batch.documents[c] == batch.documents[a]]
            assert seen == expected
            own = [c // keys for c in range(blocks * keys) if line[width + c]]
            assert own == [block] * keys


def test_nothing_is_computed_behind_the_last_anchor(batch: PackedBatch) -> None:
    grid = ContextGrid.build(batch, torch.tensor([5, 36]))
    assert grid.rows.tolist() == [*range(5), *range(32, 36)]


@pytest.mark.parametrize(
    ("anchors", "message"),
    [
        ([], "at least one"),
        ([5, 5], "increasing"),
        ([6, 5], "increasing"),
        ([5, 63], "63 rows"),
        ([0], "no context"),
        ([23], "no context"),
    ],
)
def test_bad_anchors(batch: PackedBatch, anchors: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BlockLayout.build(batch, torch.tensor(anchors, dtype=torch.int64), 4)


def test_verification_rows_continue_the_anchor() -> None:
    assert slot_positions(torch.tensor([4, 9]), 3).tolist() == [[4, 5, 6], [9, 10, 11]]
