"""The engine: continuous batching of ragged requests, one loop for every drafter.

A step is propose -> allocate -> verify -> commit over all slots at once. What a slot feeds to the target is always the
same: the committed tokens it has not read yet (a chunk of the prompt, or the anchor alone), then its draft rows. AR is
the drafter that proposes nothing. Bookkeeping is a fixed number of tensor operations a step, whatever the batch.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from angelspec.decoding.acceptance import verify
from angelspec.decoding.capture import Capture
from angelspec.decoding.drafter import Anchors, Committed, Drafter
from angelspec.decoding.exactness import Rule, require_exact
from angelspec.decoding.interrupt import Interrupt
from angelspec.decoding.plan import Plan, divide, lay_out
from angelspec.decoding.proposal import Proposal, Verdict
from angelspec.decoding.request import Answer, Chunk, FinishReason, Request
from angelspec.decoding.state import SlotState
from angelspec.decoding.stats import EngineStats, StepRecord, StepTimes
from angelspec.decoding.text import TextStream
from angelspec.drafters.ar import ARDrafter
from angelspec.targets.model import Target
from angelspec.targets.rows import Forward
from angelspec.verification.policies import ChoosesDraft, Full, Policy, StepBatch

OnToken = Callable[[Chunk], None]
Trace = Callable[[StepRecord, StepTimes], None]


@dataclass
class _Running:
    """What the engine keeps of a request outside the tensors."""

    index: int
    request: Request
    submitted: float
    started: float = 0.0
    first_token: float = 0.0
    stops: TextStream | None = None  # only for requests with stop strings


class Engine:
    """Answers requests with a target and a drafter, `slots` at a time, each up to `max_len` tokens, prompt included.

    `prefill_rows` bounds the prompt rows of one step, so that long prompts do not stall requests that decode. Raises
    BiasedCombination when the drafter, the policy and the rule together would change the output's law.
    """

    def __init__(
        self,
        target: Target,
        drafter: Drafter | None = None,
        *,
        slots: int = 16,
        max_len: int = 1024,
        policy: Policy | None = None,
        rule: Rule = "A",
        prefill_rows: int = 256,
        costs: Any = None,
    ) -> None:
        if prefill_rows < 1:
            raise ValueError(f"prefill_rows is {prefill_rows}; expected at least 1")
        self.target, self.drafter, self.policy = target, drafter or ARDrafter(), policy or Full()
        require_exact(rule, self.drafter.looks_at, self.policy.looks_at, (self.drafter.name, self.policy.name))
        self.rule, self.costs, self.max_len, self.prefill_rows = rule, costs, max_len, prefill_rows
        self.cache = target.new_cache(slots, max_len)
        # Apple GPUs have no float64, which the random source needs: there the sampler runs on the CPU.
        self.device = torch.device("cpu") if target.device.type == "mps" else target.device
        self.state = SlotState(slots, max_len, self.drafter.slots, self.device)
        self.drafter_state = self.drafter.new_state(target, slots, max_len)
        self.stats = EngineStats()
        self.interrupted = False
        self.trace: Trace | None = None  # called after every step, see angelspec.evaluation.trace
        self._waiting: deque[_Running] = deque()
        self._running: dict[int, _Running] = {}  # slot -> request, in order of admission
        self._free = list(range(slots))[::-1]
        self._active = torch.empty(0, dtype=torch.int64)
        self._filling = 0  # slots that have not read their prompt up to the anchor
        self._silent = 0  # slots without a first token yet
        self._submitted = 0
        self._with_stop_strings = 0  # running requests that have some
        self._layer_ids = self.drafter.layer_ids
        self._capture: Capture | None = None
        self._on_token: OnToken | None = None

    # ---- requests in, answers out ------------------------------------------------------------------------------------

    def run(
        self, requests: Sequence[Request], on_token: OnToken | None = None, capture: Capture | None = None
    ) -> list[Answer]:
        """Answer all requests; the answers come in the order of the requests.

        on_token sees committed tokens only, one Chunk per request and step. capture receives what the target computed
        for every finished answer. SIGINT ends the run after the step it falls into: `interrupted` is set, and requests
        without a complete answer come back with finish_reason "interrupted" and what they have. A second SIGINT is not
        held back.
        """
        for request in requests:
            self._check(request)
        self._on_token, self._capture, self._layer_ids = on_token, capture, self.drafter.layer_ids
        if capture is not None:
            capture.start(self.cache.slots, self.max_len, self.target.dims.hidden_size)
            self._layer_ids = tuple(sorted({*capture.layer_ids, *self.drafter.layer_ids}))
        self.stats, self.interrupted, self._submitted = EngineStats(), False, 0
        answers: dict[int, Answer] = {}
        try:
            with Interrupt() as interrupt:
                for request in requests:
                    self.submit(request)
                while (self._waiting or self._running) and not interrupt.requested:
                    answers.update(self.step())
                self.interrupted = interrupt.requested
        finally:
            answers.update(self._abandon())
            self._on_token, self._capture, self._layer_ids = None, None, self.drafter.layer_ids
        return [answers[i] for i in range(len(requests))]

    def stream(self, requests: Sequence[Request]) -> Iterator[tuple[list[Chunk], dict[int, Answer]]]:
        """Answer requests step by step: the tokens each step committed, and the answers it completed by their place in
        `requests`. Closing the iterator early drops what is unfinished and leaves an engine that is ready for more.
        """
        for request in requests:
            self._check(request)
        chunks: list[Chunk] = []
        self._on_token, self.stats, self._submitted = chunks.append, EngineStats(), 0
        try:
            for request in requests:
                self.submit(request)
            while self._waiting or self._running:
                answers = self.step()
                yield list(chunks), answers
                chunks.clear()
        finally:
            self._on_token = None
            self._abandon()

    def submit(self, request: Request) -> int:
        """Queue a request; returns its number, under which `step` will hand out the answer."""
        self._check(request)
        self._waiting.append(_Running(self._submitted, request, time.perf_counter()))
        self._submitted += 1
        return self._submitted - 1

    @torch.no_grad()
    def step(self) -> dict[int, Answer]:
        """One pass of the target over everything that runs; the answers that it completed."""
        started, drafter_before = time.perf_counter(), self.stats.draft_seconds
        self._admit()
        if not self._running:
            return {}
        shares = divide(self.state, self._active, self._filling, self.prefill_rows)
        self._filling -= shares.filled
        proposal, draft_rows = self._propose(shares.decoding, shares.prompt_rows)
        plan = lay_out(self.state, shares, proposal, draft_rows)
        drafted = time.perf_counter()
        out = self.target.forward(
            plan.rows,
            self.cache,
            logit_rows=None if self._capture is not None else plan.wanted,
            layer_ids=self._layer_ids,
        )
        forwarded = time.perf_counter()
        verdict = self._verify(plan, out)
        verified = time.perf_counter()
        proposing, before = self.stats.draft_seconds, self.state.length[plan.slots]
        finished = self._commit(plan, verdict)
        self._hand_out(plan, out)
        committed = time.perf_counter()
        record = None if self.trace is None else self._record(plan, verdict, before, len(shares.decoding))
        answers = {self._running[slot].index: self._retire(slot, reason) for slot, reason in finished}
        if answers:
            self._list_active()
        total = time.perf_counter() - started
        self.stats.add(total, forwarded - drafted, verified - forwarded, len(plan.rows), len(plan.slots))
        if self.trace is not None and record is not None:
            draft, taking_in = self.stats.draft_seconds - drafter_before, self.stats.draft_seconds - proposing
            commit = committed - verified - taking_in
            self.trace(record, StepTimes(started, draft, forwarded - drafted, verified - forwarded, commit, total))
        return answers

    # ---- the parts of a step -----------------------------------------------------------------------------------------

    def _admit(self) -> None:
        taken = []
        while self._free and self._waiting:
            slot, running = self._free.pop(), self._waiting.popleft()
            running.started = time.perf_counter()
            if running.request.stop_strings:
                running.stops = TextStream(self.target.tokenizer, running.request.stop_strings)
                self._with_stop_strings += 1
            self.state.admit(slot, running.request)
            self._running[slot] = running
            self._filling += len(running.request.prompt_ids) > 1
            self._silent += 1
            taken.append(slot)
        if taken:
            self.drafter.reset(self.drafter_state, torch.tensor(taken))
            self._list_active()

    def _propose(self, slots: Tensor, prompt_rows: int) -> tuple[Proposal, Tensor]:
        """Drafts of the decoding requests [R], written behind their committed text, and the rows to verify [R]."""
        s = self.state
        if not self.drafter.slots or not len(slots):
            return Proposal.empty(len(slots), self.device), torch.zeros(len(slots), dtype=torch.int64)
        length = s.length[slots]
        anchors = Anchors(s.tokens[slots, length - 1], length - 1, slots, s.tokens)
        count, left = self.drafter.slots, (s.end[slots] - length - 1).clamp(min=0)
        if isinstance(self.policy, ChoosesDraft):
            batch = StepBatch(length - 1, left.clamp(max=count), prompt_rows)
            count = min(count, self.policy.draft_slots(batch, self.costs))
            if count <= 0:
                return Proposal.empty(len(slots), self.device), torch.zeros(len(slots), dtype=torch.int64)
        started = time.perf_counter()
        proposal = self.drafter.propose(self.drafter_state, anchors, count, s.sampling(slots), self.cache)
        tokens = proposal.tokens.cpu()
        self.stats.draft_seconds += time.perf_counter() - started
        limits = left.clamp(max=tokens.shape[1])
        if proposal.lengths is not None:
            limits = torch.minimum(limits, proposal.lengths.cpu())
        chosen = self.policy(proposal.survival, StepBatch(length - 1, limits, prompt_rows), self.costs).cpu()
        s.tokens[slots.unsqueeze(1), length.unsqueeze(1) + torch.arange(tokens.shape[1])] = tokens
        return proposal, torch.minimum(chosen, limits)

    def _verify(self, plan: Plan, out: Forward) -> Verdict:
        logits = out.logits
        if self._capture is not None and plan.wanted is not None:
            logits = logits[plan.wanted.to(logits.device)]
        d = self.device
        verdict = verify(
            plan.proposal.padded(len(plan.slots)),
            logits.to(d),
            plan.draft_rows.to(d),
            self.state.sampling(plan.slots),
            (self.state.length[plan.slots] - 1).to(d),
            self.rule,
        )
        return Verdict(verdict.accepted.cpu(), verdict.next_token.cpu())  # the step's one wait for the device

    def _commit(self, plan: Plan, verdict: Verdict) -> list[tuple[int, FinishReason]]:
        """Write the accepted tokens, cut at stops, advance the slots; the (slot, reason) that are complete."""
        s, slots = self.state, plan.slots
        length, count = s.length[slots], verdict.accepted + 1
        s.tokens[slots, length + verdict.accepted] = verdict.next_token
        place = torch.arange(plan.proposal.tokens.shape[1] + 1)
        new = s.tokens[slots.unsqueeze(1), length.unsqueeze(1) + place]
        stop = (new.unsqueeze(2) == s.stop[slots].unsqueeze(1)).any(2) & (place < count.unsqueeze(1))
        stopped = stop.any(1)
        count = torch.where(stopped, stop.long().argmax(1) + 1, count)
        if self._with_stop_strings:
            self._cut_at_strings(slots.tolist(), new.tolist(), count, stopped)
        if plan.feeding is not slots:
            s.fed[plan.feeding] += plan.fed
        now_long = length + count
        s.length[slots] = now_long
        s.fed[slots] = now_long - 1
        s.counters.index_add_(0, slots, torch.stack((torch.ones_like(count), plan.draft_rows, verdict.accepted), 1))
        self.stats.committed += int(count.sum())
        if self._silent:
            self._note_first_tokens(slots[length == s.prompt[slots]].tolist())
        if self._on_token is not None:
            for slot, tokens, n, accepted in zip(
                slots.tolist(), new.tolist(), count.tolist(), verdict.accepted.tolist(), strict=True
            ):
                self._on_token(Chunk(self._running[slot].request.id, tokens[:n], min(n, accepted)))
        done = stopped | (now_long >= s.end[slots])
        return [(int(slots[i]), self._reason(int(slots[i]), bool(stopped[i]))) for i in done.nonzero().squeeze(1)]

    def _note_first_tokens(self, slots: list[int]) -> None:
        now = time.perf_counter()
        for slot in slots:
            self._running[slot].first_token = now
        self._silent -= len(slots)

    def _cut_at_strings(self, slots: list[int], new: list[list[int]], count: Tensor, stopped: Tensor) -> None:
        """Shorten count [V], and set stopped [V], where a stop string is complete within the new tokens."""
        for i, slot in enumerate(slots):
            stream = self._running[slot].stops
            if stream is None:
                continue
            for n, token in enumerate(new[i][: int(count[i])], start=1):
                stream.push(token)
                if stream.stopped:
                    count[i], stopped[i] = n, True
                    break

    def _reason(self, slot: int, stopped: bool) -> FinishReason:
        if stopped:
            return "stop"
        answered = int(self.state.length[slot] - self.state.prompt[slot])
        return "length" if answered == self._running[slot].request.max_new_tokens else "context"

    def _hand_out(self, plan: Plan, out: Forward) -> None:
        """Rows of committed tokens to the drafter and to the capture; rejected rows go nowhere."""
        if not self.drafter.slots and self._capture is None:
            return
        rows = plan.rows
        kept = (rows.positions < self.state.fed[rows.slots]).nonzero().squeeze(1)
        slots, positions, tokens = rows.slots[kept], rows.positions[kept], rows.tokens[kept]
        on_device = kept.to(out.final_hidden.device)
        features, final_hidden = out.features[on_device], out.final_hidden[on_device]
        if self.drafter.slots:
            started = time.perf_counter()
            mine = self._columns(features, self.drafter.layer_ids)
            self.drafter.commit(self.drafter_state, Committed(slots, positions, tokens, mine, final_hidden))
            self.stats.draft_seconds += time.perf_counter() - started
        if self._capture is not None:
            mine = self._columns(features, self._capture.layer_ids)
            self._capture.take(slots, positions, mine, final_hidden, out.logits[on_device])

    def _columns(self, features: Tensor, layer_ids: tuple[int, ...]) -> Tensor:
        if layer_ids == self._layer_ids:
            return features
        return features[:, [self._layer_ids.index(k) for k in layer_ids]]

    def _record(self, plan: Plan, verdict: Verdict, before: Tensor, decoding: int) -> StepRecord:
        ids, s = [self._running[slot].request.id for slot in plan.slots.tolist()], self.state
        return StepRecord(
            requests=ids,
            rounds=s.counters[plan.slots, 0],
            positions=before - 1,
            drafted=plan.proposal,
            decoding=decoding,
            rows=plan.draft_rows,
            accepted=verdict.accepted,
            committed=s.length[plan.slots] - before,
            running=len(self._running),
            target_rows=len(plan.rows),
        )

    # ---- slots -------------------------------------------------------------------------------------------------------

    def _retire(self, slot: int, reason: FinishReason) -> Answer:
        answer = self._answer(self._running.pop(slot), slot, reason)
        if self._capture is not None and reason != "interrupted":
            self._capture.finish(slot, int(self.state.length[slot]) - 1, answer)
        self.state.release(slot)
        self._free.append(slot)
        return answer

    def _answer(self, running: _Running, slot: int | None, reason: FinishReason) -> Answer:
        request, s = running.request, self.state
        tokens = [] if slot is None else s.committed(slot)
        self._with_stop_strings -= running.stops is not None
        if running.stops is not None and reason == "stop":
            running.stops.finish()
            text = running.stops.text
        else:
            text = self.target.tokenizer.decode(tokens, skip_special_tokens=True)
        rounds, drafted, accepted = (0, 0, 0) if slot is None else s.counters[slot].tolist()
        return Answer(
            request.id,
            tuple(int(t) for t in request.prompt_ids),
            tuple(tokens),
            text,
            reason,
            request.params,
            rounds,
            drafted,
            accepted,
            running.submitted,
            running.started,
            running.first_token,
            time.perf_counter(),
            request.meta,
        )

    def _abandon(self) -> dict[int, Answer]:
        """Answers of everything unfinished, and an engine that is ready for the next run."""
        answers = {running.index: self._retire(slot, "interrupted") for slot, running in list(self._running.items())}
        answers.update((running.index, self._answer(running, None, "interrupted")) for running in self._waiting)
        self._waiting.clear()
        self._filling = self._silent = self._with_stop_strings = 0
        self._list_active()
        return answers

    def _list_active(self) -> None:
        self._active = torch.tensor(list(self._running), dtype=torch.int64)

    def _check(self, request: Request) -> None:
        if len(request.prompt_ids) >= self.max_len:
            raise ValueError(
                f"request {request.id!r} has a prompt of {len(request.prompt_ids)} tokens and the engine holds "
                f"{self.max_len} per request, answer included; shorten the prompt or raise max_len"
            )
        vocab = self.target.dims.vocab_size
        wrong = [t for t in request.prompt_ids if not 0 <= int(t) < vocab]
        if wrong:
            raise ValueError(f"request {request.id!r} has token ids {wrong[:5]}; expected ids in 0..{vocab - 1}")
