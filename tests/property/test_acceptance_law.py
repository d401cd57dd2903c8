"""The law of the output: verify() against enumerated distributions, and three biased schemes that must be caught.

A small Markov chain plays the target (row = distribution after each token), another the drafter. 200,000 requests with
different seeds draft, verify and, where a round gave one token only, take a second token autoregressively; the first
two tokens of the output must then have the law p(x1) p(x2 | x1).
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from angelspec.decoding import philox
from angelspec.decoding.acceptance import verify
from angelspec.decoding.categorical import Categorical, Sampling, SamplingParams
from angelspec.decoding.exactness import Rule
from angelspec.decoding.proposal import Proposal

DRAWS = 200_000
CHUNK = 50_000
ANCHOR_TOKEN, ANCHOR_POSITION = 0, 5
Policy = Callable[[Tensor, Tensor], Tensor]  # (q [R, N, V], drawn tokens [R, N]) -> draft_rows [R]


def chain_logits(vocab: int, seed: int, spread: float = 1.2) -> Tensor:
    return torch.randn(vocab, vocab, generator=torch.Generator().manual_seed(seed)) * spread


def expand(params: SamplingParams, seeds: Tensor) -> Sampling:
    one = Sampling.of([params])
    columns = [c.expand(len(seeds)) for c in (one.temperature, one.top_k, one.top_p, one.min_p)]
    return Sampling(*columns, seeds, all_greedy=one.all_greedy, truncates=one.truncates)


def law(logits: Tensor, params: SamplingParams) -> Tensor:
    """Row v: the enumerated distribution after token v, float64 [V, V]."""
    return Categorical.from_logits(logits, Sampling.of([params] * len(logits))).probs()


def draft(logits: Tensor, params: SamplingParams, seeds: Tensor, slots: int) -> Proposal:
    """A sequential head: slot k is drawn after slot k-1; confidences are the largest probability of q_k."""
    table, sampling = law(logits, params), expand(params, seeds)
    weights = Categorical.from_logits(logits, Sampling.of([params] * len(logits)))
    previous = torch.full_like(seeds, ANCHOR_TOKEN)
    tokens, q = [], []
    for k in range(1, slots + 1):
        position = torch.full_like(seeds, ANCHOR_POSITION + k)
        u = philox.uniform(sampling.seed, position, philox.DRAFT, torch.full_like(seeds, ANCHOR_POSITION))
        q.append(table[previous])
        previous = Categorical(weights.weights[previous], weights.total[previous]).sample(u)
        tokens.append(previous)
    stacked = torch.stack(q, 1)
    return Proposal(torch.stack(tokens, 1), stacked.amax(2).float(), stacked)


def target_rows(logits: Tensor, tokens: Tensor, draft_rows: Tensor) -> Tensor:
    """Logits of the anchor row and the verified draft rows of every request, flattened."""
    inputs = torch.cat((torch.full_like(tokens[:, :1], ANCHOR_TOKEN), tokens), 1)
    return logits[inputs[torch.arange(inputs.shape[1]) <= draft_rows.unsqueeze(1)]]


def two_tokens(
    target: Tensor, drafter: Tensor, params: SamplingParams, policy: Policy, rule: Rule, slots: int
) -> Tensor:
    """The first two output tokens of DRAWS requests, int64 [DRAWS, 2]."""
    parts = []
    for first in range(0, DRAWS, CHUNK):
        seeds = torch.arange(first, first + CHUNK)
        proposal, sampling = draft(drafter, params, seeds, slots), expand(params, seeds)
        rows = policy(proposal.q, proposal.tokens)
        anchors = torch.full_like(seeds, ANCHOR_POSITION)
        verdict = verify(proposal, target_rows(target, proposal.tokens, rows), rows, sampling, anchors, rule)
        one = torch.where(verdict.accepted > 0, proposal.tokens[:, 0], verdict.next_token)
        second_round = verify(
            Proposal.empty(CHUNK), target[one], torch.zeros_like(rows), sampling, anchors + 1, rule
        ).next_token
        if slots > 1:
            two = torch.where(verdict.accepted > 1, proposal.tokens[:, 1], verdict.next_token)
        else:
            two = verdict.next_token
        parts.append(torch.stack((one, torch.where(verdict.accepted > 0, two, second_round)), 1))
    return torch.cat(parts)


def p_value(tokens: Tensor, target: Tensor, params: SamplingParams) -> float:
    """Chi-square of pairs against p(x1) p(x2|x1), cells expecting below 5 pooled; 0 if an impossible one occurs."""
    table = law(target, params)
    expected = (DRAWS * table[ANCHOR_TOKEN].unsqueeze(1) * table).flatten().numpy()
    counts = (tokens[:, 0] * len(target) + tokens[:, 1]).bincount(minlength=expected.size).numpy()
    if counts[expected == 0].sum():
        return 0.0
    rare = expected < 5
    observed, wanted = np.append(counts[~rare], counts[rare].sum()), np.append(expected[~rare], expected[rare].sum())
    possible = wanted > 0
    return float(stats.chisquare(observed[possible], wanted[possible]).pvalue)


def everything(q: Tensor, tokens: Tensor) -> Tensor:
    return torch.full((len(q),), q.shape[1])


def ragged(q: Tensor, tokens: Tensor) -> Tensor:
    return torch.randint(0, q.shape[1] + 1, (len(q),), generator=torch.Generator().manual_seed(1))


def confident_prefix(q: Tensor, tokens: Tensor) -> Tensor:
    """Verify slot k while the largest q_k reaches 0.4: looks at x_<k through q_k, never at x_k."""
    return (q.amax(2) >= 0.4).long().cumprod(1).sum(1)


SETTINGS: list[tuple[Rule, SamplingParams, Policy]] = [
    ("A", SamplingParams(1.0), everything),
    ("A", SamplingParams(0.7, top_k=5), ragged),
    ("B", SamplingParams(1.0), everything),
    ("B", SamplingParams(0.3), ragged),
    ("B", SamplingParams(0.7, top_p=0.8), confident_prefix),
    ("B", SamplingParams(1.0, top_k=5, min_p=0.05), confident_prefix),
]


@pytest.mark.parametrize(("rule", "params", "policy"), SETTINGS, ids=lambda x: x.__name__ if callable(x) else str(x))
def test_output_has_the_targets_law(rule: Rule, params: SamplingParams, policy: Policy) -> None:
    target, drafter = chain_logits(8, seed=1), chain_logits(8, seed=1) + chain_logits(8, seed=2, spread=0.8)
    assert p_value(two_tokens(target, drafter, params, policy, rule, slots=3), target, params) > 1e-3 / len(SETTINGS)


# Two tokens, target (.7, .3) whatever came before, draft (.5, .5): the published counterexamples in one table.
PAIR_TARGET = torch.tensor([[0.7, 0.3]] * 2).log()
PAIR_DRAFT = torch.tensor([[0.5, 0.5]] * 2).log()
COSTS = torch.tensor([1.0, 1.6, 1.85])  # a step that verifies 0, 1, 2 draft rows
FIRST_CONFIDENCE = 0.5
PAIR = SamplingParams(1.0)


def gain(tokens: Tensor) -> Tensor:
    """Expected tokens per cost for depths 0, 1, 2 [R, 3]; the second confidence is .9 or .55 by the first token."""
    second = torch.where(tokens[:, 0] == 0, 0.9, 0.55)
    one = torch.full_like(second, 1.0 + FIRST_CONFIDENCE)
    return torch.stack((torch.ones_like(second), one, one + FIRST_CONFIDENCE * second), 1) / COSTS


def batch_optimum(q: Tensor, tokens: Tensor) -> Tensor:
    """The depth of the best gain: the second confidence, and with it x_1, decides whether slot 1 is verified."""
    return gain(tokens).argmax(1)


def early_exit(q: Tensor, tokens: Tensor) -> Tensor:
    """DSpark's algorithm 1: go deeper while the gain grows, stop at the first refusal."""
    g = gain(tokens)
    return (g[:, 1:] > g[:, :-1]).long().cumprod(1).sum(1)


