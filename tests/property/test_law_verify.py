"""The law of the output: verify() against enumerated distributions, and biased schemes that must be caught.

200,000 requests a setting; temperatures, truncations, both rules, sequential, parallel, deterministic and
small-vocabulary drafts, and every kind of depth choice that the rule allows. The settings are one family: Holm's
procedure at level 0.01, fixed seeds.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from angelspec.decoding import philox
from angelspec.decoding.categorical import Categorical, SamplingParams
from angelspec.decoding.exactness import DraftLooks, Rule, bias
from angelspec.decoding.proposal import Proposal
from tests.property.laws import (
    ANCHOR_TOKEN,
    Draft,
    Policy,
    View,
    chain_logits,
    decode,
    drawn,
    law,
    most_likely,
    p_value,
    rejected,
    table,
)

ALPHA, CERTAIN = 0.01, 1e-10


# ---- choices of depth, by what they look at ----------------------------------------------------------------


def everything(view: View) -> Tensor:
    return torch.full((len(view.q),), view.q.shape[1])


def ragged(view: View) -> Tensor:
    """Nothing is looked at."""
    return torch.randint(0, view.q.shape[1] + 1, (len(view.q),), generator=torch.Generator().manual_seed(1))


def by_position(view: View) -> Tensor:
    """History: deeper at even positions."""
    return torch.where(view.positions % 2 == 0, view.q.shape[1], 1)


def stale_confidence(view: View) -> Tensor:
    """History: the confidences of the round before, of all slots, also those behind its cut."""
    return (view.stale > 0.35).sum(1)


def confident_prefix(view: View) -> Tensor:
    """Prefix: slot k while the largest q_k reaches 0.4; x_<k enters through q_k, x_k never."""
    return (view.q.amax(2) >= 0.4).long().cumprod(1).sum(1)


def surviving_prefix(view: View) -> Tensor:
    """Prefix: slot k while the product of the confidences so far stays above 0.15."""
    return (view.confidence.cumprod(1) > 0.15).sum(1)


def best_of_the_batch(view: View) -> Tensor:
    """Batch: the most promising half of all rows over all requests, as D-cut cuts. Only for drafts whose confidences do
    not depend on what was drawn."""
    survival = view.confidence.cumprod(1)
    return (survival >= survival.flatten().kthvalue(survival.numel() // 2).values).long().cumprod(1).sum(1)


def drawn_probability(view: View) -> Tensor:
    """Looks at q_k(x_k) itself: rule A only."""
    own = view.q.gather(2, view.tokens.unsqueeze(2)).squeeze(2)
    return (own >= 0.2).long().cumprod(1).sum(1)


# ---- the family --------------------------------------------------------------------------------------------

TARGET, OTHER = chain_logits(8, seed=1), chain_logits(8, seed=1) + chain_logits(8, seed=2, spread=0.8)
SMALL_VOCABULARY = torch.tensor([6, 0, 3, 5])


def drafts(kind: str, params: SamplingParams, logits: Tensor, slots: int = 3) -> Draft:
    if kind == "sequential":
        return drawn(logits, params, slots)
    if kind == "parallel":
        return drawn(logits, params, slots, parallel=True)
    if kind == "d2t":
        return drawn(logits[:, SMALL_VOCABULARY], params, slots, d2t=SMALL_VOCABULARY)
    if kind == "cooler":  # the drafter draws at a temperature of its own, without truncation
        return drawn(logits, SamplingParams(0.6), slots)
    return most_likely(logits, slots)


P = SamplingParams
SETTINGS: list[tuple[Rule, SamplingParams, str, Policy]] = [
    ("A", P(0.3), "sequential", drawn_probability),
    ("A", P(0.7, top_k=5), "sequential", ragged),
    ("A", P(0.7, top_p=0.8), "most_likely", drawn_probability),
    ("A", P(1.0), "parallel", best_of_the_batch),
    ("A", P(1.0, top_k=4, top_p=0.9), "d2t", everything),
    ("A", P(0.3, top_p=0.95), "cooler", confident_prefix),
    ("B", P(0.3), "sequential", ragged),
    ("B", P(0.3, top_k=3), "sequential", confident_prefix),
    ("B", P(0.3, top_p=0.9), "parallel", best_of_the_batch),
    ("B", P(0.7), "d2t", surviving_prefix),
    ("B", P(0.7, top_k=5), "parallel", confident_prefix),
    ("B", P(0.7, top_p=0.8), "sequential", surviving_prefix),
    ("B", P(1.0), "sequential", everything),
    ("B", P(1.0), "sequential", stale_confidence),
    ("B", P(1.0), "parallel", best_of_the_batch),
    ("B", P(1.0, top_k=5, min_p=0.05), "cooler", confident_prefix),
    ("B", P(1.0, top_p=0.9), "most_likely", best_of_the_batch),
    ("B", P(1.0), "d2t", by_position),
]
WIDE: list[tuple[Rule, SamplingParams, str, Policy]] = [  # 64 tokens, of which few or all are possible
    ("A", P(0.7, top_p=0.9), "sequential", ragged),
    ("B", P(0.7, top_k=16), "sequential", confident_prefix),
    ("B", P(1.0), "most_likely", surviving_prefix),
]
FAMILY = len(SETTINGS) + len(WIDE)


@pytest.fixture(scope="module")
def p_values() -> dict[str, float]:
    return {}


def name(setting: tuple[Rule, SamplingParams, str, Policy]) -> str:
    rule, p, kind, policy = setting
    return f"{rule}-T{p.temperature}-k{p.top_k}-p{p.top_p}-{kind}-{policy.__name__}"


@pytest.mark.parametrize("setting", SETTINGS, ids=name)
def test_output_has_the_targets_law(
    setting: tuple[Rule, SamplingParams, str, Policy], p_values: dict[str, float]
) -> None:
    rule, params, kind, policy = setting
    length = 3 if policy is stale_confidence else 2
    tokens = decode(TARGET, drafts(kind, params, OTHER), params, policy, rule, length)
    p_values[name(setting)] = p = p_value(tokens, law(TARGET, params, length))
    assert p > ALPHA / FAMILY


@pytest.mark.parametrize("setting", WIDE, ids=name)
def test_output_has_the_targets_law_over_64_tokens(
    setting: tuple[Rule, SamplingParams, str, Policy], p_values: dict[str, float]
) -> None:
    rule, params, kind, policy = setting
    target = chain_logits(64, seed=3, spread=1.5)
    tokens = decode(target, drafts(kind, params, target + chain_logits(64, 4, 0.5), slots=2), params, policy, rule, 2)
    p_values["wide-" + name(setting)] = p = p_value(tokens, law(target, params, 2))
    assert p > ALPHA / FAMILY


def test_the_family_as_a_whole(p_values: dict[str, float]) -> None:
    """Holm over what ran, and no crowd of small p values either."""
    found = list(p_values.values())
    assert not rejected(found, ALPHA), p_values
    assert len(found) < FAMILY or sum(p < 0.1 for p in found) <= 7  # binomial(21, 0.1): above 7 in 1 of 1,500 families


def test_the_settings_under_rule_b_are_those_the_declarations_allow() -> None:
    looks = {
        everything: "history", ragged: "history", by_position: "history", stale_confidence: "history",
        confident_prefix: "prefix", surviving_prefix: "prefix", best_of_the_batch: "batch",
    }  # fmt: skip
    heads = {"sequential": "sequential", "d2t": "sequential", "cooler": "sequential", "parallel": "parallel"}
    for rule, _, kind, policy in SETTINGS + WIDE:
        if rule == "B":
            assert bias(DraftLooks(heads.get(kind, "deterministic"), "distribution"), looks[policy]) is None
    used = {looks[policy] for rule, _, _, policy in SETTINGS if rule == "B"}
    assert used == {"history", "prefix", "batch"}


# ---- what must be caught -----------------------------------------------------------------------------------

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


def batch_optimum(view: View) -> Tensor:
    """The depth of the best gain: the second confidence, and with it x_1, decides whether slot 1 is verified."""
    return gain(view.tokens).argmax(1)


def early_exit(view: View) -> Tensor:
    """DSpark's algorithm 1: go deeper while the gain grows, stop at the first refusal."""
    g = gain(view.tokens)
    return (g[:, 1:] > g[:, :-1]).long().cumprod(1).sum(1)


