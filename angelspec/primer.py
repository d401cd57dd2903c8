"""Draft-then-verify in exact arithmetic, for vocabularies small enough to enumerate everything that can happen.

A law is a tuple of fractions, one per word; a bigram model is one law per last word. Every function walks through all
draws of drafter and target with their probabilities, so that what comes out is equal to what it should be, not close to
it. Used by notebook 00 and by the tests of the two acceptance rules; the real thing is `angelspec.decoding.acceptance`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction

Law = tuple[Fraction, ...]
Bigram = tuple[Law, ...]
Text = tuple[int, ...]


def law(*weights: int) -> Law:
    """Weights as probabilities: law(6, 3, 2, 1) is (1/2, 1/4, 1/6, 1/12)."""
    if not weights or min(weights) < 0 or sum(weights) == 0:
        raise ValueError(f"A law needs non-negative weights with a positive sum; got {weights}.")
    return tuple(Fraction(weight, sum(weights)) for weight in weights)


def overlap(p: Law, q: Law) -> Fraction:
    """Acceptance probability of a drawn draft token under rule B: alpha = sum_v min(p_v, q_v)."""
    return sum((min(a, b) for a, b in zip(p, q, strict=True)), Fraction(0))


def total_variation(p: Law, q: Law) -> Fraction:
    """TV(p, q) = 1/2 sum_v |p_v - q_v|."""
    return sum((abs(a - b) for a, b in zip(p, q, strict=True)), Fraction(0)) / 2


def residual(p: Law, q: Law) -> Law:
    """The law that replaces a rejected draft token: max(p - q, 0), normalised (Leviathan et al., arXiv 2211.17192).

    Where p equals q nothing is ever rejected; p is returned so that the function is total.
    """
    rest = [max(a - b, Fraction(0)) for a, b in zip(p, q, strict=True)]
    return tuple(r / sum(rest) for r in rest) if sum(rest) else p


def round_a(target: Bigram, draft: Bigram, last: int, depth: int) -> dict[Text, Fraction]:
    """Rule A, one round after the word `last`: the text it commits, with probabilities.

    At each slot the drafter draws x and the target, independently, y. The round commits y, and goes on while x = y.
    """
    outcomes: dict[Text, Fraction] = defaultdict(Fraction)
    if depth == 0:
        return {(y,): chance for y, chance in enumerate(target[last])}
    for x, drawn in enumerate(draft[last]):
        for y, sampled in enumerate(target[last]):
            if x != y:
                outcomes[(y,)] += drawn * sampled
                continue
            for tail, chance in round_a(target, draft, y, depth - 1).items():
                outcomes[(y, *tail)] += drawn * sampled * chance
    return dict(outcomes)


def round_b(target: Bigram, draft: Bigram, last: int, depth: int) -> dict[Text, Fraction]:
    """Rule B, one round after the word `last`: the text it commits, with probabilities.

    At each slot the drafter draws x; it stands with probability min(1, p(x)/q(x)), otherwise the round ends with a
    word of the residual law. After `depth` accepted words one more is drawn from the target.
    """
    outcomes: dict[Text, Fraction] = defaultdict(Fraction)
    p = target[last]
    if depth == 0:
        return {(y,): chance for y, chance in enumerate(p)}
    q = draft[last]
    instead = residual(p, q)
    for x, drawn in enumerate(q):
        if drawn == 0:
            continue
        stands = min(Fraction(1), p[x] / drawn)
        for tail, chance in round_b(target, draft, x, depth - 1).items():
            outcomes[(x, *tail)] += drawn * stands * chance
        for y, chance in enumerate(instead):
            outcomes[(y,)] += drawn * (1 - stands) * chance
    return dict(outcomes)


def text_law(rounds: Sequence[Mapping[Text, Fraction]], last: int, length: int) -> dict[Text, Fraction]:
    """Joint law of the first `length` words after `last`, when rounds follow one another.

    rounds[w] is what one round commits after the word w. Words beyond `length` are summed out.
    """
    texts: dict[Text, Fraction] = defaultdict(Fraction)
    unfinished: dict[Text, Fraction] = {(): Fraction(1)}
    while unfinished:
        longer: dict[Text, Fraction] = defaultdict(Fraction)
        for text, so_far in unfinished.items():
            for tail, chance in rounds[text[-1] if text else last].items():
                grown = text + tail
                if len(grown) >= length:
                    texts[grown[:length]] += so_far * chance
                else:
                    longer[grown] += so_far * chance
        unfinished = longer
    return {text: chance for text, chance in texts.items() if chance}


def expected_tokens(outcomes: Mapping[Text, Fraction]) -> Fraction:
    """tau of one round: mean number of committed words, the last one (bonus or correction) included."""
    return sum((len(text) * chance for text, chance in outcomes.items()), Fraction(0))
