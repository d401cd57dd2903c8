"""The engine on a tiny float64 target: whatever drafts, policies and batches do, the output is the target's own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from angelspec.decoding import philox
from angelspec.decoding.categorical import Categorical, Sampling, SamplingParams, sample_tokens
from angelspec.decoding.engine import Engine
from angelspec.decoding.exactness import BiasedCombination, DraftLooks
from angelspec.decoding.request import Answer, Chunk, Request
from angelspec.drafters.ngram import NGramDrafter
from angelspec.targets.rows import Rows
from angelspec.verification.policies import Fixed, Full, Nothing
from tests.unit.decoding.mock_drafters import MockDrafter, Ragged, Random, Repeating, Right

MAX_LEN = 80
KINDS = [
    SamplingParams(),
    SamplingParams(1.0),
    SamplingParams(0.7, top_k=20),
    SamplingParams(1.2, top_p=0.9, min_p=0.01),
]


def make_requests(count: int, new_tokens: int, seed: int = 0, **options: Any) -> list[Request]:
    """Prompts of 1 to 40 tokens, greedy and sampled ones mixed."""
    generator = torch.Generator().manual_seed(seed)
    requests = []
    for i in range(count):
        length = int(torch.randint(1, 41, (), generator=generator))
        prompt = torch.randint(1, 97, (length,), generator=generator).tolist()
        kind = KINDS[i % len(KINDS)]
        params = SamplingParams(kind.temperature, kind.top_k, kind.top_p, kind.min_p, seed=1000 + i)
        requests.append(Request(f"r{i}", prompt, params, new_tokens, **options))
    return requests


def is_the_targets_own(answer: Answer, target: Any, stock: Callable[..., Any]) -> bool:
    """Every token is what the stock model, fed the text before it, samples with the request's numbers."""
    text = torch.tensor([*answer.prompt_ids, *answer.token_ids])
    first = len(answer.prompt_ids)
    logits = stock(target, text[None, :-1]).logits[0, first - 1 :]
    sampling = Sampling.of([answer.params] * len(logits))
    return sample_tokens(logits, sampling, torch.arange(first, len(text)), philox.TARGET).equal(text[first:])


@pytest.fixture(scope="module")
def requests() -> list[Request]:
    return make_requests(32, new_tokens=12)


@pytest.fixture(scope="module")
def plain(tiny_llama: Any, requests: list[Request], stock: Callable[..., Any]) -> list[Answer]:
    """AR, checked token by token against the stock model."""
    answers = Engine(tiny_llama, slots=5, max_len=MAX_LEN).run(requests)
    assert all(is_the_targets_own(a, tiny_llama, stock) and len(a.token_ids) == 12 for a in answers)
    return answers


def tokens(answers: list[Answer]) -> list[tuple[int, ...]]:
    return [a.token_ids for a in answers]


DRAFTERS: dict[str, Callable[[list[Answer]], Any]] = {
    "right": lambda answers: Right(answers),
    "wrong": lambda answers: Right(answers, shift=1),
    "random": lambda answers: Random(),
    "repeating": lambda answers: Repeating(),
    "ngram": lambda answers: NGramDrafter(slots=3, max_n=2),
}


@pytest.mark.parametrize("concurrency", [1, 7, 32])
@pytest.mark.parametrize("policy", [Full(), Ragged(), Nothing()], ids=lambda p: p.name)
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_speculative_output_is_ar_output(
    tiny_llama: Any, requests: list[Request], plain: list[Answer], drafter: str, policy: Any, concurrency: int
) -> None:
    some = requests if concurrency == 32 else requests[: 4 + concurrency]
    engine = Engine(tiny_llama, DRAFTERS[drafter](plain), slots=concurrency, max_len=MAX_LEN, policy=policy)
    answers = engine.run(some)
    assert tokens(answers) == tokens(plain[: len(some)])
    assert [a.id for a in answers] == [r.id for r in some] and all(a.finish_reason == "length" for a in answers)
    if policy.name == "none" or drafter == "wrong":
        assert engine.stats.tau == 1.0 and all(a.accepted == 0 for a in answers)
    if policy.name == "full" and drafter == "right":
        # one token by the prefill, then rounds of five; one-token prompts start with a full round
        assert all(a.rounds == (3 if len(a.prompt_ids) == 1 else 4) and a.accepted == a.drafted for a in answers)


