"""Mixtures: budgets add up, selection is stable, nested and order-free, and says what is missing."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from angelspec.config import load_config
from angelspec.data.mixtures import MIXTURES, Item, budgets, pool_budgets, select

POOL = [Item(f"{domain}{n:04d}", domain, 20 + 7 * n % 90) for domain in ("chat", "code", "math") for n in range(300)]


def test_weights_are_those_of_the_configuration() -> None:
    assert load_config("config/config.yaml").mixtures == MIXTURES


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(0.01, 10), min_size=1), st.integers(0, 10**9))
def test_budgets_add_up_and_follow_the_weights(weights: dict[str, float], tokens: int) -> None:
    shares = budgets(weights, tokens)
    assert sum(shares.values()) == tokens
    for domain, weight in weights.items():
        assert abs(shares[domain] - tokens * weight / sum(weights.values())) <= 1 + 1e-6 * tokens


def test_budget_examples_and_errors() -> None:
    assert budgets(MIXTURES["code+math"], 1000) == {"code": 450, "math": 450, "chat": 100}
    assert sorted(budgets(MIXTURES["all"], 100).values()) == [33, 33, 34]
    for weights in ({}, {"a": 0.0}, {"a": -1.0, "b": 2.0}):
        with pytest.raises(ValueError, match="mixture weights"):
            budgets(weights, 10)
    with pytest.raises(ValueError, match="token budget is -1"):
        budgets({"a": 1}, -1)


def test_pool_feeds_every_mixture() -> None:
    assert pool_budgets(MIXTURES, 3000) == {"chat": 3000, "code": 1350, "math": 1350}


@pytest.mark.parametrize("name", MIXTURES)
def test_selection_keeps_to_its_budget_and_weights(name: str) -> None:
    chosen, shares = select(POOL, MIXTURES[name], 6000, seed=1)
    tokens = {item.id: item for item in POOL}
    assert (
        len(set(chosen)) == len(chosen)
        and sum(tokens[i].tokens for i in chosen) == sum(s.tokens for s in shares) <= 6000
    )
    for share in shares:
        assert share.wanted - 110 < share.tokens <= share.wanted and share.missing == share.wanted - share.tokens
        assert sum(tokens[i].domain == share.domain for i in chosen) == share.items


def test_selection_ignores_the_order_and_larger_budgets_keep_smaller_ones() -> None:
    shuffled = random.Random(0).sample(POOL, len(POOL))
    chosen, _ = select(POOL, MIXTURES["all"], 6000, seed=1)
    assert select(shuffled, MIXTURES["all"], 6000, seed=1)[0] == chosen
    assert set(chosen) < set(select(POOL, MIXTURES["all"], 9000, seed=1)[0])
    assert set(chosen) != set(select(POOL, MIXTURES["all"], 6000, seed=2)[0])


def test_domains_are_interleaved() -> None:
    domains = [identity[:4] for identity in select(POOL, MIXTURES["all"], 20000, seed=1)[0]]
    changes = sum(a != b for a, b in zip(domains, domains[1:], strict=False))
    assert changes > len(domains) / 2


def test_a_pool_that_is_too_small_is_reported() -> None:
    _, shares = select(POOL[:5], {"chat": 1, "math": 1}, 2000)
    assert [share.missing for share in shares] == [1000 - sum(i.tokens for i in POOL[:5]), 1000]
    with pytest.raises(ValueError, match="occurs twice"):
        select([POOL[0], POOL[0]], {"chat": 1}, 10)
