"""What the answers of a target look like: length, entropy, top-1 mass, repetition. By answer and by token.

Lengths, repetition and loops come from the token ids. Entropy and top-1 mass need the target's law at every answer
token. No second pass over the target is made for them: the final hidden state is stored with every answer, and one
product with the LM head gives the logits back. The stored state is bfloat16, so the result is checked against the
log-sum-exp that was captured in float32 while the target answered; a disagreement means that the two files do not
belong together, or that this architecture changes its logits after the LM head.

Both are of the model's own law (temperature 1, nothing truncated), in nats, whatever mode the answers were sampled in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from angelspec.data.records import AnswerRecord, ShardError, TargetRows

LSE_TOLERANCE = 0.25  # nats; bfloat16 rounding of the hidden state moves the log-sum-exp by a few hundredths


@dataclass(frozen=True)
class TokenLaws:
    """The target's law at n answer tokens, temperature 1."""

    entropy: Tensor  # [n] nats
    top1: Tensor  # [n] largest probability
    hit: Tensor  # [n] bool, the token is the likeliest one
    lse: Tensor  # [n] log-sum-exp of the logits


def token_laws(final_hidden: Tensor, lm_head: Tensor, tokens: Tensor, chunk: int = 256) -> TokenLaws:
    """Laws from final hidden states [n, H], LM head [V, H] and the tokens [n] that followed.

    H = lse - sum_v p_v l_v,    p_v = exp(l_v - lse)

    Peak memory about 3 * chunk * V floats.
    """
    head = lm_head.float()
    parts: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    for start in range(0, len(tokens), chunk):
        logits = final_hidden[start : start + chunk].float() @ head.T
        lse = logits.logsumexp(dim=1)
        top, best = logits.max(dim=1)
        mean = ((logits - lse[:, None]).exp() * logits).sum(dim=1)
        parts.append((lse - mean, (top - lse).exp(), best == tokens[start : start + chunk], lse))
    if not parts:
        empty = torch.zeros(0)
        return TokenLaws(empty, empty, empty.bool(), empty)
    return TokenLaws(*(torch.cat(column) for column in zip(*parts, strict=True)))


def lookup_hits(prompt: Sequence[int], response: Sequence[int], longest: int = 3, shortest: int = 1) -> list[bool]:
    """Per response token: would prompt lookup have guessed it?

    The control looks for the longest n-gram just written (`longest` down to `shortest` tokens) that occurred before in
    prompt or answer, and proposes what followed its latest occurrence. It needs no training: a trained drafter has to
    guess more than this.
    """
    if not 1 <= shortest <= longest:
        raise ValueError(f"n-grams run from {shortest} to {longest}; expected 1 <= shortest <= longest.")
    tokens = [*prompt, *response]
    following: dict[tuple[int, ...], int] = {}
    hits: list[bool] = []
    for place, token in enumerate(tokens):
        grams = [tuple(tokens[place - n : place]) for n in range(longest, shortest - 1, -1) if n <= place]
        if place >= len(prompt):
            guess = next((following[gram] for gram in grams if gram in following), None)
            hits.append(guess == token)
        for gram in grams:
            following[gram] = token
    return hits


def ending_loop(tokens: Sequence[int], longest: int = 40, repeats: int = 3, least: int = 12) -> int:
    """Period of the loop that `tokens` ends in, 0 if it ends in none.

    A loop of period p repeats its last p tokens at least `repeats` times, over at least `least` tokens altogether (so
    that three full stops are no loop). The smallest such period is returned.
    """
    for period in range(1, longest + 1):
        span = max(period * repeats, least)
        if span > len(tokens):
            continue
        tail = tokens[len(tokens) - span :]
        if all(tail[i] == tail[i + period] for i in range(span - period)):
            return period
    return 0


def answer_table(records: Sequence[AnswerRecord], stop_ids: Sequence[int] = ()) -> pd.DataFrame:
    """One row per answer: id, domain, source, turn, prompt_tokens, tokens, finished, lookup, loop_period, looping.

    lookup is the share of answer tokens that prompt lookup guesses; a stop token at the end is counted in it, and left
    out where a loop is looked for.
    """
    rows = []
    for record in records:
        response = list(record.response_ids)
        hits = lookup_hits(record.prompt_ids, response)
        period = ending_loop(response[:-1] if response and response[-1] in stop_ids else response)
        rows.append(
            {
                "id": record.id,
                "domain": record.domain,
                "source": record.source,
                "turn": record.turn,
                "prompt_tokens": len(record.prompt_ids),
                "tokens": len(response),
                "finished": record.finish_reason != "length",
                "lookup": sum(hits) / len(hits) if hits else 0.0,
                "loop_period": period,
                "looping": period > 0,
            }
        )
    return pd.DataFrame(rows)