def test_rule_b_is_greedy_where_ar_is(tiny_llama: Any, requests: list[Request], plain: list[Answer]) -> None:
    greedy = [i for i, r in enumerate(requests) if r.params.temperature == 0]
    for drafter in (Random(), Right(plain), Repeating()):
        engine = Engine(tiny_llama, drafter, slots=5, max_len=MAX_LEN, policy=Ragged(), rule="B")
        assert tokens(engine.run([requests[i] for i in greedy])) == [plain[i].token_ids for i in greedy]


def test_rule_b_through_the_engine_has_the_targets_law(tiny_llama: Any) -> None:
    """The first two tokens of 6,000 answers to one prompt; the second one was drafted."""
    prompt, draws = [5, 60, 11], 6000
    requests = [Request("x", prompt, SamplingParams(0.7, top_k=8, seed=i), 3) for i in range(draws)]
    answers = Engine(tiny_llama, Random(), slots=500, max_len=8, policy=Fixed(1), rule="B", prefill_rows=4000).run(
        requests
    )
    assert 0 < sum(a.accepted for a in answers) < 0.5 * draws
    firsts = sorted({a.token_ids[0] for a in answers})
    rows = Rows.concatenate([(i, 0, [*prompt, first]) for i, first in enumerate(firsts)])
    logits = tiny_llama.forward(rows, tiny_llama.new_cache(len(firsts), 8)).logits.view(len(firsts), 4, -1)
    one = Sampling.of([requests[0].params] * len(firsts))
    p_first = Categorical.from_logits(logits[:, 2], one).probs()[0, firsts]
    expected = (draws * p_first.unsqueeze(1) * Categorical.from_logits(logits[:, 3], one).probs()).numpy()
    counts = torch.zeros(len(firsts), 97)
    for a in answers:
        counts[firsts.index(a.token_ids[0]), a.token_ids[1]] += 1
    assert counts[expected == 0].sum() == 0
    rare = expected < 5
    cells = [(counts.numpy()[~rare], expected[~rare]), ([counts.numpy()[rare].sum()], [expected[rare].sum()])]
    observed, wanted = (np.concatenate(column) for column in zip(*cells, strict=True))
    assert stats.chisquare(observed[wanted > 0], wanted[wanted > 0]).pvalue > 1e-3


def test_batch_order_size_and_prompt_chunks_change_nothing(
    tiny_llama: Any, requests: list[Request], plain: list[Answer]
) -> None:
    order = torch.randperm(32, generator=torch.Generator().manual_seed(1)).tolist()
    for slots, prefill_rows in ((1, 1), (3, 7), (32, 16), (64, 1000)):
        some = order[:4] if slots == 1 else order
        engine = Engine(tiny_llama, slots=slots, max_len=MAX_LEN, prefill_rows=prefill_rows)
        assert tokens(engine.run([requests[i] for i in some])) == [plain[i].token_ids for i in some]
        assert engine.stats.rows == sum(len(requests[i].prompt_ids) + 11 for i in some)  # nothing is read twice


def test_a_request_is_the_same_alone_and_in_a_crowd(tiny_llama: Any, requests: list[Request]) -> None:
    engine = Engine(tiny_llama, slots=64, max_len=MAX_LEN)
    for request in requests[2:4]:
        alone = engine.run([request])[0]
        crowd = engine.run([*make_requests(63, 12, seed=9), request])[-1]
        assert alone.token_ids == crowd.token_ids


