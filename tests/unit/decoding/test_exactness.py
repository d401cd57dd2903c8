"""The truth table: which drafter, policy and rule may be combined."""

from __future__ import annotations

import pytest

from angelspec.decoding.exactness import BiasedCombination, DraftLooks, bias, require_exact
from angelspec.drafters.ar import ARDrafter
from angelspec.drafters.ngram import NGramDrafter
from angelspec.verification.policies import Fixed, Full, Nothing

EXACT, BIASED = True, False
TABLE = [
    # head, confidence, policy, exact under rule B
    ("parallel", "history", "batch", EXACT),
    ("sequential", "history", "batch", EXACT),
    ("parallel", "distribution", "history", EXACT),
    ("sequential", "distribution", "history", EXACT),
    ("parallel", "distribution", "prefix", EXACT),
    ("sequential", "distribution", "prefix", EXACT),
    ("parallel", "distribution", "batch", EXACT),
    ("sequential", "distribution", "batch", BIASED),
    ("parallel", "drawn", "history", EXACT),
    ("sequential", "drawn", "history", EXACT),
    ("parallel", "drawn", "prefix", BIASED),
    ("sequential", "drawn", "prefix", BIASED),
    ("parallel", "drawn", "batch", BIASED),
    ("sequential", "drawn", "batch", BIASED),
    ("deterministic", "drawn", "batch", EXACT),  # nothing is drawn, so nothing can be anticipated
]


@pytest.mark.parametrize(("head", "confidence", "policy", "exact"), TABLE)
def test_truth_table(head: str, confidence: str, policy: str, exact: bool) -> None:
    looks = DraftLooks(head, confidence)
    assert (bias(looks, policy) is None) == exact
    require_exact("A", looks, policy)  # rule A takes everything
    if exact:
        require_exact("B", looks, policy)
    else:
        with pytest.raises(BiasedCombination, match="biased under rule B.*Use one of: rule A; .*one step old"):
            require_exact("B", looks, policy)


def test_the_refusal_names_both_sides_and_what_would_do() -> None:
    with pytest.raises(BiasedCombination) as error:
        require_exact("B", DraftLooks("sequential", "distribution"), "batch", ("dfly", "top-k"))
    assert "dfly with top-k" in str(error.value) and "prefix policy" in str(error.value)
    with pytest.raises(BiasedCombination, match="q_k alone"):
        require_exact("B", DraftLooks("parallel", "drawn"), "prefix")


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="acceptance rule is 'C'"):
        require_exact("C", DraftLooks("parallel", "history"), "history")


def test_what_exists_declares_itself_exact_under_both_rules() -> None:
    for drafter in (ARDrafter(), NGramDrafter()):
        for policy in (Full(), Nothing(), Fixed(2)):
            require_exact("B", drafter.looks_at, policy.looks_at)
