"""Intervals: by resampling prompts, and for repeated blocks by Student's t.

Everything measured here is a ratio of two sums over prompts: tokens over passes, tokens over seconds, a sum over a
count. Rounds of one answer depend on each other, prompts do not, so whole prompts are drawn again. Two arms that
answered the same prompts are resampled together (paired), which removes what the prompts have in common.

Percentile intervals (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13). With fewer than about
ten prompts they are too narrow; the number of prompts is part of every result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

DRAWS = 2000
LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A value with its interval and the number n of prompts (or blocks) behind it."""

    value: float
    lo: float
    hi: float
    n: int

    def contains(self, x: float) -> bool:
        return self.lo <= x <= self.hi


def resamples(n: int, seed: int, draws: int = DRAWS) -> np.ndarray:
    """How often each of n prompts occurs in each resample: float64 [draws, n], every row sums to n."""
    if n < 1:
        raise ValueError("nothing to resample: there are no prompts")
    return np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=draws).astype(np.float64)


def ratio(numerator: ArrayLike, denominator: ArrayLike, seed: int = 0, draws: int = DRAWS) -> Interval:
    """sum(numerator) / sum(denominator) over prompts, both [n]."""
    top, bottom = _columns(numerator, denominator)
    weights = resamples(len(top), seed, draws)
    return _interval(top.sum() / bottom.sum(), _divide(weights @ top, weights @ bottom), len(top))


def mean(values: ArrayLike, seed: int = 0, draws: int = DRAWS) -> Interval:
    """Mean of one value per prompt [n]."""
    return ratio(values, np.ones_like(np.asarray(values, dtype=float)), seed, draws)


def quotient(
    a: tuple[ArrayLike, ArrayLike], b: tuple[ArrayLike, ArrayLike], seed: int = 0, draws: int = DRAWS
) -> Interval:
    """ratio(b) / ratio(a), paired: element i of all four arrays [n] belongs to the same prompt."""
    ta, ba, tb, bb = _columns(*a, *b)
    weights = resamples(len(ta), seed, draws)
    drawn = _divide(_divide(weights @ tb, weights @ bb), _divide(weights @ ta, weights @ ba))
    return _interval((tb.sum() / bb.sum()) / (ta.sum() / ba.sum()), drawn, len(ta))


def difference(
    a: tuple[ArrayLike, ArrayLike], b: tuple[ArrayLike, ArrayLike], seed: int = 0, draws: int = DRAWS
) -> Interval:
    """ratio(b) - ratio(a), paired by prompt like `quotient`."""
    ta, ba, tb, bb = _columns(*a, *b)
    weights = resamples(len(ta), seed, draws)
    drawn = _divide(weights @ tb, weights @ bb) - _divide(weights @ ta, weights @ ba)
    return _interval(tb.sum() / bb.sum() - ta.sum() / ba.sum(), drawn, len(ta))


def student(values: ArrayLike) -> Interval:
    """Mean of repeated measurements [n] with Student's t interval; no interval (NaN) from a single one."""
    (x,) = _columns(values)
    mid = float(x.mean())
    if len(x) < 2:
        return Interval(mid, math.nan, math.nan, 1)
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(x) - 1) * x.std(ddof=1) / math.sqrt(len(x)))
    return Interval(mid, mid - half, mid + half, len(x))


def paired_ratio(a: ArrayLike, b: ArrayLike) -> Interval:
    """b / a from blocks measured in turn, a[i] beside b[i]: geometric mean of the ratios, t interval of their logs."""
    x, y = _columns(a, b)
    if (x <= 0).any() or (y <= 0).any():
        raise ValueError("ratios need positive measurements")
    log = student(np.log(y / x))
    return Interval(math.exp(log.value), math.exp(log.lo), math.exp(log.hi), log.n)


def _columns(*arrays: ArrayLike) -> list[np.ndarray]:
    columns = [np.asarray(x, dtype=np.float64) for x in arrays]
    shapes = {x.shape for x in columns}
    if len(shapes) != 1 or columns[0].ndim != 1 or not len(columns[0]):
        raise ValueError(f"arrays of shapes {[x.shape for x in columns]}; expected one number per prompt in each")
    return columns


def _divide(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """Resamples whose denominator happens to be zero (only prompts without a pass) do not count: NaN."""
    return np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom != 0)


def _interval(value: float, drawn: np.ndarray, n: int) -> Interval:
    tail = (1 - LEVEL) / 2
    lo, hi = np.nanquantile(drawn, [tail, 1 - tail])
    return Interval(float(value), float(lo), float(hi), n)