def test_200_requests_through_8_slots_lose_nothing(tiny_llama: Any, stock: Callable[..., Any]) -> None:
    generator = torch.Generator().manual_seed(3)
    requests = [
        Request(r.id, r.prompt_ids, r.params, int(torch.randint(1, 13, (), generator=generator)), meta={"n": i})
        for i, r in enumerate(make_requests(200, 1, seed=2))
    ]
    engine = Engine(tiny_llama, NGramDrafter(slots=3), slots=8, max_len=MAX_LEN, policy=Ragged(), prefill_rows=24)
    answers = engine.run(requests)
    for request, answer in zip(requests, answers, strict=True):
        assert (answer.id, answer.prompt_ids, answer.meta) == (request.id, tuple(request.prompt_ids), request.meta)
        assert len(answer.token_ids) == request.max_new_tokens and answer.finish_reason == "length"
        assert is_the_targets_own(answer, tiny_llama, stock)
    assert engine.stats.committed == sum(r.max_new_tokens for r in requests)


@pytest.mark.parametrize("policy", [Full(), Nothing()], ids=lambda p: p.name)
def test_rejected_rows_leave_no_trace_in_the_cache(tiny_llama: Any, requests: list[Request], policy: Any) -> None:
    engine = Engine(tiny_llama, Repeating(), slots=6, max_len=MAX_LEN, policy=policy)
    answers = engine.run(requests[:6])
    fresh = tiny_llama.new_cache(6, MAX_LEN)
    read = [[*a.prompt_ids, *a.token_ids][:-1] for a in answers]
    slots = [engine.state.tokens[:, : len(t)].eq(torch.tensor(t)).all(1).nonzero().item() for t in read]
    tiny_llama.forward(Rows.concatenate([(slot, 0, t) for slot, t in zip(slots, read, strict=True)]), fresh)
    for layer in range(tiny_llama.dims.num_layers):
        for slot, text in zip(slots, read, strict=True):
            for ours, truth in ((engine.cache.k, fresh.k), (engine.cache.v, fresh.v)):
                assert torch.allclose(
                    ours[layer][slot, : len(text)], truth[layer][slot, : len(text)], atol=1e-12, rtol=0
                )


def test_stop_tokens_cut_inside_an_accepted_block(
    tiny_llama: Any, requests: list[Request], plain: list[Answer]
) -> None:
    for stop_at in range(12):
        stopping = [
            Request(r.id, r.prompt_ids, r.params, 12, stop_ids=(96, a.token_ids[stop_at]))
            for r, a in zip(requests[:8], plain, strict=False)
        ]
        answers = Engine(tiny_llama, Right(plain), slots=8, max_len=MAX_LEN).run(stopping)
        for request, answer, whole in zip(stopping, answers, plain, strict=False):
            end = min(whole.token_ids.index(t) for t in request.stop_ids if t in whole.token_ids) + 1
            assert answer.token_ids == whole.token_ids[:end] and answer.finish_reason == "stop"


@pytest.mark.parametrize("new_tokens", range(1, 9))
def test_max_new_tokens_is_exact(
    tiny_llama: Any, requests: list[Request], plain: list[Answer], new_tokens: int
) -> None:
    some = [Request(r.id, r.prompt_ids, r.params, new_tokens) for r in requests[:6]]
    answers = Engine(tiny_llama, Right(plain), slots=6, max_len=MAX_LEN).run(some)
    assert tokens(answers) == [a.token_ids[:new_tokens] for a in plain[:6]]


def test_the_context_limit_ends_an_answer_cleanly(
    tiny_llama: Any, requests: list[Request], plain: list[Answer]
) -> None:
    for drafter in (None, Right(plain)):
        max_len = max(len(r.prompt_ids) for r in requests) + 3
        answers = Engine(tiny_llama, drafter, slots=8, max_len=max_len).run(requests)
        for answer, whole in zip(answers, plain, strict=True):
            assert answer.token_ids == whole.token_ids[: max_len - len(answer.prompt_ids)]
            assert answer.finish_reason == ("length" if len(answer.token_ids) == 12 else "context")
        assert {a.finish_reason for a in answers} == {"length", "context"}


