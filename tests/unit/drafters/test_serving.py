"""What is drafted while serving is what was trained: same keys, same hidden states, same logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from angelspec.decoding import philox
from angelspec.decoding.categorical import Categorical, Sampling, SamplingParams
from angelspec.decoding.drafter import Anchors, Committed
from angelspec.decoding.engine import Engine
from angelspec.decoding.proposal import Proposal
from angelspec.decoding.request import Request
from angelspec.drafters.attention import CacheWindow
from angelspec.drafters.base import NeuralDrafter
from angelspec.drafters.serving import DraftState, ServedDrafter, serve
from angelspec.training.layout import ContextGrid
from angelspec.training.types import PackedBatch

EXACT = {"rtol": 0.0, "atol": 1e-11}
KINDS = ["dflash", "dfly", "mtp"]
HISTORY = 64


def greedy(n: int) -> Sampling:
    return Sampling.of([SamplingParams()] * n)


def sampled(n: int, temperature: float = 0.8) -> Sampling:
    return Sampling.of([SamplingParams(temperature=temperature, seed=10 + i) for i in range(n)])


def rows_of(batch: PackedBatch, document: int) -> Tensor:
    return (batch.documents == document).nonzero().squeeze(1)


def feed(served: ServedDrafter, state: DraftState, batch: PackedBatch, parts: list[tuple[int, int, int, int]]) -> None:
    """Commit rows [low, high) of documents to slots: (slot, document, low, high)."""
    pieces = [(slot, rows_of(batch, document)[low:high]) for slot, document, low, high in parts]
    rows = torch.cat([piece for _, piece in pieces])
    slots = torch.cat([torch.full_like(piece, slot) for slot, piece in pieces])
    values = (batch.positions[rows], batch.tokens[rows], batch.features[rows], batch.final_hidden[rows])
    served.commit(state, Committed(slots, *values))


def anchors_at(batch: PackedBatch, places: list[tuple[int, int, int]], slots: int = 5) -> Anchors:
    """(slot, document, position) of each anchor; the history holds junk behind it."""
    history = torch.full((slots, HISTORY), 9)
    for slot, document, position in places:
        history[slot, : position + 1] = batch.tokens[rows_of(batch, document)[: position + 1]]
    slot, document, position = (torch.tensor(column) for column in zip(*places, strict=True))
    return Anchors(history[slot, position], position, slot, history)


def trained_logits(drafter: NeuralDrafter, batch: PackedBatch, document: int, position: int) -> Tensor:
    """Logits [N, V_d] of the training forward at the same anchor."""
    anchor = rows_of(batch, document)[position : position + 1]
    return drafter.logits(drafter.training_forward(batch, anchor).hidden[0])


def follow(batch: PackedBatch, document: int, position: int, tokens: Tensor) -> PackedBatch:
    """The same batch, had the target written these tokens [N] behind the anchor: training then forces them."""
    changed = batch.tokens.clone()
    changed[rows_of(batch, document)[position + 1 : position + 1 + len(tokens)]] = tokens
    return PackedBatch(**{**vars(batch), "tokens": changed})


@pytest.mark.parametrize("kind", KINDS)
def test_drafts_are_those_of_the_training_forward(
    make: Callable[..., NeuralDrafter], batch: PackedBatch, kind: str
) -> None:
    """Two requests at different positions, committed in pieces, drafted together: tokens and max q of every slot."""
    drafter = make(kind)
    served = serve(drafter)
    state = served.new_state(None, 5, HISTORY)
    feed(served, state, batch, [(3, 2, 0, 4), (1, 0, 0, 9)])
    feed(served, state, batch, [(1, 0, 9, 10), (3, 2, 4, 20)])
    places = [(1, 0, 10), (3, 2, 20)]
    proposal = served.propose(state, anchors_at(batch, places), 3, greedy(2))
    for i, (_, document, position) in enumerate(places):
        law = trained_logits(
            drafter, follow(batch, document, position, proposal.tokens[i]), document, position
        ).softmax(-1)
        assert torch.equal(proposal.tokens[i], law.argmax(-1))
        torch.testing.assert_close(proposal.confidence[i].double(), law.amax(-1), rtol=1e-5, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_logits_equal_to_rounding(
    make: Callable[..., NeuralDrafter], batch: PackedBatch, kind: str, monkeypatch
) -> None:
    drafter = make(kind)
    served = serve(drafter)
    state = served.new_state(None, 2, HISTORY)
    feed(served, state, batch, [(0, 0, 0, 12)])
    seen: list[Tensor] = []
    original = drafter.logits
    monkeypatch.setattr(drafter, "logits", lambda hidden: seen.append(out := original(hidden)) or out)
    proposal = served.propose(state, anchors_at(batch, [(0, 0, 12)]), 3, greedy(1))
    monkeypatch.undo()
    expected = trained_logits(drafter, follow(batch, 0, 12, proposal.tokens[0]), 0, 12)
    torch.testing.assert_close(torch.cat(seen), expected, **EXACT)


@pytest.mark.parametrize("kind", KINDS)
def test_cached_keys_are_those_of_training(make: Callable[..., NeuralDrafter], batch: PackedBatch, kind: str) -> None:
    """Also after drafts whose own keys lay where committed ones came later."""
    drafter = make(kind)
    served = serve(drafter)
    state = served.new_state(None, 2, HISTORY)
    for low, high in ((0, 6), (6, 7), (7, 11)):
        feed(served, state, batch, [(1, 2, low, high)])
        served.propose(state, anchors_at(batch, [(1, 2, high)]), 3, greedy(1))
    grid = ContextGrid.build(batch, rows_of(batch, 2)[11:12])
    rows = grid.rows
    if kind == "mtp":
        expected = [
            drafter.context_keys_values(batch.tokens[rows + 1], batch.final_hidden[rows], batch.positions[rows])
        ]
    else:
        expected = drafter.context_keys_values(batch.features[rows], batch.positions[rows])
    for layer, (k, v) in enumerate(expected):
        torch.testing.assert_close(state.cache.k[layer][1, :11], k, **EXACT)
        torch.testing.assert_close(state.cache.v[layer][1, :11], v, **EXACT)


@pytest.mark.parametrize("kind", KINDS)
def test_late_commits_and_reused_slots(
    make: Callable[..., NeuralDrafter], batch: PackedBatch, kind: str, monkeypatch
) -> None:
    """Rows that waited for several steps, rows taken in at once, and a slot's earlier owner all give the same draft."""
    served = serve(make(kind))

    def draft(commits: list[tuple[int, int]], earlier_owner: bool, limit: int) -> Proposal:
        monkeypatch.setattr("angelspec.drafters.serving.PENDING_ROWS", limit)
        state = served.new_state(None, 2, HISTORY)
        if earlier_owner:
            feed(served, state, batch, [(0, 2, 0, 25)])
            served.propose(state, anchors_at(batch, [(0, 2, 25)]), 3, greedy(1))
            feed(served, state, batch, [(0, 2, 25, 29)])  # still waiting when the slot changes hands
            served.reset(state, torch.tensor([0]))
            assert not any((rows.slots == 0).any() for rows in state.pending), "where rows collide, order is undefined"
        for low, high in commits:
            feed(served, state, batch, [(0, 0, low, high)])
        return served.propose(state, anchors_at(batch, [(0, 0, 15)]), 3, greedy(1))

    reference = draft([(0, 15)], False, 10_000)
    for commits, owner, limit in (
        ([(0, 4), (4, 5), (5, 15)], False, 10_000),
        ([(0, 15)], True, 10_000),
        ([(0, 9), (9, 15)], True, 1),
    ):
        again = draft(commits, owner, limit)
        assert torch.equal(again.tokens, reference.tokens)
        torch.testing.assert_close(again.confidence, reference.confidence, rtol=1e-6, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_an_anchor_without_context(make: Callable[..., NeuralDrafter], batch: PackedBatch, kind: str) -> None:
    """A prompt of one token: nothing is committed yet. Whatever an earlier owner left must not be seen."""
    served = serve(make(kind))
    clean = served.new_state(None, 2, HISTORY)
    used = served.new_state(None, 2, HISTORY)
    feed(served, used, batch, [(0, 2, 0, 25)])
    served.propose(used, anchors_at(batch, [(0, 2, 25)]), 3, greedy(1))
    served.reset(used, torch.tensor([0]))
    drafts = [served.propose(state, anchors_at(batch, [(0, 0, 0)]), 3, greedy(1)) for state in (clean, used)]
    assert torch.equal(drafts[0].tokens, drafts[1].tokens) and torch.equal(drafts[0].confidence, drafts[1].confidence)
    assert bool(drafts[0].confidence.isfinite().all())


@pytest.mark.parametrize("kind", KINDS)
def test_fewer_slots(make: Callable[..., NeuralDrafter], batch: PackedBatch, kind: str) -> None:
    """k slots cost k: a chain's prefix for MTP, for a (bidirectional) block the draft of a smaller block."""
    drafter = make(kind)
    state = serve(drafter).new_state(None, 2, HISTORY)
    feed(serve(drafter), state, batch, [(0, 0, 0, 12)])
    anchors = anchors_at(batch, [(0, 0, 12)])
    rows: list[int] = []
    drafter.layers[0].register_forward_hook(lambda module, args, out: rows.append(args[0].shape[0] * args[0].shape[1]))
    full = serve(drafter).propose(state, anchors, 3, greedy(1))
    few = serve(drafter, slots=2).propose(state, anchors, 2, greedy(1))
    assert few.tokens.shape == (1, 2)
    if kind == "mtp":
        assert rows == [1] * 5 and torch.equal(few.tokens, full.tokens[:, :2])
        torch.testing.assert_close(few.confidence, full.confidence[:, :2])
        return
    assert rows == [4, 3]
    smaller = make(kind, block_size=3)  # same weights: they do not depend on the block size
    expected = trained_logits(smaller, follow(batch, 0, 12, few.tokens[0]), 0, 12)
    assert torch.equal(few.tokens[0], expected.argmax(-1))


def test_slots_beyond_training_are_refused(make: Callable[..., NeuralDrafter]) -> None:
    with pytest.raises(ValueError, match="trained for 1 to 3"):
        serve(make("dfly"), slots=4)


@pytest.mark.parametrize("kind", KINDS)
def test_sampled_drafts_and_their_q(make: Callable[..., NeuralDrafter], batch: PackedBatch, kind: str) -> None:
    """q is the law the token was drawn from, over the target's vocabulary; the number drawn is the DRAFT stream's."""
    d2t = torch.arange(3, 97, 3)
    drafter = make(kind, d2t=d2t, **({"on_policy": False} if kind == "mtp" else {}))
    served = serve(drafter, sample=True)
    state = served.new_state(None, 5, HISTORY)
    places = [(1, 0, 10), (3, 2, 20)]
    feed(served, state, batch, [(1, 0, 0, 10), (3, 2, 0, 20)])
    sampling = sampled(2)
    proposal = served.propose(state, anchors_at(batch, places), 3, sampling)
    assert proposal.q.shape == (2, 3, 97)
    torch.testing.assert_close(proposal.q.sum(-1), torch.ones(2, 3))
    outside = torch.ones(97, dtype=torch.bool).index_fill(0, d2t, False)
    assert proposal.q[..., outside].max() == 0
    for i, (_, document, position) in enumerate(places):
        forced = follow(batch, document, position, proposal.tokens[i])
        logits = trained_logits(drafter, forced, document, position)
        for slot in range(3):
            own = Categorical.from_logits(logits[slot : slot + 1], sampling.rows(torch.tensor([i])))
            torch.testing.assert_close(proposal.q[i, slot, d2t], own.probs()[0], rtol=1e-5, atol=1e-9)
            at, anchor = torch.tensor([position + slot + 1]), torch.tensor([position])
            u = philox.uniform(sampling.seed[i : i + 1], at, philox.DRAFT, draw=anchor)
            assert int(proposal.tokens[i, slot]) == int(d2t[own.sample(u)])
        largest = (logits.float() / 0.8).softmax(-1).amax(-1)
        torch.testing.assert_close(proposal.confidence[i], largest, rtol=1e-5, atol=0)


def test_greedy_requests_in_a_sampling_drafter(make: Callable[..., NeuralDrafter], batch: PackedBatch) -> None:
    """q of a greedy request is one-hot at its token; a batch of greedy requests carries no q at all."""
    served = serve(make("dfly"), sample=True)
    state = served.new_state(None, 2, HISTORY)
    feed(served, state, batch, [(0, 0, 0, 10), (1, 2, 0, 10)])
    anchors = anchors_at(batch, [(0, 0, 10), (1, 2, 10)])
    mixed = served.propose(state, anchors, 3, Sampling.of([SamplingParams(), SamplingParams(temperature=1.0, seed=4)]))
    assert torch.equal(mixed.q[0].argmax(-1), mixed.tokens[0]) and bool((mixed.q[0].amax(-1) == 1).all())
    assert served.propose(state, anchors, 3, greedy(2)).q is None


@pytest.mark.parametrize(
    ("kind", "sample", "head"),
    [
        ("dflash", False, "deterministic"),
        ("dflash", True, "parallel"),
        ("dfly", True, "sequential"),
        ("mtp", True, "sequential"),
    ],
)
def test_declarations(make: Callable[..., NeuralDrafter], kind: str, sample: bool, head: str) -> None:
    served = serve(make(kind), sample=sample)
    assert served.looks_at.head == head and served.looks_at.confidence == "distribution"
    assert served.name == kind and served.slots == 3


@pytest.mark.parametrize("slots", [[0, 1, 2], [2, 0, 1], [4, 1], [9, 0]])
def test_window_reads_the_right_lines(slots: list[int]) -> None:
    """Views, views with gaps and gathers give the attention of a per-request loop."""
    generator = torch.Generator().manual_seed(0)
    cache = [torch.randn(10, 12, 2, 4, generator=generator) for _ in range(2)]
    length = torch.tensor([3, 0, 7])[: len(slots)]
    q = torch.randn(len(slots), 2, 4, 4, generator=generator)
    own = [torch.randn(len(slots), 2, 2, 4, generator=generator) for _ in range(2)]
    expected = []
    for i, slot in enumerate(slots):
        k, v = (
            torch.cat([c[slot, : length[i]], o[i]]).repeat_interleave(2, 1) for c, o in zip(cache, own, strict=True)
        )
        weights = (torch.einsum("nhd,mhd->hnm", q[i], k) * 0.5).softmax(-1)
        expected.append(torch.einsum("hnm,mhd->nhd", weights, v))
    places = length.unsqueeze(1) + torch.arange(2)
    window = CacheWindow.build(torch.tensor(slots), places, length + 2, torch.device("cpu"))
    torch.testing.assert_close(window.attend(*cache)(q, *own), torch.stack(expected), **EXACT)


@pytest.mark.parametrize("kind", KINDS)
def test_through_the_engine(make: Callable[..., NeuralDrafter], tiny_llama: Any, kind: str) -> None:
    """More requests than slots, greedy and sampled, exact-match rule: the tokens are AR's, one by one."""
    generator = torch.Generator().manual_seed(5)
    requests = [
        Request(
            str(i),
            torch.randint(1, 97, (1 + 3 * i,), generator=generator).tolist(),
            SamplingParams(temperature=0.7 * (i % 2), seed=i),
            max_new_tokens=12,
        )
        for i in range(6)
    ]
    expected = Engine(tiny_llama, None, slots=3, max_len=40).run(requests)
    answers = Engine(tiny_llama, serve(make(kind), sample=kind == "dfly"), slots=3, max_len=40).run(requests)
    assert [a.token_ids for a in answers] == [a.token_ids for a in expected]
    assert sum(a.drafted for a in answers) > 0
