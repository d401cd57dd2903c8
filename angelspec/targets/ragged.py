"""Where the rows of one forward pass sit in the cache: computed once per pass, read by every layer."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import torch

from angelspec.targets.cache import KVCache
from angelspec.targets.rows import Rows

CONTEXT_BUCKET = 64  # the visible context is rounded up to a multiple: few shapes, and aligned masks on a GPU
WIDE_GROUP = (
    16  # a slot with more rows than this (a prefill chunk) is attended alone instead of padding the others to it
)
COPY_COST = 3  # gathering a slot's keys and values reads, writes and reads them again; a contiguous view reads once


@dataclass(frozen=True)
class Segment:
    """Slots attended together by one padded call: R slots with at most M rows each, over C context positions.

    Attributes:
        slots: a slice of the cache (a view), or int64 [R] (a copy) when the slots lie too far apart.
        shape: (R, M, C).
        gather: int64 [R*M], the row of the pass in each padded place (0 where there is none); None for the identity.
        rows, places: int64 [k], which rows of the pass this segment answers and where they lie among the R*M places.
        masks: additive masks [R, 1, M*group, C] by sliding window (None = full attention); a query head group
            shares its key head, so that its queries are folded into the rows.
    """

    slots: slice | torch.Tensor
    shape: tuple[int, int, int]
    gather: torch.Tensor | None
    rows: torch.Tensor
    places: torch.Tensor
    masks: dict[int | None, torch.Tensor]


@dataclass(frozen=True)
class RaggedContext:
    """Everything a layer's attention needs to know about the rows of this pass.

    Attributes:
        cache: the KV cache written and read.
        slots, positions: int64 [n] on the target's device.
        cache_rows: int64 [n], slot * max_len + position: the row's place in the flattened cache.
        group_slots, group_rows, group_starts: int64 [R] on the CPU, per request: slot, number of rows, first row.
        max_context: largest number of visible positions (last position + 1) over all rows.
        backend: which attention implementation reads this (``torch``, or a name registered in attention.py).
        segments: the padded calls of the ``torch`` backend; empty for the others.
    """

    cache: KVCache
    slots: torch.Tensor
    positions: torch.Tensor
    cache_rows: torch.Tensor
    group_slots: torch.Tensor
    group_rows: torch.Tensor
    group_starts: torch.Tensor
    max_context: int
    backend: str
    segments: tuple[Segment, ...] = field(default=())

    def repeated(self, times: int) -> RaggedContext:
        """The same rows ``times`` times over, for backends that read slots and positions only."""
        return dataclasses.replace(self, slots=self.slots.repeat(times), positions=self.positions.repeat(times))

    def layer_cache(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values [slots, max_len, kv_heads, head_dim] of one layer."""
        return self.cache.k[layer], self.cache.v[layer]


