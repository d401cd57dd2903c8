"""Real drafters with random weights in the engine, tiny float64 target: AR's output, and caches as after a fresh read.

Mock drafters of known quality, and n-gram, go through the same grid in tests/unit/decoding/test_engine.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from angelspec.decoding.categorical import SamplingParams
from angelspec.decoding.drafter import Committed
from angelspec.decoding.engine import Engine
from angelspec.decoding.request import Answer, Request
from angelspec.drafters.serving import ServedDrafter, ServedMTP, serve
from angelspec.targets.rows import Rows
from angelspec.verification.policies import Full, Nothing, StepBatch
from tests.tiny_drafters import random_drafter
from tests.unit.decoding.mock_drafters import Ragged

MAX_LEN, NEW_TOKENS, LAYER_IDS = 48, 10, (0, 1, 3)
D2T = torch.arange(0, 97, 2)
KINDS = [
    SamplingParams(),
    SamplingParams(1.0),
    SamplingParams(0.7, top_k=20),
    SamplingParams(1.2, top_p=0.9, min_p=0.01),
]
DRAFTERS = ["mtp", "dflash", "dfly", "dfly d2t", "dfly markov"]


@pytest.fixture(scope="module", autouse=True)
def float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


class Sometimes(Ragged):
    """Drafts in some steps only, to different lengths: in the others the drafter falls behind and has to catch up."""

    name = "sometimes"

    def __init__(self) -> None:
        super().__init__()
        self.chosen: list[int] = []

    def draft_slots(self, batch: StepBatch, costs: Any = None) -> int:
        self.chosen.append(int(torch.randint(0, 4, (), generator=self.generator)))
        return self.chosen[-1]


class Never(Nothing):
    """Nothing is drafted at all."""

    def draft_slots(self, batch: StepBatch, costs: Any = None) -> int:
        return 0


POLICIES = {"full": Full, "ragged": Ragged, "none": Nothing, "sometimes": Sometimes, "never": lambda: Never("never")}


def build(kind: str, target: Any, sample: bool = False) -> ServedDrafter:
    fields = {"head": "markov", "head_size": 8} if kind.endswith("markov") else {}
    d2t = D2T if kind.endswith("d2t") else None
    return serve(random_drafter(kind.split()[0], target, LAYER_IDS, d2t=d2t, **fields), sample=sample)


@pytest.fixture(scope="module")
def requests() -> list[Request]:
    """Prompts of 1 to 24 tokens, greedy and sampled ones mixed."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for i in range(32):
        length = 1 if i % 9 == 0 else int(torch.randint(2, 25, (), generator=generator))
        prompt, kind = torch.randint(1, 97, (length,), generator=generator).tolist(), KINDS[i % len(KINDS)]
        params = SamplingParams(kind.temperature, kind.top_k, kind.top_p, kind.min_p, seed=500 + i)
        made.append(Request(f"r{i}", prompt, params, NEW_TOKENS))
    return made


@pytest.fixture(scope="module")
def plain(tiny_llama: Any, requests: list[Request]) -> list[Answer]:
    """AR one by one; the engine's own test compares it with the stock model."""
    return Engine(tiny_llama, slots=1, max_len=MAX_LEN).run(requests)


def tokens(answers: list[Answer]) -> list[tuple[int, ...]]:
    return [a.token_ids for a in answers]


@pytest.mark.parametrize("concurrency", [1, 7, 32])
@pytest.mark.parametrize("policy", ["full", "ragged", "none", "sometimes"])
@pytest.mark.parametrize("kind", DRAFTERS)
def test_output_is_ars_token_for_token(
    tiny_llama: Any, requests: list[Request], plain: list[Answer], kind: str, policy: str, concurrency: int
) -> None:
    """Rule A: greedy answers and sampled ones, whatever is drafted and however deep it is verified."""
    some, drafter = requests[: concurrency + 4], build(kind, tiny_llama)
    if concurrency != 7:  # at 7 the drafts are the drafter's own, which are nearly always refused
        right_drafts(drafter, plain)
    engine = Engine(
        tiny_llama, drafter, slots=concurrency, max_len=MAX_LEN, policy=POLICIES[policy](),
        prefill_rows=20,
    )  # fmt: skip
    answers = engine.run(some)
    assert tokens(answers) == tokens(plain[: len(some)])
    assert (sum(a.drafted for a in answers) > 0) == (policy != "none")
    if policy in ("full", "ragged") and concurrency != 7:
        assert 0.1 < sum(a.accepted for a in answers) / sum(a.drafted for a in answers) < 0.9


@pytest.mark.parametrize("sample", [False, True], ids=["greedy drafts", "drawn drafts"])
@pytest.mark.parametrize("kind", ["mtp", "dflash", "dfly d2t"])
def test_rule_b_is_greedy_where_ar_is(
    tiny_llama: Any, requests: list[Request], plain: list[Answer], kind: str, sample: bool
) -> None:
    engine = Engine(tiny_llama, build(kind, tiny_llama, sample), slots=32, max_len=MAX_LEN, policy=Ragged(), rule="B")
    for answer, request, truth in zip(engine.run(requests), requests, plain, strict=True):
        assert request.params.temperature > 0 or answer.token_ids == truth.token_ids


