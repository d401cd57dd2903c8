"""Laying out a step: who reads how many rows, and which rows these are."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from angelspec.decoding.proposal import Proposal
from angelspec.decoding.state import SlotState
from angelspec.targets.rows import Rows


@dataclass(frozen=True)
class Shares:
    """Who reads what in a step. Committed tokens only; draft rows come on top.

    decoding     int64 [R] slots that feed their anchor alone, and may draft
    slots, rows  int64 [A] slots with rows in this step, decoding ones first, and the committed rows each reads
    verified     the first `verified` of `slots` reach their anchor: the decoding ones and prompts that end here
    filled       slots that have their prompt behind them after this step, up to the anchor or including it
    prompt_rows  rows that are no decoding slot's anchor
    """

    decoding: Tensor
    slots: Tensor
    rows: Tensor
    verified: int
    filled: int
    prompt_rows: int


@dataclass(frozen=True)
class Plan:
    """One step: V requests to verify and n rows; `wanted` are the rows whose logits are verified, None all."""

    slots: Tensor  # [V]
    draft_rows: Tensor  # [V]
    proposal: Proposal  # of the first requests in `slots`
    rows: Rows
    wanted: Tensor | None
    feeding: Tensor  # [A]
    fed: Tensor  # [A]


def divide(state: SlotState, active: Tensor, filling: int, prefill_rows: int) -> Shares:
    """Split a step among the active slots [A], of which `filling` have a prompt to read: every decoding slot feeds its
    anchor, prompts share `prefill_rows` first come, first served."""
    if not filling:
        return Shares(active, active, torch.ones_like(active), len(active), 0, 0)
    todo = state.length[active] - state.fed[active]
    decoding, prompts = active[todo == 1], active[todo > 1]
    want = todo[todo > 1]
    share = torch.minimum((prefill_rows - want.cumsum(0) + want).clamp(min=0), want)
    prompts, want, share = prompts[share > 0], want[share > 0], share[share > 0]
    ends = int((share == want).sum())  # all but the last prompt of the queue get what they want
    return Shares(
        decoding,
        slots=torch.cat((decoding, prompts)),
        rows=torch.cat((torch.ones_like(decoding), share)),
        verified=len(decoding) + ends,
        filled=int((share >= want - 1).sum()),
        prompt_rows=int(share.sum()),
    )


def lay_out(state: SlotState, shares: Shares, proposal: Proposal, draft_rows: Tensor) -> Plan:
    """The rows: per slot the committed tokens it has to read, then its draft rows, whose tokens lie behind them."""
    if not shares.prompt_rows and not proposal.tokens.shape[1]:  # the common step of AR: one row each
        slots, positions = shares.slots, state.fed[shares.slots]
        rows = Rows(state.tokens[slots, positions], positions, slots)
        return Plan(slots, draft_rows, proposal, rows, None, slots, shares.rows)
    slots = shares.slots[: shares.verified]
    draft_rows = torch.cat((draft_rows, draft_rows.new_zeros(len(slots) - len(draft_rows))))
    counts = shares.rows.clone()
    counts[: len(slots)] += draft_rows
    total = int(counts.sum())
    owner = torch.repeat_interleave(counts, output_size=total)
    row_slots = shares.slots[owner]
    positions = state.fed[row_slots] + torch.arange(total) - (counts.cumsum(0) - counts)[owner]
    wanted = None
    if shares.prompt_rows:
        wanted = (positions >= state.length[row_slots] - 1).nonzero().squeeze(1)
    rows = Rows(state.tokens[row_slots, positions], positions, row_slots)
    return Plan(slots, draft_rows, proposal, rows, wanted, shares.slots, shares.rows)
