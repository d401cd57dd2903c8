"""What a trace says about acceptance, one definition for each word.

A *pass* is one verification of one request by the target. The pass that ends a prompt gives the first token and cannot
have a draft; it is left out everywhere here, as in published acceptance lengths. AR has tau = 1.

tau is published in three forms that differ by up to a token on the same run (4.08 and 5.19 for one model in
https://github.com/NVIDIA/Model-Optimizer/issues/1211), so all three always come together, from `tau`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from angelspec.evaluation import bootstrap
from angelspec.evaluation.bootstrap import Interval
from angelspec.evaluation.trace import confidence_matrix


@dataclass(frozen=True)
class Tau:
    """Tokens per pass. Intervals by prompts.

    tokens         committed tokens / passes over all prompts, the target's own token included (AngelSpec, DFlash,
                   vLLM's mean acceptance length)
    prompts        the mean over prompts of each prompt's own committed / passes
    without_bonus  kept draft tokens / passes: `tokens` - 1 except where a stop cut a block
    """

    tokens: Interval
    prompts: Interval
    without_bonus: Interval


@dataclass(frozen=True)
class Acceptance:
    """Acceptance by slot 1..N, float64 [N] (NaN where a slot was never judged).

    conditional   P(slot k accepted | it was verified and all before it accepted)
    cumulative    P(slots 1..k accepted | slot k was verified)
    survival      products of `conditional`: the estimate of P(slots 1..k accepted) that a choice of depth does not
                  distort as long as it looks at nothing but what happened before (Kaplan and Meier, 1958). Equal to
                  `cumulative` when every row was verified
    judged        passes that judged slot k, the denominator of `conditional`
    """

    conditional: np.ndarray
    cumulative: np.ndarray
    survival: np.ndarray
    judged: np.ndarray


@dataclass(frozen=True)
class ExpectedLength:
    """Tokens per pass that the drafter's confidences promise for a full verification, and what came.

    product_of_means   1 + sum_k prod_{t<=k} mean(c_t): slots treated as independent
    mean_of_products   1 + sum_k mean(prod_{t<=k} c_t): easy rounds are easy in all slots, so this is never smaller
                       when confidences of a round rise and fall together
    survival           1 + sum_k of Acceptance.survival
    """

    product_of_means: float
    mean_of_products: float
    survival: float


def passes(trace: pd.DataFrame) -> pd.DataFrame:
    """The rows of a trace that count as passes."""
    return trace[~trace["prefill"]]


def by_prompt(trace: pd.DataFrame) -> pd.DataFrame:
    """Per request, in the order of ids: passes, committed, kept (draft tokens that became output)."""
    rows = passes(trace)
    kept = np.minimum(rows["accepted"], rows["committed"])
    table = rows.assign(kept=kept, passes=1).groupby("request", sort=True)[["passes", "committed", "kept"]].sum()
    return table.astype(np.int64)


def tau(trace: pd.DataFrame, seed: int = 0) -> Tau:
    """tau in its three forms. Raises ValueError for a trace without a pass."""
    table = by_prompt(trace)
    if not len(table):
        raise ValueError("the trace has no decoding pass; answers of one token need none beyond their prompt")
    count, committed, kept = (table[c].to_numpy(float) for c in ("passes", "committed", "kept"))
    return Tau(
        bootstrap.ratio(committed, count, seed),
        bootstrap.mean(committed / count, seed),
        bootstrap.ratio(kept, count, seed),
    )


def acceptance(trace: pd.DataFrame, slots: int | None = None) -> Acceptance:
    """Acceptance of every slot; `slots` N, by default the longest draft of the trace."""
    rows = passes(trace)
    n = int(rows["drafted"].max() if len(rows) else 0) if slots is None else slots
    k = np.arange(1, n + 1)
    verified, accepted = rows["rows"].to_numpy()[:, None], rows["accepted"].to_numpy()[:, None]
    judged = ((verified >= k) & (accepted >= k - 1)).sum(0)
    reached = (accepted >= k).sum(0)
    conditional = _share(reached, judged)
    return Acceptance(conditional, _share(reached, (verified >= k).sum(0)), np.cumprod(conditional), judged)


def expected_length(trace: pd.DataFrame) -> ExpectedLength:
    """Promised tokens per pass from the confidences of full drafts, by both orders of mean and product.

    Rounds with a shorter draft than the longest are left out: they have no confidence for the last slots.
    """
    rows = passes(trace)
    rows = rows[rows["drafted"] == rows["drafted"].max()]
    if not len(rows) or not rows["drafted"].iloc[0]:
        return ExpectedLength(1.0, 1.0, 1.0)
    c = confidence_matrix(rows).astype(np.float64)
    survival = acceptance(trace).survival
    return ExpectedLength(
        1 + float(np.cumprod(c.mean(0)).sum()),
        1 + float(np.cumprod(c, axis=1).mean(0).sum()),
        1 + float(np.nansum(survival)),
    )


def by_domain(trace: pd.DataFrame, domains: Mapping[str, str]) -> dict[str, pd.DataFrame]:
    """The trace of each domain and of `all`. `domains`: request id -> domain. Raises KeyError naming an unknown id."""
    missing = sorted(set(trace["request"]) - domains.keys())
    if missing:
        raise KeyError(f"requests without a domain: {', '.join(missing[:5])}")
    domain = trace["request"].map(dict(domains))
    return {"all": trace} | {name: trace[domain == name] for name in sorted(set(domain))}


def host_share(trace: pd.DataFrame) -> float:
    """Part of the time of all steps spent on neither target, drafter nor sampler."""
    steps = trace.drop_duplicates("step")
    parts = steps[["draft", "verify", "sample", "commit", "host"]].to_numpy(np.float64).sum(0)
    return float((parts[3] + parts[4]) / parts.sum()) if parts.sum() else 0.0


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0)
