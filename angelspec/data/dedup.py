"""Near-duplicates by Jaccard similarity of word n-grams, found exactly.

Two texts are near-duplicates when the sets of their n-grams A, B satisfy |A & B| / |A | B| >= t. Comparing all pairs
is quadratic; prefix filtering is not, and unlike MinHash it misses nothing: order the n-grams of every text from rare
to common; when J(A, B) >= t, the two texts share at least one of the first |X| - ceil(t |X|) + 1 n-grams of each
(Chaudhuri, Ganti and Kaushik, "A primitive operator for similarity joins", ICDE 2006; Bayardo, Ma and Srikant,
"Scaling up all pairs similarity search", WWW 2007). Instruction phrases that every prompt contains are common, so
they are sorted last and create no candidates.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from math import ceil

WORD = re.compile(r"\w+|[^\w\s]")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")

Shingles = frozenset[str]


def shingles(text: str, n: int = 4, mask_numbers: bool = False) -> Shingles:
    """Set of word n-grams of a text, lower case, punctuation as words; a text shorter than n is one shingle.

    Args:
        n: words per shingle.
        mask_numbers: write every number as 0, so that texts that differ only in their numbers count as equal.
    """
    text = text.lower()
    if mask_numbers:
        text = NUMBER.sub("0", text)
    words = WORD.findall(text)
    if len(words) <= n:
        return frozenset([" ".join(words)])
    return frozenset(" ".join(words[i : i + n]) for i in range(len(words) - n + 1))


def jaccard(a: Shingles, b: Shingles) -> float:
    """|A & B| / |A | B|, in [0, 1]."""
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared)


class NearIndex:
    """Texts that can be asked for a near-duplicate of another text; grows by `add`.

    Args:
        counts: in how many texts each shingle occurs, over all texts or a sample. It fixes the order of the shingles.
            Any fixed order finds the same near-duplicates; a good one has few candidates (unknown counts as rarest).
        threshold: smallest Jaccard similarity that counts as a near-duplicate, in (0, 1].
    """

    def __init__(self, counts: Counter[str], threshold: float) -> None:
        if not 0 < threshold <= 1:
            raise ValueError(f"threshold is {threshold}, expected a value in (0, 1]")
        self.counts = counts
        self.threshold = threshold
        self.items: list[Shingles] = []
        self.postings: dict[str, list[int]] = defaultdict(list)

    def add(self, item: Shingles) -> int:
        """Add a text by its shingles; returns its number."""
        self.items.append(item)
        for shingle in self._prefix(item):
            self.postings[shingle].append(len(self.items) - 1)
        return len(self.items) - 1

    def find(self, item: Shingles) -> tuple[int, float] | None:
        """The first added text within the threshold and its similarity, or None."""
        candidates = {number for shingle in self._prefix(item) for number in self.postings.get(shingle, ())}
        for number in sorted(candidates):
            similarity = jaccard(item, self.items[number])
            if similarity >= self.threshold:
                return number, similarity
        return None

    def _prefix(self, item: Shingles) -> list[str]:
        ordered = sorted(item, key=lambda shingle: (self.counts[shingle], shingle))
        # 1e-9: a product such as 0.7 * 10 = 7.000000000000001 must not be rounded up to 8.
        return ordered[: len(item) - ceil(self.threshold * len(item) - 1e-9) + 1]


def overlaps(
    texts: Sequence[str], reference: Sequence[str], threshold: float, n: int = 4, mask_numbers: bool = True
) -> dict[int, tuple[int, float]]:
    """Texts that have a near-duplicate in a reference set: {index in texts: (index in reference, similarity)}."""
    left = [shingles(text, n, mask_numbers) for text in texts]
    right = [shingles(text, n, mask_numbers) for text in reference]
    index = NearIndex(document_counts([*left, *right]), threshold)
    for item in right:
        index.add(item)
    found = ((number, index.find(item)) for number, item in enumerate(left))
    return {number: hit for number, hit in found if hit is not None}


def keep_distinct(texts: Sequence[str], threshold: float, n: int = 4, mask_numbers: bool = False) -> list[int]:
    """Indices of the texts to keep so that no two kept ones are near-duplicates; the earlier text wins."""
    items = [shingles(text, n, mask_numbers) for text in texts]
    index = NearIndex(document_counts(items), threshold)
    kept = []
    for number, item in enumerate(items):
        if index.find(item) is None:
            index.add(item)
            kept.append(number)
    return kept


def document_counts(items: Iterable[Shingles]) -> Counter[str]:
    """In how many of the texts each shingle occurs."""
    counts: Counter[str] = Counter()
    for item in items:
        counts.update(item)
    return counts
