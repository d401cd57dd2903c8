"""Prompt lookup against a search written with lists."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from angelspec.decoding.categorical import Sampling
from angelspec.decoding.drafter import Anchors
from angelspec.decoding.proposal import Proposal
from angelspec.drafters.ngram import NGramDrafter


def propose(drafter: NGramDrafter, texts: list[list[int]]) -> Proposal:
    width = max(len(t) for t in texts) + 5
    history = torch.full((len(texts), width), 99)  # leftovers behind the committed text must not matter
    for i, text in enumerate(texts):
        history[i, : len(text)] = torch.tensor(text)
    last = torch.tensor([len(t) - 1 for t in texts])
    slots = torch.arange(len(texts))
    anchors = Anchors(history[slots, last], last, slots, history)
    return drafter.propose(None, anchors, drafter.slots, Sampling.of([]), None)


def by_lists(text: list[int], count: int, max_n: int, min_n: int) -> list[int]:
    for n in range(min(max_n, len(text) - 1), min_n - 1, -1):
        for end in range(len(text) - 1, n - 1, -1):  # latest earlier occurrence of the last n tokens
            if text[end - n : end] == text[-n:]:
                drafted = list(text)
                for k in range(count):
                    drafted.append(drafted[end + k])
                return drafted[len(text) :]
    return []


@settings(max_examples=200, deadline=None)
@given(
    texts=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=25), min_size=1, max_size=5),
    max_n=st.integers(1, 4),
    data=st.data(),
)
def test_equals_a_search_with_lists(texts: list[list[int]], max_n: int, data: st.DataObject) -> None:
    min_n = data.draw(st.integers(1, max_n))
    proposal = propose(NGramDrafter(4, max_n, min_n), texts)
    for i, text in enumerate(texts):
        expected = by_lists(text, 4, max_n, min_n)
        assert proposal.lengths[i] == len(expected)
        assert proposal.tokens[i, : len(expected)].tolist() == expected


def test_the_longest_match_wins_and_a_period_continues() -> None:
    proposal = propose(NGramDrafter(5, 3, 1), [[1, 2, 3, 7, 9, 3, 8, 1, 2, 3], [4, 5, 4, 5], [1, 2, 3]])
    assert proposal.tokens[0].tolist() == [7, 9, 3, 8, 1]  # "1 2 3" long ago, not "3" just before
    assert proposal.tokens[1].tolist() == [4, 5, 4, 5, 4]
    assert proposal.lengths.tolist() == [5, 5, 0]
    assert torch.allclose(proposal.confidence[:, 0], torch.tensor([3 / 4, 2 / 3, 0.0]))