def right_drafts(drafter: ServedDrafter, plain: list[Answer]) -> None:
    """Make it propose what the target will say, from its own pass and with its own cache rows: long accepted blocks."""
    texts = [torch.tensor([*a.prompt_ids, *a.token_ids, *[0] * 8]) for a in plain]
    propose = drafter.propose

    def peeking(state: Any, anchors: Any, slots: int, *rest: Any) -> Any:
        proposal = propose(state, anchors, slots, *rest)
        for row, (slot, at) in enumerate(zip(anchors.slots.tolist(), anchors.positions.tolist(), strict=True)):
            text = next((t for t in texts if t[: at + 1].equal(anchors.history[slot, : at + 1])), None)
            assert text is not None, "committed text is not AR's"
            keep = torch.arange(slots) < (at % 3) + 1  # right for one to three slots, then the drafter's own
            proposal.tokens[row] = torch.where(keep, text[at + 1 : at + 1 + slots], proposal.tokens[row])
        return proposal

    drafter.propose = peeking  # type: ignore[method-assign]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", ["mtp", "dflash", "dfly d2t"])
def test_rejected_rows_and_skipped_drafts_leave_no_trace_in_any_cache(
    tiny_llama: Any, requests: list[Request], plain: list[Answer], kind: str, policy: str
) -> None:
    """In the middle of a run, after accepted and rejected drafts: both caches equal those of a fresh prefill."""
    drafter = build(kind, tiny_llama)
    right_drafts(drafter, plain)
    engine = Engine(tiny_llama, drafter, slots=5, max_len=MAX_LEN, policy=POLICIES[policy](), prefill_rows=16)
    for request in requests[:9]:  # more than there are slots: some slots have had an owner before
        engine.submit(request)
    checked = answered = 0
    while engine._running or engine._waiting:
        answered += len(engine.step())
        if answered >= 3 and checked < 3 and len(engine._running) >= 3:
            compare_with_fresh(engine, tiny_llama, build(kind, tiny_llama))
            checked += 1
    assert answered == 9 and checked == 3
    if policy in ("full", "ragged"):
        assert 0.05 < float(engine.state.counters[:, 2].sum() / engine.state.counters[:, 1].sum()) < 1.0


def compare_with_fresh(engine: Engine, target: Any, drafter: ServedDrafter) -> None:
    """Every running slot: rows 0 .. S-1 of the target's and (once it has caught up) of the drafter's cache."""
    slots = [slot for slot in engine._running if int(engine.state.fed[slot]) > 0]
    texts = [engine.state.tokens[slot, : int(engine.state.fed[slot])] for slot in slots]
    rows = Rows.concatenate([(slot, 0, text.tolist()) for slot, text in zip(slots, texts, strict=True)])
    cache = target.new_cache(engine.cache.slots, MAX_LEN)
    out = target.forward(rows, cache, layer_ids=drafter.layer_ids)
    same_rows(engine.cache, cache, slots, [len(t) for t in texts])

    state = drafter.new_state(target, engine.cache.slots, MAX_LEN)
    drafter.commit(state, Committed(rows.slots, rows.positions, rows.tokens, out.features, out.final_hidden))
    for served, own in ((drafter, state), (engine.drafter, engine.drafter_state)):
        if isinstance(served, ServedMTP):
            served.catch_up(own, engine.state.tokens)
        else:
            served.catch_up(own)  # type: ignore[attr-defined]
    same_rows(engine.drafter_state.cache, state.cache, slots, [len(t) for t in texts])
    if isinstance(drafter, ServedMTP):
        torch.testing.assert_close(engine.drafter_state.newest[slots], state.newest[slots], rtol=0, atol=1e-10)


def same_rows(ours: Any, fresh: Any, slots: list[int], lengths: list[int]) -> None:
    for layer in range(len(fresh.k)):
        for slot, length in zip(slots, lengths, strict=True):
            for mine, truth in ((ours.k, fresh.k), (ours.v, fresh.v)):
                a: Tensor = mine[layer][slot, :length]
                torch.testing.assert_close(a, truth[layer][slot, :length], rtol=0, atol=1e-10)


def test_steps_without_a_draft_cost_the_drafter_nothing(
    tiny_llama: Any, requests: list[Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lazy catch-up: with nothing drafted, no context row is ever computed."""
    drafter = build("dfly", tiny_llama)
    calls: list[int] = []
    monkeypatch.setattr(drafter, "catch_up", lambda state: calls.append(1))
    Engine(tiny_llama, drafter, slots=4, max_len=MAX_LEN, policy=Never("never")).run(requests[:4])
    assert not calls