def test_streaming_yields_committed_tokens_only(tiny_llama: Any, requests: list[Request], plain: list[Answer]) -> None:
    chunks: list[Chunk] = []
    stop = plain[0].token_ids[6]
    some = [Request(r.id, r.prompt_ids, r.params, 12, stop_ids=(stop,)) for r in requests]
    answers = Engine(tiny_llama, Right(plain), slots=7, max_len=MAX_LEN, policy=Ragged()).run(
        some, on_token=chunks.append
    )
    for answer in answers:
        own = [c for c in chunks if c.id == answer.id]
        assert sum((c.token_ids for c in own), []) == list(answer.token_ids)
        assert len(own) == answer.rounds and all(len(c.token_ids) - 1 <= c.accepted <= len(c.token_ids) for c in own)


def test_times_and_counters_of_an_answer(tiny_llama: Any, requests: list[Request]) -> None:
    engine = Engine(tiny_llama, slots=2, max_len=MAX_LEN)
    for a in engine.run(requests[:5]):
        assert a.submitted <= a.started < a.first_token < a.finished
        assert (a.rounds, a.drafted, a.accepted) == (12, 0, 0)
    assert engine.stats.steps > 0 and 0 < engine.stats.host_share < 1


def test_sigint_ends_after_the_step_and_keeps_finished_answers(
    tiny_llama: Any, requests: list[Request], plain: list[Answer]
) -> None:
    before = signal.getsignal(signal.SIGINT)
    seen = 0

    def press_ctrl_c(chunk: Chunk) -> None:
        nonlocal seen
        seen += 1
        if seen == 100:
            os.kill(os.getpid(), signal.SIGINT)

    engine = Engine(tiny_llama, slots=4, max_len=MAX_LEN)
    answers = engine.run(requests, on_token=press_ctrl_c)
    assert engine.interrupted and signal.getsignal(signal.SIGINT) == before
    done = [a for a in answers if a.finish_reason == "length"]
    assert 4 <= len(done) < 12
    for answer, whole in zip(answers, plain, strict=True):
        assert answer.token_ids == whole.token_ids[: len(answer.token_ids)]
        assert answer.finish_reason == ("length" if len(answer.token_ids) == 12 else "interrupted")
    assert tokens(engine.run(requests[:8])) == tokens(plain[:8]) and not engine.interrupted  # ready for more


def test_a_failing_callback_leaves_a_usable_engine(
    tiny_llama: Any, requests: list[Request], plain: list[Answer]
) -> None:
    engine = Engine(tiny_llama, slots=3, max_len=MAX_LEN)

    def fail(chunk: Chunk) -> None:
        raise RuntimeError("no more paper")

    with pytest.raises(RuntimeError, match="no more paper"):
        engine.run(requests[:5], on_token=fail)
    assert tokens(engine.run(requests[:5])) == tokens(plain[:5])


def test_requests_that_cannot_be_answered_are_refused_at_once(tiny_llama: Any) -> None:
    engine = Engine(tiny_llama, slots=2, max_len=16)
    with pytest.raises(ValueError, match="prompt of 16 tokens.*holds 16"):
        engine.run([Request("long", [1] * 16)])
    with pytest.raises(ValueError, match=r"token ids \[97\].*0..96"):
        engine.run([Request("odd", [1, 97])])
    with pytest.raises(ValueError, match="empty prompt"):
        Request("empty", [])
    with pytest.raises(ValueError, match="max_new_tokens is 0"):
        Request("none", [1], max_new_tokens=0)
    with pytest.raises(ValueError, match="empty stop string"):
        Request("stop", [1], stop_strings=["a", ""])
    with pytest.raises(ValueError, match="prefill_rows is 0"):
        Engine(tiny_llama, slots=2, max_len=16, prefill_rows=0)


def test_a_biased_combination_is_refused_before_anything_runs(tiny_llama: Any) -> None:
    class Peeking(MockDrafter):
        looks_at = DraftLooks("sequential", "drawn")

    class Threshold(Full):
        looks_at = "prefix"

    with pytest.raises(BiasedCombination, match="mock with full is biased under rule B"):
        Engine(tiny_llama, Peeking(), slots=2, max_len=16, policy=Threshold(looks_at="prefix"), rule="B")
    Engine(tiny_llama, Peeking(), slots=2, max_len=16, policy=Threshold(looks_at="prefix"), rule="A")