def without_the_break(q: Tensor, tokens: Tensor) -> Tensor:
    """Algorithm 1 with its break removed: keep scanning and remember the best depth so far."""
    g, best, depth = gain(tokens), torch.ones(len(tokens)), torch.zeros(len(tokens), dtype=torch.int64)
    for k in (1, 2):
        better = g[:, k] > best
        best, depth = torch.where(better, g[:, k], best), torch.where(better, k, depth)
    return depth


def drawn_confidence(q: Tensor, tokens: Tensor) -> Tensor:
    """Verify slot 1 only when the drawn token looks likely."""
    return (tokens[:, 0] == 0).long()


@pytest.mark.parametrize("policy", [batch_optimum, without_the_break, drawn_confidence])
def test_anticipating_policies_are_caught_under_rule_b_and_harmless_under_rule_a(policy: Policy) -> None:
    biased = two_tokens(PAIR_TARGET, PAIR_DRAFT, PAIR, policy, "B", slots=2)
    assert p_value(biased, PAIR_TARGET, PAIR) < 1e-10
    assert abs((biased[:, 0] == 0).double().mean() - 0.85) < 0.005  # the published value
    exact = two_tokens(PAIR_TARGET, PAIR_DRAFT, PAIR, policy, "A", slots=2)
    assert p_value(exact, PAIR_TARGET, PAIR) > 1e-3


def test_the_early_exit_is_exact_where_the_scan_without_it_is_not() -> None:
    assert p_value(two_tokens(PAIR_TARGET, PAIR_DRAFT, PAIR, early_exit, "B", slots=2), PAIR_TARGET, PAIR) > 1e-3


def test_a_residual_from_the_wrong_draft_distribution_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Third mutant: tokens were drawn from q after temperature, the residual and ratio use q before it."""
    from angelspec.decoding import acceptance

    target, drafter, params = chain_logits(8, 1), chain_logits(8, 2), SamplingParams(0.5)
    untempered = law(drafter, SamplingParams(1.0))
    honest = acceptance._residual

    def wrong(final: Categorical, proposal: Proposal, slot: Tensor) -> Categorical:
        previous = torch.cat((torch.full_like(proposal.tokens[:, :1], ANCHOR_TOKEN), proposal.tokens[:, :-1]), 1)
        return honest(final, Proposal(proposal.tokens, proposal.confidence, untempered[previous]), slot)

    assert p_value(two_tokens(target, drafter, params, everything, "B", 2), target, params) > 1e-3
    monkeypatch.setattr(acceptance, "_residual", wrong)
    assert p_value(two_tokens(target, drafter, params, everything, "B", 2), target, params) < 1e-10


def test_a_draft_that_repeats_its_random_numbers_would_leak_through_stale_confidences() -> None:
    """Why DRAFT numbers carry the anchor: the number drawn for a position in two rounds must differ."""
    seeds, position = torch.arange(1000), torch.full((1000,), 9)
    first = philox.uniform(seeds, position, philox.DRAFT, torch.full((1000,), 5))
    second = philox.uniform(seeds, position, philox.DRAFT, torch.full((1000,), 6))
    assert abs(torch.corrcoef(torch.stack((first, second)))[0, 1]) < 0.15 and not (first == second).any()