@dataclass(frozen=True)
class LayerContext:
    """The part of a RaggedContext that one layer's attention reads on the ``cpu`` backend, as plain tensors.

    A compiled layer is shared by all layers of a model, so that it cannot look its cache up by a layer number.
    """

    k: torch.Tensor
    v: torch.Tensor
    slots: torch.Tensor
    positions: torch.Tensor
    backend: str = "cpu"

    def layer_cache(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """This layer's keys and values, whatever its number."""
        return self.k, self.v


def build_context(
    rows: Rows,
    cache: KVCache,
    *,
    backend: str,
    heads_per_kv: int,
    windows: tuple[int | None, ...],
) -> RaggedContext:
    """Check the rows against the cache and lay out this pass. The rows are best left on the CPU: no device wait then.

    Raises:
        ValueError: rows of unequal length, a slot that occurs twice, positions that do not increase, or a row outside
            the cache.
    """
    slots, positions = rows.slots.cpu(), rows.positions.cpu()
    group_slots, group_rows, group_starts = _groups(rows, slots, positions, cache)
    like = cache.k[0]
    segments: tuple[Segment, ...] = ()
    if backend == "torch":
        segments = _segments(group_slots, group_rows, group_starts, positions, cache, heads_per_kv, windows)
    return RaggedContext(
        cache=cache,
        slots=slots.to(like.device),
        positions=positions.to(like.device),
        cache_rows=(slots * cache.max_len + positions).to(like.device),
        group_slots=group_slots,
        group_rows=group_rows,
        group_starts=group_starts,
        max_context=int(positions.max()) + 1,
        backend=backend,
        segments=segments,
    )


def _groups(
    rows: Rows, slots: torch.Tensor, positions: torch.Tensor, cache: KVCache
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    n = len(rows)
    if n == 0 or slots.shape != (n,) or positions.shape != (n,):
        raise ValueError(
            f"rows need equally many tokens, positions and slots, at least one; got shapes {tuple(rows.tokens.shape)},"
            f" {tuple(positions.shape)} and {tuple(slots.shape)}"
        )
    if slots.min() < 0 or slots.max() >= cache.slots or positions.min() < 0 or positions.max() >= cache.max_len:
        raise ValueError(
            f"a row lies outside the cache of {cache.slots} slots x {cache.max_len} positions: slots"
            f" {int(slots.min())}..{int(slots.max())}, positions {int(positions.min())}..{int(positions.max())}"
        )
    ids, counts = torch.unique_consecutive(slots, return_counts=True)
    if ids.unique().numel() != ids.numel():
        raise ValueError(f"rows of one slot must be contiguous, but a slot occurs twice in {ids.tolist()}")
    same_slot = slots[1:] == slots[:-1]
    if bool((same_slot & (positions[1:] <= positions[:-1])).any()):
        raise ValueError(
            f"positions within a slot must increase; slots {slots.tolist()}, positions {positions.tolist()}"
        )
    return ids, counts, counts.cumsum(0) - counts


def _segments(
    ids: torch.Tensor,
    counts: torch.Tensor,
    starts: torch.Tensor,
    positions: torch.Tensor,
    cache: KVCache,
    heads_per_kv: int,
    windows: tuple[int | None, ...],
) -> tuple[Segment, ...]:
    """Every wide slot (a prefill chunk) alone, all the others padded together."""
    wide = counts > WIDE_GROUP
    parts = [torch.tensor([i]) for i in wide.nonzero().flatten().tolist()]
    narrow = (~wide).nonzero().flatten()
    if narrow.numel():
        parts.append(narrow)
    return tuple(_segment(ids[p], counts[p], starts[p], positions, cache, heads_per_kv, windows) for p in parts)


def _segment(
    ids: torch.Tensor,
    counts: torch.Tensor,
    starts: torch.Tensor,
    positions: torch.Tensor,
    cache: KVCache,
    heads_per_kv: int,
    windows: tuple[int | None, ...],
) -> Segment:
    like = cache.k[0]
    low, high, width = int(ids.min()), int(ids.max()) + 1, int(counts.max())
    as_view = high - low <= COPY_COST * ids.numel()
    lines = ids - low if as_view else torch.arange(ids.numel())
    height = high - low if as_view else ids.numel()
    # within[j]: 0, 1, 2, ... inside each group
    within = torch.arange(int(counts.sum())) - (counts.cumsum(0) - counts).repeat_interleave(counts)
    rows = starts.repeat_interleave(counts) + within
    places = lines.repeat_interleave(counts) * width + within
    gather = torch.zeros(height * width, dtype=torch.int64)
    gather[places] = rows
    # A place without a row looks at position 0 only: harmless, and never an all-masked row, whose softmax is NaN.
    padded = torch.zeros(height * width, dtype=torch.int64)
    padded[places] = positions[rows]
    context = min(-(-(int(positions[rows].max()) + 1) // CONTEXT_BUCKET) * CONTEXT_BUCKET, cache.max_len)
    lookup = padded.view(height, width).to(like.device)
    identity = gather.numel() == positions.numel() and bool((gather == torch.arange(gather.numel())).all())
    return Segment(
        slots=slice(low, high) if as_view else ids.to(like.device),
        shape=(height, width, context),
        gather=None if identity else gather.to(like.device),
        rows=rows.to(like.device),
        places=places.to(like.device),
        masks={window: _mask(lookup, context, window, heads_per_kv, like.dtype) for window in windows},
    )


def _mask(
    positions: torch.Tensor, context: int, window: int | None, heads_per_kv: int, dtype: torch.dtype
) -> torch.Tensor:
    """Additive mask [R, 1, M*group, C]: 0 where position >= column (> position - window), -inf elsewhere."""
    columns = torch.arange(context, device=positions.device)
    visible = columns <= positions[..., None]
    if window is not None:
        visible &= columns > positions[..., None] - window
    mask = torch.zeros(visible.shape, dtype=dtype, device=positions.device).masked_fill_(~visible, float("-inf"))
    return mask.repeat_interleave(heads_per_kv, dim=1).unsqueeze(1)