def sample_places(records: Sequence[AnswerRecord], tokens_per_domain: int, seed: int = 0) -> list[int]:
    """Places of a random sample of answers: from each domain until `tokens_per_domain` answer tokens are reached."""
    order = torch.randperm(len(records), generator=torch.Generator().manual_seed(seed)).tolist()
    taken: dict[str, int] = {}
    places = []
    for place in order:
        record = records[place]
        if taken.get(record.domain, 0) < tokens_per_domain and record.response_ids:
            taken[record.domain] = taken.get(record.domain, 0) + len(record.response_ids)
            places.append(place)
    return sorted(places)


def token_table(answers: Iterable[tuple[AnswerRecord, TargetRows]], lm_head: Tensor) -> pd.DataFrame:
    """One row per answer token: id, domain, turn, position, entropy, top1, hit, lookup.

    Raises ShardError where the logits rebuilt from the stored state disagree with the captured log-sum-exp.
    """
    frames = []
    for record, rows in answers:
        first = (
            len(record.prompt_ids) - 1
        )  # the row after reading the last prompt token predicts the first answer token
        laws = token_laws(rows.final_hidden[first:], lm_head, torch.tensor(record.response_ids))
        error = float((laws.lse - rows.lse[first:]).abs().max()) if len(laws.lse) else 0.0
        if not error <= LSE_TOLERANCE:
            raise ShardError(
                f"Answer {record.id} turn {record.turn}: the log-sum-exp rebuilt from the stored state is {error:.3g} "
                f"nats off the captured one (at most {LSE_TOLERANCE} expected). Is this the target that answered, and "
                "does it leave its logits as the LM head gives them?"
            )
        frames.append(
            pd.DataFrame(
                {
                    "id": record.id,
                    "domain": record.domain,
                    "turn": record.turn,
                    "position": range(len(record.response_ids)),
                    "entropy": laws.entropy.numpy(),
                    "top1": laws.top1.numpy(),
                    "hit": laws.hit.numpy(),
                    "lookup": lookup_hits(record.prompt_ids, record.response_ids),
                }
            )
        )
    if not sum(map(len, frames)):
        raise ShardError("There is no answer with a token in it; nothing can be measured.")
    return pd.concat(frames, ignore_index=True)


def look_ahead(tokens: pd.DataFrame, depth: int) -> pd.DataFrame:
    """How far the likeliest words carry: columns id, domain, and 1 .. depth, one row per answer token.

    Column k is the probability that k words in a row, sampled from the target, are all its likeliest ones; along the
    answer that was given it is the product of top1 over the k tokens. A row lacks (NaN) the columns that run past its
    answer's end.
    """
    parts = []
    for (name, domain, _), answer in tokens.groupby(["id", "domain", "turn"], sort=False):
        top1 = answer.sort_values("position").top1.to_numpy()
        chances = np.full((len(top1), depth), np.nan)
        for k in range(1, depth + 1):
            windows = len(top1) - k + 1
            if windows > 0:
                last = top1[k - 1 :]
                chances[:windows, k - 1] = last if k == 1 else chances[:windows, k - 2] * last
        parts.append(pd.DataFrame(chances, columns=range(1, depth + 1)).assign(id=name, domain=domain))
    return pd.concat(parts, ignore_index=True)


def domain_means(
    table: pd.DataFrame, columns: Sequence[str | int], *, resamples: int = 2000, seed: int = 0
) -> pd.DataFrame:
    """Mean per domain, and over all, with a 95 % bootstrap interval: columns domain, metric, value, lo, hi, n.

    Whole answers (`id`) are drawn again, not rows: the tokens of an answer are no independent observations. n counts
    answers.
    """
    generator = np.random.default_rng(seed)
    rows = []
    groups = [*table.groupby("domain"), ("all", table)]
    for domain, group in groups:
        for column in columns:
            by_answer = group.groupby("id")[column].agg(["sum", "count"]).to_numpy(float)
            by_answer = by_answer[by_answer[:, 1] > 0]
            n = len(by_answer)
            if n == 0:
                continue
            drawn = generator.multinomial(n, np.full(n, 1 / n), size=resamples) @ by_answer
            lo, hi = np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975])
            total = by_answer.sum(axis=0)
            row = {"domain": domain, "metric": column, "value": total[0] / total[1], "lo": lo, "hi": hi, "n": n}
            rows.append(row)
    return pd.DataFrame(rows)
