"""verify(): against a token-by-token reference, and its edges."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from angelspec.decoding import philox
from angelspec.decoding.acceptance import verify
from angelspec.decoding.categorical import Categorical, Sampling, SamplingParams
from angelspec.decoding.proposal import Proposal

VOCAB = 6


def one(value: int) -> torch.Tensor:
    return torch.tensor([value])


def reference(
    tokens: list[int], q: torch.Tensor | None, logits: torch.Tensor, params: SamplingParams, position: int, rule: str
) -> tuple[int, int]:
    """One request, one token after another, in plain Python: (accepted, next token)."""

    def u(at: int, stream: int) -> torch.Tensor:
        return philox.uniform(one(params.seed), one(at), stream)

    for k in range(len(logits)):
        at = position + k + 1
        p = Categorical.from_logits(logits[k : k + 1], Sampling.of([params]))
        sample = p.sample(u(at, philox.TARGET)).item()
        if k == len(logits) - 1:
            return k, sample
        if rule == "A":
            if sample != tokens[k]:
                return k, sample
            continue
        mass = p.probs()[0]
        drafted = torch.zeros(VOCAB, dtype=torch.float64)
        if q is None:
            drafted[tokens[k]] = 1.0
        else:
            drafted = q[k]
        ratio = mass[tokens[k]] / drafted[tokens[k]] if drafted[tokens[k]] > 0 else torch.inf * mass[tokens[k]]
        if u(at, philox.ACCEPT).item() < ratio:  # NaN (0 / 0) is a rejection
            continue
        rest = (mass - drafted).clamp(min=0)
        rest = rest if rest.sum() > 0 else mass
        return k, Categorical.from_masses(rest.unsqueeze(0)).sample(u(at, philox.RESIDUAL)).item()
    raise AssertionError("unreachable")


@st.composite
def cases(draw: st.DrawFn) -> tuple[Proposal, torch.Tensor, torch.Tensor, list[SamplingParams], torch.Tensor]:
    requests, slots = draw(st.integers(1, 5)), draw(st.integers(0, 4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32 - 1)))
    draft_rows = torch.tensor(draw(st.lists(st.integers(0, slots), min_size=requests, max_size=requests)))
    spread = draw(st.sampled_from([0.0, 1.0, 30.0]))  # all tied, usual, one-hot
    logits = (torch.randn(int(draft_rows.sum()) + requests, VOCAB, generator=generator) * spread).round()
    params = [
        SamplingParams(draw(st.sampled_from([0.0, 0.5, 1.0])), top_k=draw(st.sampled_from([0, 2])), seed=seed)
        for seed in range(requests)
    ]
    tokens = torch.randint(0, VOCAB, (requests, slots), generator=generator)
    q = None
    if draw(st.booleans()):
        q = torch.rand(requests, slots, VOCAB, generator=generator, dtype=torch.float64)
        q[q < 0.5] = 0.0  # drafts the drafter itself gave no mass, tokens without any
        q[..., 0] += 1e-3
        q /= q.sum(2, keepdim=True)
    positions = torch.randint(0, 1000, (requests,), generator=generator)
    return Proposal(tokens, torch.ones(requests, slots), q), logits, draft_rows, params, positions


@settings(max_examples=200, deadline=None)
@given(case=cases(), rule=st.sampled_from(["A", "B"]))
def test_equals_the_reference(
    case: tuple[Proposal, torch.Tensor, torch.Tensor, list[SamplingParams], torch.Tensor], rule: str
) -> None:
    proposal, logits, draft_rows, params, positions = case
    verdict = verify(proposal, logits, draft_rows, Sampling.of(params), positions, rule)
    start = 0
    for r, n in enumerate(draft_rows.tolist()):
        own = logits[start : start + n + 1]
        start += n + 1
        q = None if proposal.q is None else proposal.q[r]
        expected = reference(proposal.tokens[r].tolist(), q, own, params[r], int(positions[r]), rule)
        assert (int(verdict.accepted[r]), int(verdict.next_token[r])) == expected


def logits_for(path: list[int]) -> torch.Tensor:
    return torch.nn.functional.one_hot(torch.tensor(path), VOCAB) * 50.0


@pytest.mark.parametrize("rule", ["A", "B"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_all_accepted_all_rejected_and_nothing_verified(rule: str, temperature: float) -> None:
    """A target that is certain of 1, 2, 3, 4: drafts 1 2 3 (right), 5 2 3 (wrong at once), and 1 2 3 unverified."""
    proposal = Proposal(torch.tensor([[1, 2, 3], [5, 2, 3], [1, 2, 3]]), torch.ones(3, 3))
    logits = torch.cat((logits_for([1, 2, 3, 4]), logits_for([1, 2, 3, 4]), logits_for([1])))
    params = Sampling.of([SamplingParams(temperature, seed=i) for i in range(3)])
    verdict = verify(proposal, logits, torch.tensor([3, 3, 0]), params, torch.zeros(3).long(), rule)
    assert verdict.accepted.tolist() == [3, 0, 0]
    assert verdict.next_token.tolist() == [4, 1, 1]


@pytest.mark.parametrize("rule", ["A", "B"])
def test_a_match_behind_a_mismatch_counts_for_nothing(rule: str) -> None:
    proposal = Proposal(torch.tensor([[1, 5, 3]]), torch.ones(1, 3))
    verdict = verify(proposal, logits_for([1, 2, 3, 4]), one(3), Sampling.of([SamplingParams()]), one(0), rule)
    assert (verdict.accepted.item(), verdict.next_token.item()) == (1, 2)


@pytest.mark.parametrize("rule", ["A", "B"])
def test_rows_past_draft_rows_are_not_read_from_the_next_request(rule: str) -> None:
    """Request 0 verifies one row less than it drafted; its unverified token happens to fit request 1's logits."""
    proposal = Proposal(torch.tensor([[1, 2], [1, 2]]), torch.ones(2, 2))
    logits = torch.cat((logits_for([1, 4]), logits_for([1, 2, 3])))
    verdict = verify(
        proposal, logits, torch.tensor([1, 2]), Sampling.of([SamplingParams()] * 2), torch.zeros(2).long(), rule
    )
    assert verdict.accepted.tolist() == [1, 2] and verdict.next_token.tolist() == [4, 3]


