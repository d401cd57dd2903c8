"""Decoding of many requests at once over a Markov chain, and the test of its output against the enumerated law.

The target is a table: row v holds the logits after token v. So is the drafter. `decode` runs rounds of draft, depth and
verify() until every request has its tokens, as the engine does, without a model in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from angelspec.decoding import philox
from angelspec.decoding.acceptance import verify
from angelspec.decoding.categorical import Categorical, Sampling, SamplingParams
from angelspec.decoding.exactness import Rule
from angelspec.decoding.proposal import Proposal

DRAWS = 200_000
CHUNK = 50_000
ANCHOR_TOKEN, ANCHOR_POSITION = 0, 5
Draft = Callable[[Sampling, Tensor, Tensor], Proposal]  # sampling of R requests, their anchors' tokens and positions


@dataclass(frozen=True)
class View:
    """Everything a choice of depth might look at, allowed or not."""

    q: Tensor  # [R, N, V]
    tokens: Tensor  # [R, N]
    confidence: Tensor  # [R, N]
    stale: Tensor  # [R, N] confidences of the request's last round, 1 before the first
    positions: Tensor  # [R]


Policy = Callable[[View], Tensor]


def chain_logits(vocab: int, seed: int, spread: float = 1.2) -> Tensor:
    return torch.randn(vocab, vocab, generator=torch.Generator().manual_seed(seed)) * spread


def expand(params: SamplingParams, seeds: Tensor) -> Sampling:
    one = Sampling.of([params])
    columns = [c.expand(len(seeds)) for c in (one.temperature, one.top_k, one.top_p, one.min_p)]
    return Sampling(*columns, seeds, all_greedy=one.all_greedy, truncates=one.truncates)


def table(logits: Tensor, params: SamplingParams) -> Categorical:
    return Categorical.from_logits(logits, Sampling.of([params] * len(logits)))


def law(logits: Tensor, params: SamplingParams, length: int) -> Tensor:
    """Enumerated probabilities of the first `length` tokens, float64 [V ** length]."""
    step = table(logits, params).probs()
    joint = step[ANCHOR_TOKEN]
    for _ in range(length - 1):
        last = torch.arange(len(joint)) % len(step)
        joint = (joint.unsqueeze(1) * step[last]).flatten()
    return joint


def drawn(
    logits: Tensor, params: SamplingParams, slots: int, *, parallel: bool = False, d2t: Tensor | None = None
) -> Draft:
    """Drafts drawn from the chain `logits` [V, V_d]: slot k from the row of the token of slot k-1 (sequential), or from
    a row that depends on the anchor and k alone (parallel). d2t [V_d] maps draft ids to tokens."""
    laws = [table(logits.roll(k, 0), params) for k in range(slots)] if parallel else [table(logits, params)] * slots
    vocab = len(logits)

    def draft(sampling: Sampling, anchors: Tensor, positions: Tensor) -> Proposal:
        previous, tokens, q = anchors, [], []
        for k, one in enumerate(laws):
            u = philox.uniform(sampling.seed, positions + k + 1, philox.DRAFT, positions)
            row = Categorical(one.weights[previous], one.total[previous])
            ids, mass = row.sample(u), row.probs()
            tokens.append(ids if d2t is None else d2t[ids])
            q.append(mass if d2t is None else mass.new_zeros(len(mass), vocab).index_copy(1, d2t, mass))
            previous = anchors if parallel else tokens[-1]
        stacked = torch.stack(q, 1)
        return Proposal(torch.stack(tokens, 1), stacked.amax(2).float(), stacked)

    return draft


def most_likely(logits: Tensor, slots: int) -> Draft:
    """Deterministic drafts: the likeliest token after the likeliest token. The confidence is its probability."""

    def draft(sampling: Sampling, anchors: Tensor, positions: Tensor) -> Proposal:
        previous, tokens, confidence = anchors, [], []
        for _ in range(slots):
            confidence.append(logits[previous].softmax(1).amax(1))
            previous = logits[previous].argmax(1)
            tokens.append(previous)
        return Proposal(torch.stack(tokens, 1), torch.stack(confidence, 1))

    return draft


def target_rows(logits: Tensor, anchors: Tensor, tokens: Tensor, draft_rows: Tensor) -> Tensor:
    """Logits of the anchor row and the verified draft rows of every request, flattened."""
    inputs = torch.cat((anchors.unsqueeze(1), tokens), 1)
    return logits[inputs[torch.arange(inputs.shape[1]) <= draft_rows.unsqueeze(1)]]


def decode(
    target: Tensor, draft: Draft, params: SamplingParams, policy: Policy, rule: Rule, length: int, draws: int = DRAWS
) -> Tensor:
    """The first `length` output tokens of `draws` requests with seeds 0, 1, ..., int64 [draws, length]."""
    parts = [
        _decode(target, draft, expand(params, torch.arange(first, min(first + CHUNK, draws))), policy, rule, length)
        for first in range(0, draws, CHUNK)
    ]
    return torch.cat(parts)


def _decode(target: Tensor, draft: Draft, sampling: Sampling, policy: Policy, rule: Rule, length: int) -> Tensor:
    requests = len(sampling.seed)
    out = torch.full((requests, 1), ANCHOR_TOKEN)  # the anchor, then the tokens
    count = torch.zeros(requests, dtype=torch.int64)
    stale: Tensor | None = None
    while bool((count < length).any()):
        busy = (count < length).nonzero().squeeze(1)
        own, anchors, positions = sampling.rows(busy), out[busy, count[busy]], ANCHOR_POSITION + count[busy]
        proposal = draft(own, anchors, positions)
        slots = proposal.tokens.shape[1]
        if stale is None:
            stale = torch.ones(requests, slots)
            out = torch.nn.functional.pad(out, (0, length + slots))
        q = proposal.q if proposal.q is not None else torch.nn.functional.one_hot(proposal.tokens, len(target)).double()
        rows = policy(View(q, proposal.tokens, proposal.confidence, stale[busy], positions))
        stale[busy] = proposal.confidence
        verdict = verify(proposal, target_rows(target, anchors, proposal.tokens, rows), rows, own, positions, rule)
        place = count[busy].unsqueeze(1) + torch.arange(1, slots + 1)
        out[busy.unsqueeze(1), place] = proposal.tokens
        out[busy, count[busy] + verdict.accepted + 1] = verdict.next_token
        count[busy] += verdict.accepted + 1
    return out[:, 1 : length + 1]


def p_value(tokens: Tensor, expected_law: Tensor) -> float:
    """Chi-square of token tuples [n, length] against probabilities [V ** length]; cells expecting below 5 are pooled.
    0 when something impossible was written."""
    n, length = tokens.shape
    vocab = round(len(expected_law) ** (1 / length))
    cell = torch.zeros(n, dtype=torch.int64)
    for k in range(length):
        cell = cell * vocab + tokens[:, k]
    expected = (n * expected_law).numpy()
    counts = cell.bincount(minlength=len(expected)).numpy()
    if counts[expected == 0].sum():
        return 0.0
    rare = expected < 5
    observed, wanted = np.append(counts[~rare], counts[rare].sum()), np.append(expected[~rare], expected[rare].sum())
    if 0 < wanted[-1] < 5 and len(wanted) > 1:  # the pool itself is too small: into the smallest cell
        smallest = wanted[:-1].argmin()
        observed[smallest] += observed[-1]
        wanted[smallest] += wanted[-1]
        observed, wanted = observed[:-1], wanted[:-1]
    possible = wanted > 0
    return float(stats.chisquare(observed[possible], wanted[possible]).pvalue)


def rejected(p_values: Sequence[float], alpha: float) -> list[int]:
    """Indices that Holm's procedure rejects at family-wise level alpha."""
    order = np.argsort(p_values)
    found = []
    for rank, index in enumerate(order):
        if p_values[index] >= alpha / (len(p_values) - rank):
            break
        found.append(int(index))
    return found