def without_the_break(view: View) -> Tensor:
    """Algorithm 1 with its break removed: keep scanning and remember the best depth so far."""
    g = gain(view.tokens)
    best, depth = torch.ones(len(g)), torch.zeros(len(g), dtype=torch.int64)
    for k in (1, 2):
        better = g[:, k] > best
        best, depth = torch.where(better, g[:, k], best), torch.where(better, k, depth)
    return depth


def drawn_confidence(view: View) -> Tensor:
    """Verify slot 1 only when the drawn token looks likely."""
    return (view.tokens[:, 0] == 0).long()


def pair(policy: Policy, rule: Rule) -> Tensor:
    return decode(PAIR_TARGET, drawn(PAIR_DRAFT, PAIR, 2), PAIR, policy, rule, 2)


@pytest.mark.parametrize("policy", [batch_optimum, without_the_break, drawn_confidence])
def test_anticipating_policies_are_caught_under_rule_b_and_harmless_under_rule_a(policy: Policy) -> None:
    biased, truth = pair(policy, "B"), law(PAIR_TARGET, PAIR, 2)
    assert p_value(biased, truth) < CERTAIN
    assert abs((biased[:, 0] == 0).double().mean() - 0.85) < 0.005  # the published value
    assert p_value(pair(policy, "A"), truth) > 1e-3


