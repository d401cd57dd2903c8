"""Statistics of answers, each against a plain second way of computing it."""

from __future__ import annotations

import math

import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from angelspec.data.records import AnswerRecord, ShardError, TargetRows
from angelspec.data.statistics import (
    answer_table,
    domain_means,
    ending_loop,
    look_ahead,
    lookup_hits,
    sample_places,
    token_laws,
    token_table,
)
from angelspec.decoding.drafter import Anchors
from angelspec.drafters.ngram import NGramDrafter

VOCAB, HIDDEN = 50, 16


def naive_guess(tokens: list[int], longest: int, shortest: int) -> int | None:
    """Scan the whole past for the latest earlier occurrence of the last n tokens, longest n first."""
    for n in range(longest, shortest - 1, -1):
        gram = tokens[len(tokens) - n :]
        for end in range(len(tokens) - 1, n - 1, -1):
            if n <= len(tokens) and tokens[end - n : end] == gram:
                return tokens[end]
    return None


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 3), max_size=12),
    st.lists(st.integers(0, 3), max_size=20),
    st.sampled_from([(3, 1), (2, 2), (4, 2), (1, 1)]),
)
def test_lookup_against_a_scan_of_the_whole_past(prompt, response, sizes):
    longest, shortest = sizes
    tokens = [*prompt, *response]
    expected = []
    for place in range(len(prompt), len(tokens)):
        expected.append(naive_guess(tokens[:place], longest, shortest) == tokens[place])
    assert lookup_hits(prompt, response, longest, shortest) == expected


def test_lookup_prefers_the_longest_and_the_latest():
    # After (1, 2) came 3 and then 4; after 2 alone, 9 came last.
    assert lookup_hits([1, 2, 3, 1, 2, 4, 7, 2, 9, 1, 2], [4]) == [True]
    assert lookup_hits([1, 2, 3, 1, 2, 4, 7, 2, 9, 1, 2], [9], longest=1) == [True]
    with pytest.raises(ValueError, match="1 <= shortest"):
        lookup_hits([1], [1], longest=1, shortest=2)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.lists(st.integers(0, 3), min_size=1, max_size=20))
def test_lookup_guesses_what_the_ngram_drafter_proposes(prompt, response):
    text = torch.tensor([[*prompt, *response]])
    drafter = NGramDrafter(slots=1)
    proposed = []
    for last in range(len(prompt) - 1, text.shape[1] - 1):
        at = torch.tensor([last])
        anchors = Anchors(text[0, at], at, torch.tensor([0]), text)
        proposal = drafter.propose(None, anchors, 1, None, None)
        found = proposal.lengths is None or int(proposal.lengths[0]) > 0
        proposed.append(found and int(proposal.tokens[0, 0]) == int(text[0, last + 1]))
    assert lookup_hits(prompt, response) == proposed


@pytest.mark.parametrize(
    ("tokens", "period"),
    [
        ([1, 2, 3, *[4, 5, 6, 7] * 3], 4),
        ([9] * 12, 1),
        ([9] * 11, 0),  # too short to be called a loop
        ([1, 2] * 6, 2),
        ([*[1, 2] * 6, 3], 0),  # it left the loop again
        ([4, 5, 6, 7] * 2, 0),  # twice is a phrase
        ([8, *[4, 5, 6, 7] * 3, 4, 5], 4),  # cut in mid-period
        (list(range(41)) * 3, 0),  # longer than what is looked for
        ([], 0),
    ],
)
def test_ending_loop(tokens, period):
    assert ending_loop(tokens) == period


def test_token_laws_against_the_definition():
    torch.manual_seed(0)
    hidden, head = torch.randn(37, HIDDEN), torch.randn(VOCAB, HIDDEN)
    tokens = torch.randint(VOCAB, (37,))
    laws = token_laws(hidden, head, tokens, chunk=10)
    probs = (hidden.double() @ head.double().T).softmax(dim=1)
    for i in range(37):
        row = probs[i].tolist()
        assert laws.entropy[i].item() == pytest.approx(-sum(p * math.log(p) for p in row), abs=1e-4)
        assert laws.top1[i].item() == pytest.approx(max(row), abs=1e-5)
        assert bool(laws.hit[i]) == (row.index(max(row)) == int(tokens[i]))
    assert len(token_laws(hidden[:0], head, tokens[:0]).entropy) == 0


def test_uniform_and_certain_laws_have_the_entropy_one_expects():
    laws = token_laws(torch.zeros(1, HIDDEN), torch.randn(VOCAB, HIDDEN), torch.tensor([0]))
    assert laws.entropy.item() == pytest.approx(math.log(VOCAB), abs=1e-5)
    sure = torch.zeros(VOCAB, HIDDEN)
    sure[7] = 100.0
    laws = token_laws(torch.ones(1, HIDDEN), sure, torch.tensor([7]))
    assert laws.entropy.item() == pytest.approx(0.0, abs=1e-4)
    assert laws.top1.item() == pytest.approx(1.0)


def make_record(number: int, domain: str, prompt: int = 4, response: int = 6, reason: str = "stop") -> AnswerRecord:
    ids = [(number * 7 + i * 3) % VOCAB for i in range(prompt + response)]
    messages = ({"role": "user", "content": "x"},)
    return AnswerRecord(
        f"id{number}", domain, "toy", 0, messages, tuple(ids[:prompt]), tuple(ids[prompt:]), reason, number
    )


