"""BlockLayout: where a block begins, what each slot predicts, and what it may look at.

Training, drafting and verification all take these facts from here, because most failures of published drafters are an
off-by-one between the three. One picture says all of it (block size B = 4, anchor at position a):

    position           a-1      a       a+1     a+2     a+3
    token              x[a-1]   x[a]    x[a+1]  x[a+2]  x[a+3]
    block input        (context) anchor  MASK    MASK    MASK       slot 0 .. B-1
    label of the slot            -      x[a+1]  x[a+2]  x[a+3]     slot 0 predicts nothing
    teacher row                  -      a       a+1     a+2        the target's state that predicts the label
    predecessor                  -      x[a]    x[a+1]  x[a+2]     what a sequential head is conditioned on

* The anchor is the last committed token. The target has not read it yet, so its hidden state does not exist: context
  rows end at a-1. This holds in training too, where the row a does exist and must not be looked at.
* Slot k sits at position a+k and predicts the token of that position, x[a+k].
* Its teacher is the target's state after reading x[a+k-1]: row a+k-1. In verification it is row k-1 of the rows
  [anchor, draft 1, .., draft n]; row n gives the bonus token.

The same table holds for MTP: depth d = k-1 starts from row a-1, predicts x[a+1+d], and has the teacher row a+d.

Sources: DFlash (arXiv 2602.06036) for anchors and masks, AngelSpec (arXiv 2607.25852) for MTP and DFly.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from angelspec.training.types import PackedBatch


def slot_positions(anchors: Tensor, size: int) -> Tensor:
    """Positions [R, size] of the slots of blocks (or of the rows of a verification) whose anchors sit at [R]."""
    return anchors.unsqueeze(-1) + torch.arange(size, device=anchors.device)


@dataclass(frozen=True)
class BlockLayout:
    """A blocks of B slots in a packed batch. N = B-1 proposals each; index k-1 of the last dimension is slot k.

    anchors      [A]     row of each anchor, increasing
    positions    [A, B]  position of each slot inside the document of the anchor (may run past its end)
    labels       [A, N]  true token of each slot, in the target's vocabulary
    teacher_rows [A, N]  row of the batch whose next-token law is the slot's teacher; also the predecessor's row
    valid        [A, N]  the slot's label exists, is in the anchor's document, and was written by the target, and so are
                         all slots before it. Rows and labels of invalid slots are in range but mean nothing.
    """

    anchors: Tensor
    positions: Tensor
    labels: Tensor
    teacher_rows: Tensor
    valid: Tensor

    @classmethod
    def build(cls, batch: PackedBatch, anchors: Tensor, block_size: int) -> BlockLayout:
        """Lay out one block per anchor. Raises ValueError for anchors out of range or order, or without context."""
        _check_anchors(batch, anchors)
        rows = slot_positions(anchors, block_size)  # [A, B]
        exists = rows < len(batch)
        rows = rows.clamp(max=len(batch) - 1)
        inside = exists & (batch.documents[rows] == batch.documents[anchors].unsqueeze(1))
        valid = (inside & batch.supervised[rows])[:, 1:].cumprod(1).bool()
        return cls(
            anchors=anchors,
            positions=slot_positions(batch.positions[anchors], block_size),
            labels=batch.tokens[rows[:, 1:]],
            teacher_rows=rows[:, :-1],
            valid=valid,
        )

    def predecessors(self, batch: PackedBatch) -> Tensor:
        """Tokens [A, N] before each slot: the anchor, then the true tokens (teacher forcing)."""
        return batch.tokens[self.teacher_rows]


def candidate_anchors(batch: PackedBatch, proposals: int = 1) -> Tensor:
    """Rows that may be anchors: they have a context, and the next `proposals` tokens were written by the target.

    The last token of the prompt is one of them: it is the first anchor of every request. AngelSpec asks for a whole
    block (proposals = B-1). With 1, the ends of answers are trained on as well: their blocks have invalid slots.
    """
    eligible = batch.positions > 0
    for step in range(1, proposals + 1):
        follows = torch.zeros_like(eligible)
        follows[:-step] = (batch.documents[step:] == batch.documents[:-step]) & batch.supervised[step:]
        eligible &= follows
    return eligible.nonzero().squeeze(1)


def sample_anchors(candidates: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """At most `count` of the candidate rows, uniform without replacement, in increasing order."""
    order = torch.randperm(len(candidates), generator=generator, device=generator.device)[:count]
    return candidates[order.to(candidates.device)].sort().values


@dataclass(frozen=True)
class ContextGrid:
    """The context rows that A anchors can see, arranged as documents x rows so that one batched attention does them
    all.

    Blocks of one document share its context: D documents of at most L rows, with at most P anchors each. Rows behind
    the last anchor of a document, and documents without an anchor, are left out, so nothing is computed for them.

    rows    [M]        rows of the batch that are context of some anchor (M = sum over documents of last anchor - start)
    padded  [D, L]     index into `rows`; padding points at 0 and is masked
    cells   [A]        place of each anchor in the flattened D x P grid
    visible [D, P, L]  True where the anchor in that cell sees the context row: same document and before the anchor
    """

    rows: Tensor
    padded: Tensor
    cells: Tensor
    visible: Tensor

    @classmethod
    def build(cls, batch: PackedBatch, anchors: Tensor) -> ContextGrid:
        """Arrange the context of `anchors` [A], increasing."""
        device = anchors.device
        names, document, counts = batch.documents[anchors].unique_consecutive(return_inverse=True, return_counts=True)
        starts = torch.searchsorted(batch.documents, names)  # [D] first row of each document
        first = counts.cumsum(0) - counts  # [D] index of each document's first anchor
        column = torch.arange(len(anchors), device=device) - first[document]
        lengths = anchors[first + counts - 1] - starts  # [D] rows before the last anchor
        offsets = lengths.cumsum(0) - lengths
        index = torch.arange(int(lengths.max()), device=device)
        real = index < lengths.unsqueeze(1)  # [D, L]
        cells = document * int(counts.max()) + column
        reach = torch.zeros(len(names) * int(counts.max()), dtype=torch.int64, device=device)
        reach[cells] = anchors - starts[document]  # context rows seen by each cell
        return cls(
            rows=(starts.unsqueeze(1) + index)[real],
            padded=torch.where(real, offsets.unsqueeze(1) + index, 0),
            cells=cells,
            visible=index < reach.view(len(names), -1, 1),
        )

    def mask(self, queries: int, keys: int) -> Tensor:
        """Attention mask, bool [D, 1, P*queries, L + P*keys], for blocks of `queries` rows with `keys` own keys each.

        Keys are the context rows followed by the own keys of every block of the document. A query sees the context
        before its anchor and all own keys of its block (bidirectional); blocks never see each other.
        """
        documents, blocks, _ = self.visible.shape
        block = torch.arange(blocks, device=self.visible.device)
        own = block.repeat_interleave(queries).unsqueeze(1) == block.repeat_interleave(keys)
        context = self.visible.repeat_interleave(queries, dim=1)
        return torch.cat([context, own.expand(documents, -1, -1)], dim=-1).unsqueeze(1)


def _check_anchors(batch: PackedBatch, anchors: Tensor) -> None:
    if anchors.ndim != 1 or anchors.numel() == 0:
        raise ValueError(f"Anchors have the shape {tuple(anchors.shape)}; expected [A] with at least one row number.")
    if int(anchors.min()) < 0 or int(anchors.max()) >= len(batch) or bool((anchors[1:] <= anchors[:-1]).any()):
        raise ValueError(f"Anchors must be increasing rows of a batch of {len(batch)} rows: use candidate_anchors.")
    if bool((batch.positions[anchors] == 0).any()):
        raise ValueError("An anchor is the first token of its document and has no context: use candidate_anchors.")
