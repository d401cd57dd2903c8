"""Near-duplicate search: prefix filtering finds exactly what comparing all pairs finds."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from angelspec.data.dedup import NearIndex, document_counts, jaccard, keep_distinct, overlaps, shingles

WORDS = st.lists(st.sampled_from(["red", "blue", "cat", "dog", "sun", "run", "eat", "3", "7", "."]), max_size=14).map(
    " ".join
)
TEXTS = st.lists(WORDS, max_size=12)
THRESHOLDS = st.sampled_from([0.1, 0.3, 0.5, 2 / 3, 0.7, 0.8, 1.0])


@settings(max_examples=150, deadline=None)
@given(TEXTS, TEXTS, THRESHOLDS, st.integers(1, 4))
def test_overlaps_equal_the_comparison_of_all_pairs(
    texts: list[str], reference: list[str], threshold: float, n: int
) -> None:
    found = overlaps(texts, reference, threshold, n, mask_numbers=False)
    expected = {}
    for i, text in enumerate(texts):
        for j, other in enumerate(reference):
            similarity = jaccard(shingles(text, n), shingles(other, n))
            if similarity >= threshold:
                expected[i] = (j, similarity)
                break
    assert found == expected


@settings(max_examples=150, deadline=None)
@given(TEXTS, THRESHOLDS)
def test_kept_texts_are_distinct_and_dropped_ones_are_covered(texts: list[str], threshold: float) -> None:
    kept = keep_distinct(texts, threshold, n=2)
    sets = [shingles(text, 2) for text in texts]
    assert all(jaccard(sets[i], sets[j]) < threshold for i in kept for j in kept if i < j)
    for number in set(range(len(texts))) - set(kept):
        assert any(jaccard(sets[number], sets[i]) >= threshold for i in kept if i < number)


@settings(max_examples=100, deadline=None)
@given(TEXTS, THRESHOLDS)
def test_any_order_of_the_shingles_finds_the_same(texts: list[str], threshold: float) -> None:
    sets = [shingles(text, 2) for text in texts]
    for counts in (Counter(), document_counts(sets), document_counts(sets[:1])):
        index = NearIndex(counts, threshold)
        for number, item in enumerate(sets):
            brute = any(jaccard(item, earlier) >= threshold for earlier in sets[:number])
            assert (index.find(item) is not None) == brute
            index.add(item)


def test_shingles_of_texts() -> None:
    assert shingles("One, two!", 2) == {"one ,", ", two", "two !"}
    assert shingles("a b", 4) == {"a b"} and shingles("", 4) == {""}
    assert shingles("pay 1,250.50 or 7", 9, mask_numbers=True) == {"pay 0 or 0"}
    assert jaccard(shingles("a b c", 1), shingles("b c d", 1)) == 0.5


def test_texts_that_differ_in_numbers_only() -> None:
    a, b = "Tom has 12 marbles and loses 5 of them at school", "Tom has 31 marbles and loses 18 of them at school"
    assert overlaps([a], [b], 0.9) == {0: (0, 1.0)} and not overlaps([a], [b], 0.9, mask_numbers=False)


@pytest.mark.parametrize("threshold", [0, -0.5, 1.01])
def test_impossible_thresholds_are_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match="threshold"):
        NearIndex(Counter(), threshold)