@pytest.fixture
def answered():
    """Twelve answers with rows whose log-sum-exp really is that of head and state, and the head."""
    torch.manual_seed(1)
    head = torch.randn(VOCAB, HIDDEN)
    records = [make_record(i, ("chat", "code", "math")[i % 3]) for i in range(12)]
    rows = []
    for record in records:
        hidden = torch.randn(record.length - 1, HIDDEN).bfloat16()
        lse = (hidden.float() @ head.T).logsumexp(dim=1)
        rows.append(TargetRows(torch.zeros(record.length - 1, 1, HIDDEN), hidden, lse))
    return list(zip(records, rows, strict=True)), head


def test_token_table_reads_the_row_before_each_answer_token(answered):
    answers, head = answered
    table = token_table(answers, head)
    assert len(table) == sum(len(record.response_ids) for record, _ in answers)
    record, rows = answers[5]
    mine = table[table.id == record.id].sort_values("position")
    for position in range(6):
        law = (rows.final_hidden[4 - 1 + position].float() @ head.T).softmax(dim=0)
        assert mine.top1.iloc[position] == pytest.approx(law.max().item(), abs=1e-5)
        assert mine.hit.iloc[position] == (int(law.argmax()) == record.response_ids[position])


def test_another_lm_head_is_noticed(answered):
    answers, head = answered
    with pytest.raises(ShardError, match="log-sum-exp rebuilt"):
        token_table(answers, head * 1.5)


def test_sample_takes_every_domain_and_is_the_same_again(answered):
    records = [record for record, _ in answered[0]]
    places = sample_places(records, tokens_per_domain=10, seed=3)
    assert places == sample_places(records, tokens_per_domain=10, seed=3)
    taken = [records[place].domain for place in places]
    assert {domain: taken.count(domain) for domain in set(taken)} == {"chat": 2, "code": 2, "math": 2}
    assert sample_places(records, tokens_per_domain=10**6) == list(range(12))


def test_answer_table_counts_what_it_says():
    stop = 49
    looping = AnswerRecord("l", "chat", "toy", 1, (), (1,), (*[5, 6, 7, 8] * 3, stop), "stop", 0)
    cut = AnswerRecord("c", "code", "toy", 0, (), (1, 2), (3, 4), "length", 0)
    table = answer_table([looping, cut], stop_ids=[stop]).set_index("id")
    assert table.loc["l", "looping"]
    assert table.loc["l", "loop_period"] == 4
    assert table.loc["l", "finished"]
    assert table.loc["l", "tokens"] == 13
    assert table.loc["l", "lookup"] == pytest.approx(
        7 / 13
    )  # news: the first period, the return to its start, the stop
    assert not table.loc["c", "looping"]
    assert not table.loc["c", "finished"]
    assert table.loc["c", "lookup"] == 0.0
    assert not answer_table([looping]).looping.iloc[0]  # with the stop token counted in, the loop is not at the end


def test_no_tokens_is_an_error():
    record = AnswerRecord("e", "chat", "toy", 0, (), (1, 2), (), "stop", 0)
    rows = TargetRows(torch.zeros(1, 1, HIDDEN), torch.zeros(1, HIDDEN), torch.zeros(1))
    with pytest.raises(ShardError, match="no answer with a token"):
        token_table([(record, rows)], torch.zeros(VOCAB, HIDDEN))


def test_look_ahead_is_the_product_inside_one_answer():
    top1 = [[0.5, 0.8, 0.9, 1.0], [0.25, 0.5]]
    rows = [
        {"id": f"a{i}", "domain": "chat", "turn": 0, "position": j, "top1": p}
        for i, answer in enumerate(top1)
        for j, p in enumerate(answer)
    ]
    shuffled = pd.DataFrame(rows).sample(frac=1, random_state=0)
    ahead = look_ahead(shuffled, 3)
    assert len(ahead) == 6
    first = ahead[ahead.id == "a0"][[1, 2, 3]].to_numpy()
    expected = [[0.5, 0.4, 0.36], [0.8, 0.72, 0.72], [0.9, 0.9, math.nan], [1.0, math.nan, math.nan]]
    for found_row, expected_row in zip(first, expected, strict=True):
        assert list(found_row) == pytest.approx(expected_row, nan_ok=True)
    second = ahead[ahead.id == "a1"][[1, 2, 3]].to_numpy()
    assert list(second[0]) == pytest.approx([0.25, 0.125, math.nan], nan_ok=True)


def test_domain_means_weigh_tokens_and_resample_answers():
    table = pd.DataFrame(
        {
            "id": ["a"] * 90 + ["b"] * 10 + ["c", "d"],
            "domain": ["chat"] * 100 + ["math"] * 2,
            "x": [1.0] * 90 + [0.0] * 10 + [0.5, math.nan],
        }
    )
    means = domain_means(table, ["x"], resamples=500).set_index("domain")
    assert means.loc["chat", "value"] == pytest.approx(0.9)
    # Two answers: the interval spans from one to the other. Tokens drawn one by one would give 0.84 to 0.96.
    assert (means.loc["chat", "lo"], means.loc["chat", "hi"]) == (0.0, 1.0)
    assert means.loc["chat", "n"] == 2
    assert means.loc["math", "n"] == 1
    assert means.loc["math", "value"] == 0.5
    assert means.loc["all", "value"] == pytest.approx(90.5 / 101)
    pd.testing.assert_frame_equal(domain_means(table, ["x"]), domain_means(table, ["x"]))
