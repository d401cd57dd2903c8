"""verify(): the two lossless acceptance rules, as pure functions of tensors.

Rows. Request r brings draft_rows[r] + 1 rows of target logits, contiguous and in order: row 0 is the anchor's, at
sequence position S; row k belongs to draft token k, at S + k. The logits of row k are the target's distribution of the
token at position S + k + 1, so row k - 1 judges draft token k and row draft_rows[r] gives the token after a full match.

Both rules draw every target sample for sequence position t from the TARGET stream at t. Hence under rule A the tokens
do not depend on the drafts, only the number of passes does: output equals autoregressive output token for token.
"""

import torch
from torch import Tensor

from angelspec.decoding import philox
from angelspec.decoding.categorical import Categorical, Sampling, sample_tokens
from angelspec.decoding.exactness import Rule
from angelspec.decoding.proposal import Proposal, Verdict


def verify(
    proposal: Proposal,
    target_logits: Tensor,
    draft_rows: Tensor,
    sampling: Sampling,
    positions: Tensor,
    rule: Rule = "A",
) -> Verdict:
    """Accept a prefix of each request's draft and draw the token after it.

    proposal for R requests; target_logits [sum(draft_rows + 1), V]; draft_rows int64 [R], each in 0..N; sampling of
    the R requests; positions int64 [R]: S, the anchors' sequence positions. Raises ValueError on shapes that do not
    fit.
    """
    requests, slots = proposal.tokens.shape
    if draft_rows.shape != (requests,) or positions.shape != (requests,):
        raise ValueError(
            f"draft_rows {list(draft_rows.shape)} and positions {list(positions.shape)}: expected one entry for each "
            f"of {requests} requests"
        )
    if slots == 0:
        if len(target_logits) != requests:
            raise ValueError(
                f"{len(target_logits)} logit rows for {requests} anchors without drafts; expected one each"
            )
        next_token = sample_tokens(target_logits, sampling, positions + 1, philox.TARGET)
        return Verdict(torch.zeros_like(draft_rows), next_token)
    ends = (draft_rows + 1).cumsum(0)
    in_range = ((draft_rows >= 0) & (draft_rows <= slots)).all()
    if not bool(in_range & (ends[-1:].sum() == len(target_logits))):
        raise ValueError(
            f"{len(target_logits)} logit rows for draft_rows {draft_rows.tolist()}; expected each in 0..{slots} and "
            "their sum plus one row per request"
        )
    starts = ends - draft_rows - 1
    # [R, N+1]: the logit row of each slot; past a request's own rows the last one, which the mask keeps from counting
    slot = torch.arange(slots + 1, device=draft_rows.device)
    rows = starts.unsqueeze(1) + torch.minimum(slot, draft_rows.unsqueeze(1))
    judge = _match if rule == "A" else _reject
    return judge(proposal, target_logits, draft_rows, sampling, positions, rows)


def _leading(ok: Tensor, draft_rows: Tensor) -> Tensor:
    """Length [R] of the run of True at the start of each row of ok [R, N], among its first draft_rows entries."""
    within = torch.arange(ok.shape[1], device=ok.device) < draft_rows.unsqueeze(1)
    return (ok & within).long().cumprod(1).sum(1)


def _match(
    proposal: Proposal, logits: Tensor, draft_rows: Tensor, sampling: Sampling, positions: Tensor, rows: Tensor
) -> Verdict:
    """Rule A: sample the target at every row; the draft stands as long as it names the same tokens."""
    per_row = sampling
    row_positions = positions
    if not sampling.all_greedy:
        owner = torch.repeat_interleave(draft_rows + 1, output_size=len(logits))
        place = torch.arange(len(logits), device=logits.device) - rows[:, 0][owner]
        per_row, row_positions = sampling.rows(owner), positions[owner] + place + 1
    target = sample_tokens(logits, per_row, row_positions, philox.TARGET)[rows]  # [R, N+1]
    accepted = _leading(target[:, :-1] == proposal.tokens, draft_rows)
    return Verdict(accepted, target.gather(1, accepted.unsqueeze(1)).squeeze(1))


def _reject(
    proposal: Proposal, logits: Tensor, draft_rows: Tensor, sampling: Sampling, positions: Tensor, rows: Tensor
) -> Verdict:
    """Rule B: accept draft token x_k with probability min(1, p(x_k) / q(x_k)); at the first rejection draw from the
    normalised positive part of p - q, after a full match from p (Leviathan et al., arXiv 2211.17192, algorithm 1).
    """
    requests, slots = proposal.tokens.shape
    owner = torch.repeat_interleave(draft_rows + 1, output_size=len(logits))
    target = Categorical.from_logits(logits, sampling.rows(owner))
    drafted = proposal.tokens.flatten()
    at = positions.unsqueeze(1) + torch.arange(1, slots + 1, device=positions.device)  # [R, N] sequence positions
    u = philox.uniform(sampling.seed.repeat_interleave(slots), at.flatten(), philox.ACCEPT)
    judged = rows[:, :-1].flatten()
    p = target.weights[judged, drafted].to(torch.float64) / target.total[judged].to(torch.float64)
    q = _draft_prob(proposal)
    accepted = _leading((u * q < p).view(requests, slots), draft_rows)

    last = rows.gather(1, accepted.unsqueeze(1)).squeeze(1)
    final = Categorical(target.weights[last], target.total[last])
    after = positions + accepted + 1
    bonus = final.sample(philox.uniform(sampling.seed, after, philox.TARGET))
    correction = _residual(final, proposal, accepted.clamp(max=slots - 1)).sample(
        philox.uniform(sampling.seed, after, philox.RESIDUAL)
    )
    return Verdict(accepted, torch.where(accepted == draft_rows, bonus, correction))


def _draft_prob(proposal: Proposal) -> Tensor:
    """q_k(x_k), float64 [R * N]; 1 for deterministic drafts."""
    if proposal.q is None:
        return torch.ones(proposal.tokens.numel(), dtype=torch.float64, device=proposal.tokens.device)
    return proposal.q.gather(2, proposal.tokens.unsqueeze(2)).flatten().to(torch.float64)


def _residual(target: Categorical, proposal: Proposal, slot: Tensor) -> Categorical:
    """Normalised max(p - q, 0) of one slot per request, from the distribution the draft was really drawn from.

    Where p = q nothing is left: a rejection there is a rounding accident of probability 2^-53, and p itself is used.
    """
    p = target.probs()
    request = torch.arange(len(slot), device=slot.device)
    if proposal.q is None:
        rest = p.scatter(1, proposal.tokens[request, slot].unsqueeze(1), 0.0)
    else:
        rest = (p - proposal.q[request, slot].to(torch.float64)).clamp(min=0.0)
    return Categorical.from_masses(torch.where(rest.amax(1, keepdim=True) > 0, rest, p))
