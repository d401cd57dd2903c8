"""Math prompts: every answer is right by a second solution, texts say the facts, kinds are held out."""

from __future__ import annotations

import random
import re
from fractions import Fraction
from itertools import islice

import pytest

from angelspec.data.sources import math
from angelspec.data.sources.story import Draw, Problem, dollars, ordinal, say, times
from tests.unit.data.math_checks import CHECKS

INSTANCES = 60
# Facts that a text gives in words or leaves to the reader (twice, half, "the next one").
UNSAID = {
    "factor",
    "want_distance",
    "want_saving",
    "want_rest",
    "heads",
    "goal",
    "rounds",
    "step",
    "place",
    "count",
    "period",
    "a",
    "b",
    "c",
    "e",
    "cents",
    "back",
    "size",
}
# Numbers that one of the wordings gives indirectly ("177 visitors, of whom 101 were children").
DERIVED = {
    ("ticket_sales", "adults"),
    ("day_after_many", "many"),
    ("arithmetic_sequence", "step"),
    ("triangle_angle", "more"),
}


def make(kind: str, number: int) -> Problem:
    return math.KINDS[kind](Draw(random.Random(f"test:{kind}:{number}")))


@pytest.mark.parametrize("kind", sorted(math.KINDS))
def test_every_answer_agrees_with_a_second_solution(kind: str) -> None:
    for number in range(INSTANCES):
        problem = make(kind, number)
        assert Fraction(CHECKS[kind](**problem.facts)) == Fraction(problem.answer), problem.text


def test_a_wrong_answer_would_be_noticed() -> None:
    problem = make("leaking_tank", 0)
    facts = {**problem.facts, "leak": problem.facts["leak"] - 1, "size": problem.facts["size"] + problem.answer}
    assert CHECKS["leaking_tank"](**facts) == problem.answer
    with pytest.raises(AssertionError):
        CHECKS["leaking_tank"](**{**facts, "size": facts["size"] + 1})


@pytest.mark.parametrize("kind", sorted(math.KINDS))
def test_texts_state_their_numbers_and_read_as_sentences(kind: str) -> None:
    texts = set()
    for number in range(INSTANCES):
        problem = make(kind, number)
        texts.add(re.sub(r"\d+", "0", problem.text))
        spoken = set(re.findall(r"[1-9]\d*|[a-z]+", problem.text.replace(",", "").lower()))
        for name, value in problem.facts.items():
            if name not in UNSAID and isinstance(value, int) and value > 1:
                known = {str(value), say(value), str(2 * value)}
                assert known & spoken or (kind, name) in DERIVED, (name, value, problem.text)
        assert problem.text[-1] in "?.)" and "  " not in problem.text, problem.text
        assert not re.search(r"[{}](?![\w\\])", problem.text.replace("\\boxed", "")) or "^{" in problem.text, (
            problem.text
        )
        assert not re.search(
            r"(?<![\d.,$^-])\b1 (?:hours|liters|laps|minutes|meters|eggs|days|weeks|slices|pieces)\b", problem.text
        )
    assert len(texts) >= 6, f"{kind} has only {len(texts)} wordings in {INSTANCES} problems"


def test_answers_are_what_a_grade_school_problem_has() -> None:
    for kind in math.KINDS:
        for number in range(INSTANCES):
            answer = Fraction(make(kind, number).answer)
            signed = kind in {
                "linear_equation",
                "arithmetic_sequence",
                "nested_functions",
                "repaired_and_sold",
                "missing_number",
            }
            assert signed or answer >= 0, (kind, answer)
            assert answer.denominator <= 30, (kind, answer)


def test_at_least_forty_kinds_and_a_quarter_held_out() -> None:
    assert len(math.KINDS) >= 40
    assert math.EVAL_KINDS.issubset(math.KINDS)
    assert 4 * len(math.EVAL_KINDS) == len(math.KINDS)
    assert set(CHECKS) == set(math.KINDS)


def test_streams_hold_their_kinds_and_only_append() -> None:
    train, held_out = (list(islice(math.generate(split, 5), 200)) for split in ("train", "eval"))
    assert {p.kind for p in train} == set(math.KINDS) - math.EVAL_KINDS
    assert {p.kind for p in held_out} == math.EVAL_KINDS
    assert list(islice(math.generate("train", 5), 50)) == train[:50]
    assert {p.id for p in islice(math.generate("train", 6), 200)}.isdisjoint(p.id for p in train[:50])
    assert all(p.answer for p in train)


def test_prompts_come_bare_and_with_instructions() -> None:
    texts = [p.text for p in islice(math.generate("train", 1), 400)]
    marked = sum("####" in text for text in texts) / len(texts)
    bare = sum(not re.search(r"####|step|boxed|Explain|Answer:|homework", text) for text in texts) / len(texts)
    assert 0.2 < marked < 0.5 and 0.15 < bare < 0.4


def test_a_known_prompt_keeps_its_text() -> None:
    """A change of this id means that every prompt of every run changes: then it has to be meant."""
    first = next(math.generate("train", 0))
    again = next(math.generate("train", 0))
    assert first == again and first.kind in math.KINDS and first.seed == again.seed


@pytest.mark.parametrize(
    ("answer", "text"),
    [(42, "42"), (Fraction(7, 2), "3.5"), (Fraction(2277, 5), "455.4"), (Fraction(2, 3), "2/3"), (-3, "-3")],
)
def test_answers_are_written_exactly(answer: int | Fraction, text: str) -> None:
    assert math.write_answer(answer) == text


def test_number_words() -> None:
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 22, 111)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "111th"]  # fmt: skip
    assert (say(3), say(13), times(2), times(3), dollars(1250), dollars(700)) == (
        "three", "13", "twice", "three times", "$12.50", "$7")  # fmt: skip