def test_the_early_exit_is_exact_where_the_scan_without_it_is_not() -> None:
    assert p_value(pair(early_exit, "B"), law(PAIR_TARGET, PAIR, 2)) > 1e-3


def test_the_batch_optimum_is_caught_with_a_sequential_head() -> None:
    """The same policy that is exact for a parallel head: confidences of later slots carry what was drawn before."""
    target, params = chain_logits(4, 5, 2.0), SamplingParams(1.0)
    draft = chain_logits(4, 6, 2.0)
    truth = law(target, params, 2)
    sequential = decode(target, drawn(draft, params, 3), params, forward_looking, "B", 2)
    assert p_value(sequential, truth) < CERTAIN
    parallel = decode(target, drawn(draft, params, 3, parallel=True), params, forward_looking, "B", 2)
    assert p_value(parallel, truth) > 1e-3


def forward_looking(view: View) -> Tensor:
    """All or nothing, by the confidence of the last slot."""
    return torch.where(view.confidence[:, -1] > view.confidence[:, -1].median(), view.q.shape[1], 0)


def test_a_residual_from_the_wrong_draft_distribution_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Third mutant: tokens were drawn from q after temperature, the residual uses q before it."""
    from angelspec.decoding import acceptance

    target, drafter, params = chain_logits(8, 1), chain_logits(8, 2), SamplingParams(0.5)
    untempered, truth = table(drafter, SamplingParams(1.0)).probs(), law(target, params, 2)
    honest = acceptance._residual

    def wrong(final: Categorical, proposal: Proposal, slot: Tensor) -> Categorical:
        previous = torch.cat((torch.full_like(proposal.tokens[:, :1], ANCHOR_TOKEN), proposal.tokens[:, :-1]), 1)
        return honest(final, Proposal(proposal.tokens, proposal.confidence, untempered[previous]), slot)

    draft = drawn(drafter, params, 2)
    assert p_value(decode(target, draft, params, everything, "B", 1), truth.view(8, 8).sum(1)) > 1e-3
    monkeypatch.setattr(acceptance, "_residual", wrong)
    assert p_value(decode(target, draft, params, everything, "B", 1), truth.view(8, 8).sum(1)) < CERTAIN


def test_forgetting_the_map_of_a_small_vocabulary_is_caught() -> None:
    """q scattered to draft ids instead of target ids."""
    params, slots = SamplingParams(1.0), 2
    honest = drafts("d2t", params, OTHER, slots)

    def unmapped(sampling: object, anchors: Tensor, positions: Tensor) -> Proposal:
        proposal = honest(sampling, anchors, positions)  # type: ignore[arg-type]
        assert proposal.q is not None
        q = torch.zeros_like(proposal.q)
        q[..., : len(SMALL_VOCABULARY)] = proposal.q[..., SMALL_VOCABULARY]
        return Proposal(proposal.tokens, proposal.confidence, q)

    truth = law(TARGET, params, 1)
    assert p_value(decode(TARGET, honest, params, everything, "B", 1), truth) > 1e-3
    assert p_value(decode(TARGET, unmapped, params, everything, "B", 1), truth) < CERTAIN


def test_holm_and_pooling_by_hand() -> None:
    assert rejected([0.5, 0.001, 0.004, 0.02], alpha=0.01) == [1]  # .001 < .01/4; .004 > .01/3
    tokens = torch.tensor([[0]] * 60 + [[1]] * 40)
    assert p_value(tokens, torch.tensor([0.6, 0.4], dtype=torch.float64)) == 1.0
    assert p_value(tokens, torch.tensor([1.0, 0.0], dtype=torch.float64)) == 0.0  # something impossible
    pooled = p_value(tokens, torch.tensor([0.6, 0.36, 0.02, 0.02], dtype=torch.float64))
    assert pooled == pytest.approx(p_value(tokens, torch.tensor([0.6, 0.4], dtype=torch.float64)))


def test_a_draft_that_repeats_its_random_numbers_would_leak_through_stale_confidences() -> None:
    """Why DRAFT numbers carry the anchor: the number drawn for a position in two rounds must differ."""
    seeds, position = torch.arange(1000), torch.full((1000,), 9)
    first = philox.uniform(seeds, position, philox.DRAFT, torch.full((1000,), 5))
    second = philox.uniform(seeds, position, philox.DRAFT, torch.full((1000,), 6))
    assert abs(torch.corrcoef(torch.stack((first, second)))[0, 1]) < 0.15 and not (first == second).any()