def test_rule_a_tokens_do_not_depend_on_the_drafts() -> None:
    logits, params = (
        torch.randn(5, VOCAB, generator=torch.Generator().manual_seed(0)),
        Sampling.of([SamplingParams(1.0, seed=3)]),
    )
    plain = [
        verify(Proposal.empty(1), logits[k : k + 1], one(0), params, one(10 + k)).next_token.item() for k in range(5)
    ]
    for tokens in ([0, 0, 0, 0], plain[:4], [5, *plain[1:4]], [*plain[:2], 5, 5]):
        verdict = verify(Proposal(torch.tensor([tokens]), torch.ones(1, 4)), logits, one(4), params, one(10))
        n = verdict.accepted.item()
        assert [*tokens[:n], verdict.next_token.item()] == plain[: n + 1]


def test_no_requests() -> None:
    verdict = verify(
        Proposal.empty(0), torch.empty(0, VOCAB), torch.empty(0).long(), Sampling.of([]), torch.empty(0).long()
    )
    assert verdict.accepted.shape == verdict.next_token.shape == (0,)


@pytest.mark.parametrize(
    ("rows", "draft_rows"), [(3, [3]), (5, [3]), (6, [5]), (0, [-1])], ids=["too few", "too many", "past N", "negative"]
)
def test_shapes_that_do_not_fit_are_refused(rows: int, draft_rows: list[int]) -> None:
    proposal = Proposal(torch.zeros(1, 4).long(), torch.ones(1, 4))
    with pytest.raises(ValueError, match="logit rows"):
        verify(proposal, torch.zeros(rows, VOCAB), torch.tensor(draft_rows), Sampling.of([SamplingParams()]), one(0))


def test_proposals_that_make_no_sense_are_refused() -> None:
    tokens = torch.zeros(2, 3).long()
    with pytest.raises(ValueError, match="confidence"):
        Proposal(tokens, torch.ones(2, 2))
    with pytest.raises(ValueError, match="q has shape"):
        Proposal(tokens, torch.ones(2, 3), torch.ones(2, 2, 5))
    with pytest.raises(ValueError, match="only chains"):
        Proposal(tokens, torch.ones(2, 3), parent=torch.tensor([-1, -1, 0]))


def test_survival_is_the_prefix_product_and_ends_with_the_draft() -> None:
    proposal = Proposal(
        torch.zeros(2, 3).long(), torch.tensor([[0.5, 0.5, 0.5], [1.0, 0.1, 0.9]]), lengths=torch.tensor([3, 1])
    )
    assert torch.allclose(proposal.survival, torch.tensor([[0.5, 0.25, 0.125], [1.0, 0.0, 0.0]]))
