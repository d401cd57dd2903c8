"""The engine's memory of its slots: preallocated host tensors, one row per KV slot, written in place."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from angelspec.decoding.categorical import Sampling, SamplingParams
from angelspec.decoding.request import Request

NO_TOKEN = -1


class SlotState:
    """Committed text and counters of every slot.

    tokens  int64 [slots, width]   committed tokens, then room for the drafts of the running step
    length  int64 [slots]          committed tokens; the anchor sits at length - 1
    fed     int64 [slots]          tokens the target has read; length - 1 when the slot decodes, less while it prefills
    end     int64 [slots]          length at which the answer is complete
    counters  int64 [slots, 3]     rounds, draft rows verified, draft tokens accepted
    """

    def __init__(self, slots: int, max_len: int, draft_slots: int, device: torch.device) -> None:
        self.slots, self.max_len, self.device = slots, max_len, device
        self.tokens = torch.zeros(slots, max_len + draft_slots + 1, dtype=torch.int64)
        self.length, self.fed, self.prompt, self.end = torch.zeros(4, slots, dtype=torch.int64).unbind(0)
        self.counters = torch.zeros(slots, 3, dtype=torch.int64)
        self.stop = torch.full((slots, 1), NO_TOKEN)
        self._sampling = Sampling.of([SamplingParams()] * slots, device)
        self._params: dict[int, SamplingParams] = {}
        self._sampled = self._truncated = 0  # slots in use that sample, and that truncate
        self._gathered: tuple[Tensor, Sampling] | None = None

    def admit(self, slot: int, request: Request) -> None:
        """Give `slot` to a request. The prompt is shorter than max_len: the engine has checked."""
        prompt = len(request.prompt_ids)
        self.tokens[slot, :prompt] = torch.as_tensor(request.prompt_ids, dtype=torch.int64)
        self.length[slot] = self.prompt[slot] = prompt
        self.end[slot] = min(prompt + request.max_new_tokens, self.max_len)
        self.fed[slot] = self.counters[slot] = 0
        self._set_stops(slot, request)
        self._set_params(slot, request.params)

    def release(self, slot: int) -> None:
        self._gathered = None
        params = self._params.pop(slot)
        self._sampled -= params.temperature > 0
        self._truncated -= params.truncates

    def sampling(self, slots: Tensor) -> Sampling:
        """Sampling of these slots, on the sampler's device; a batch without sampled requests costs nothing."""
        if self._gathered is None or self._gathered[0] is not slots:  # the same tensor again while nothing is admitted
            rows = self._sampling.rows(slots.to(self.device))
            rows = replace(rows, all_greedy=not self._sampled, truncates=bool(self._truncated))
            self._gathered = (slots, rows)
        return self._gathered[1]

    def committed(self, slot: int) -> list[int]:
        """All tokens of a slot's answer so far."""
        return self.tokens[slot, int(self.prompt[slot]) : int(self.length[slot])].tolist()

    def _set_stops(self, slot: int, request: Request) -> None:
        missing = len(request.stop_ids) - self.stop.shape[1]
        if missing > 0:
            self.stop = torch.nn.functional.pad(self.stop, (0, missing), value=NO_TOKEN)
        self.stop[slot] = NO_TOKEN
        self.stop[slot, : len(request.stop_ids)] = torch.as_tensor(request.stop_ids, dtype=torch.int64)

    def _set_params(self, slot: int, params: SamplingParams) -> None:
        self._gathered = None
        self._params[slot] = params
        self._sampled += params.temperature > 0
        self._truncated += params.truncates
        for name in ("temperature", "top_k", "top_p", "min_p", "seed"):
            getattr(self._sampling, name)[slot] = getattr(params, name)
