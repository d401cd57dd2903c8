"""The categorical distribution: integer weights, truncation sets by hand and by brute force, samples by chi-square."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from angelspec.decoding import philox
from angelspec.decoding.categorical import SCALE, Categorical, Sampling, SamplingParams, argmax, sample_tokens


def probabilities(logits: list[list[float]], *params: SamplingParams) -> np.ndarray:
    return Categorical.from_logits(torch.tensor(logits), Sampling.of(params)).probs().numpy()


def kept_by_brute_force(weights: list[int], p: SamplingParams) -> set[int]:
    """The definition, token by token: sort by (weight descending, id ascending), cut by k, then mass, then ratio."""
    order = sorted(range(len(weights)), key=lambda v: (-weights[v], v))
    if p.top_k:
        order = order[: p.top_k]
    total, mass, by_mass = sum(weights[v] for v in order), 0, []
    for v in order:
        by_mass.append(v)
        mass += weights[v]
        if p.top_p < 1.0 and mass >= p.top_p * total:
            break
    return {v for v in by_mass if weights[v] >= p.min_p * SCALE and weights[v] > 0}


@pytest.mark.parametrize("temperature", [0.3, 0.7, 1.0, 2.5])
def test_probabilities_are_the_softmax_within_the_stated_bound(temperature: float) -> None:
    logits = torch.randn(5, 1000, generator=torch.Generator().manual_seed(1)) * 3
    ours = Categorical.from_logits(logits, Sampling.of([SamplingParams(temperature)] * 5)).probs().numpy()
    truth = special.softmax(logits.double().numpy() / temperature, axis=1)
    total_variation = 0.5 * np.abs(ours - truth).sum(1).max()
    assert total_variation < 1000 * 2.0**-40 + 1e-6  # the second term is the float32 exponential
    assert np.allclose(ours.sum(1), 1.0, atol=1e-12)


def test_truncation_sets_by_hand() -> None:
    logits = [np.log([0.1, 0.4, 0.2, 0.3]).tolist()]
    cases = [
        (SamplingParams(1.0, top_k=2), [0, 4 / 7, 0, 3 / 7]),
        (SamplingParams(1.0, top_k=9), [0.1, 0.4, 0.2, 0.3]),
        (SamplingParams(1.0, top_p=0.65), [0, 4 / 7, 0, 3 / 7]),
        (SamplingParams(1.0, top_p=0.75), [0, 4 / 9, 2 / 9, 3 / 9]),
        (SamplingParams(1.0, top_p=1e-6), [0, 1, 0, 0]),
        (SamplingParams(1.0, min_p=0.6), [0, 4 / 7, 0, 3 / 7]),
        (SamplingParams(1.0, min_p=1.0), [0, 1, 0, 0]),
        # top-p is taken of what top-k left: 4/7 alone is enough for 0.5, not for 0.6
        (SamplingParams(1.0, top_k=2, top_p=0.5), [0, 1, 0, 0]),
        (SamplingParams(1.0, top_k=2, top_p=0.6), [0, 4 / 7, 0, 3 / 7]),
        (SamplingParams(0.5, top_k=2), [0, 16 / 25, 0, 9 / 25]),
        (SamplingParams(0.0, top_k=2), [0, 1, 0, 0]),
    ]
    ours = probabilities(logits * len(cases), *(p for p, _ in cases))
    assert np.allclose(ours, [truth for _, truth in cases], atol=1e-6)


def test_ties_at_the_cut_keep_the_lowest_ids() -> None:
    ours = probabilities([[1.0, 2.0, 1.0, 1.0, 1.0]] * 2, SamplingParams(1.0, top_k=3), SamplingParams(1.0, top_p=0.7))
    assert (ours[0] > 0).tolist() == [True, True, True, False, False]
    assert (ours[1] > 0).tolist() == [
        True,
        True,
        True,
        False,
        False,
    ]  # masses .144 x 4 and .405 + ...: .40+.15+.15 = .70


@settings(max_examples=150, deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1), vocab=st.sampled_from([1, 2, 5, 64, 65, 700]))
def test_truncation_sets_equal_the_definition(data: st.DataObject, seed: int, vocab: int) -> None:
    params = [
        SamplingParams(
            data.draw(st.sampled_from([0.3, 1.0, 4.0])),
            top_k=data.draw(st.sampled_from([0, 1, 3, 80, 1000])),
            top_p=data.draw(st.sampled_from([1.0, 0.999, 0.9, 0.5, 0.01])),
            min_p=data.draw(st.sampled_from([0.0, 0.01, 0.5, 1.0])),
        )
        for _ in range(3)
    ]
    # rounded logits make ties frequent
    logits = (torch.randn(3, vocab, generator=torch.Generator().manual_seed(seed)) * 2).round()
    plain = Categorical.from_logits(logits, Sampling.of([SamplingParams(p.temperature) for p in params]))
    ours = Categorical.from_logits(logits, Sampling.of(params))
    for row, p in enumerate(params):
        kept = kept_by_brute_force(plain.weights[row].tolist(), p)
        assert set(ours.weights[row].nonzero().squeeze(1).tolist()) == kept
        assert all(ours.weights[row, v] == plain.weights[row, v] for v in kept)


@pytest.mark.parametrize(
    "params",
    [SamplingParams(1.0), SamplingParams(0.3), SamplingParams(0.7, top_k=7), SamplingParams(1.0, top_p=0.8)],
    ids=str,
)
def test_samples_follow_the_distribution(params: SamplingParams) -> None:
    draws, vocab = 100_000, 24
    logits = torch.randn(1, vocab, generator=torch.Generator().manual_seed(3)) * 1.5
    distribution = Categorical.from_logits(logits, Sampling.of([params]))
    positions = torch.arange(draws)
    u = philox.uniform(torch.full_like(positions, 11), positions, philox.TARGET)
    tokens = Categorical(distribution.weights.expand(draws, -1), distribution.total.expand(draws)).sample(u)
    counts, expected = tokens.bincount(minlength=vocab).numpy(), draws * distribution.probs()[0].numpy()
    assert counts[expected == 0].sum() == 0
    rare = expected < 5
    observed, expected = np.append(counts[~rare], counts[rare].sum()), np.append(expected[~rare], expected[rare].sum())
    keep = expected > 0
    assert stats.chisquare(observed[keep], expected[keep]).pvalue > 1e-3


def test_inverse_cdf_at_its_edges() -> None:
    distribution = Categorical.from_masses(torch.tensor([[0.0, 1.0, 0.0, 3.0, 0.0]], dtype=torch.float64))
    levels = {0.0: 1, 0.2499: 1, 0.2501: 3, 1.0 - 2**-53: 3}
    for u, token in levels.items():
        assert distribution.sample(torch.tensor([u], dtype=torch.float64)).item() == token


def test_sampling_does_not_depend_on_the_batch() -> None:
    generator = torch.Generator().manual_seed(5)
    logits = torch.randn(40, 300, generator=generator) * 2
    params = [
        SamplingParams([0.0, 0.8, 1.0, 1.3][i % 4], top_k=[0, 5][i % 2], top_p=[1.0, 0.9, 0.5][i % 3], seed=i)
        for i in range(40)
    ]
    positions = torch.arange(40) * 3
    together = sample_tokens(logits, Sampling.of(params), positions, philox.TARGET)
    for order in (torch.randperm(40, generator=generator), torch.tensor([17]), torch.arange(39, -1, -5)):
        some = Sampling.of([params[i] for i in order])
        assert sample_tokens(logits[order], some, positions[order], philox.TARGET).equal(together[order])
    greedy = torch.tensor([p.temperature == 0 for p in params])
    assert together[greedy].equal(logits.argmax(1)[greedy])


@pytest.mark.parametrize("vocab", [1, 63, 64, 640, 1000])
def test_argmax_takes_the_lowest_id_of_ties(vocab: int) -> None:
    logits = torch.randint(0, 4, (50, vocab), generator=torch.Generator().manual_seed(vocab)).float()
    expected = [row.index(max(row)) for row in logits.tolist()]
    assert argmax(logits).tolist() == expected
    assert sample_tokens(logits, Sampling.of([SamplingParams()] * 50), torch.zeros(50).long(), 0).tolist() == expected


def test_temperature_scales_before_truncation() -> None:
    logits = [[0.0, 1.0, 2.0]]
    hot = probabilities(logits, SamplingParams(10.0, top_p=0.5))[0]
    assert (hot > 0).sum() == 2  # nearly flat: the two likeliest are needed
    cold = probabilities(logits, SamplingParams(0.1, top_p=0.5))[0]
    assert cold.tolist() == [0, 0, 1]
    assert math.isclose(hot[2] / hot[1], math.exp(0.1), rel_tol=1e-6)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -1.0),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
    ]
    + [("min_p", -0.1), ("min_p", 2.0), ("seed", -1), ("seed", 2**63)],
)
def test_parameters_out_of_range_are_refused(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field} is .*expected"):
        SamplingParams(**{field: value})


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_broken_logits_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="finite maximum"):
        sample_tokens(torch.tensor([[0.0, bad]]), Sampling.of([SamplingParams(1.0)]), torch.zeros(1).long(), 0)
