"""The exact toy: both rules keep the law of whole texts, and the arithmetic agrees with the closed forms."""

from __future__ import annotations

import ast
from fractions import Fraction
from itertools import product
from pathlib import Path

import jupytext
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from angelspec.primer import expected_tokens, law, overlap, residual, round_a, round_b, text_law, total_variation

NOTEBOOKS = Path(__file__).resolve().parents[3] / "notebooks"
WORDS = 3
laws = st.lists(st.integers(0, 6), min_size=WORDS, max_size=WORDS).filter(any).map(lambda weights: law(*weights))
bigrams = st.lists(laws, min_size=WORDS, max_size=WORDS).map(tuple)


def chain_law(target, last, length):
    texts = {}
    for text in product(range(WORDS), repeat=length):
        chance, word = Fraction(1), last
        for following in text:
            chance, word = chance * target[word][following], following
        if chance:
            texts[text] = chance
    return texts


@settings(max_examples=40, deadline=None)
@given(bigrams, bigrams, st.integers(0, 3), st.sampled_from([round_a, round_b]))
def test_texts_have_the_targets_law_whatever_is_drafted(target, draft, depth, rule):
    rounds = [rule(target, draft, word, depth) for word in range(WORDS)]
    assert text_law(rounds, last=0, length=3) == chain_law(target, 0, 3)


@settings(max_examples=100, deadline=None)
@given(laws, laws)
def test_acceptance_is_one_minus_total_variation(p, q):
    assert overlap(p, q) == 1 - total_variation(p, q)
    assert sum(residual(p, q)) == 1
    accepted = sum(chance for text, chance in round_b((p,) * WORDS, (q,) * WORDS, 0, 1).items() if len(text) == 2)
    assert accepted == overlap(p, q)


@settings(max_examples=40, deadline=None)
@given(laws, laws, st.integers(0, 3))
def test_expected_tokens_is_a_geometric_sum(p, q, depth):
    alpha = overlap(p, q)
    assert expected_tokens(round_b((p,) * WORDS, (q,) * WORDS, 0, depth)) == sum(alpha**k for k in range(depth + 1))
    match = sum(a * b for a, b in zip(p, q, strict=True))
    assert expected_tokens(round_a((p,) * WORDS, (q,) * WORDS, 0, depth)) == sum(match**k for k in range(depth + 1))


def test_a_wrong_residual_would_be_seen(monkeypatch):
    """Drawing the replacement from p instead of the residual is the classic mistake; the enumeration shows it."""
    target, draft = (law(6, 3, 2),) * 3, (law(2, 3, 6),) * 3
    monkeypatch.setattr("angelspec.primer.residual", lambda p, q: p)
    rounds = [round_b(target, draft, word, 1) for word in range(WORDS)]
    assert text_law(rounds, last=0, length=2) != chain_law(target, 0, 2)


def test_laws_that_are_none_are_refused():
    for weights in [(), (0, 0), (1, -1, 3)]:
        with pytest.raises(ValueError, match="non-negative weights"):
            law(*weights)


@pytest.mark.parametrize("name", ["00_primer", "01_data_specialization"])
def test_notebooks_are_short_cells_of_narrative_and_figures(name):
    cells = jupytext.read(NOTEBOOKS / f"{name}.py").cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert len(code) <= 25
    assert max(len(cell.source.splitlines()) for cell in code) <= 25
    assert [cell.metadata.get("tags") for cell in code].count(["parameters"]) == 1
    assert cells[0].cell_type == "markdown", "the story comes first"
    assert code[-1].source.count("assert ") >= 4, "the last cell asserts the claims"
    tree = ast.parse("\n".join(cell.source for cell in code))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert not any(isinstance(node, ast.ClassDef) for node in ast.walk(tree))
    assert all((node.end_lineno or 0) - node.lineno < 16 for node in functions)
