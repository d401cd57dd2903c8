"""Forward Kullback-Leibler divergence from the target, on the draft vocabulary or on the target's likeliest tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from angelspec.losses.laws import Laws


def forward_kl(laws: Laws) -> tuple[Tensor, Tensor]:
    """KL(p' || q) = sum_{v in V_d} p'_v log(p'_v / q_v) with p' = p / sum_{V_d} p, and dKL/dz = q - p'.

    Over all of V the divergence is infinite as soon as p leaves V_d, so the target is conditioned on V_d; the mass
    lost that way is `Laws.missing`. Returns the value [n] and the gradient [n, V_d].
    """
    mass = laws.mass
    expected_gap = torch.linalg.vecdot(laws.p, laws.log_p) - torch.linalg.vecdot(laws.p, laws.logits)
    value = expected_gap / mass - mass.log() + laws.log_norm
    return value, torch.addcdiv(laws.q, laws.p, mass[:, None], value=-1)


def topk_kl(laws: Laws, k: int = 10, renormalise: bool = False) -> tuple[Tensor, Tensor]:
    """KL on the k tokens K that the target likes best.

    renormalise=False: sum_{v in K} p_v log(p_v / q_v) with the full softmaxes; d/dz_v = q_v sum_K p - p_v 1[v in K].
    renormalise=True:  the same with p and q renormalised on K (KL >= 0);     d/dz_v = (q'_v - p'_v) 1[v in K].
    Returns the value [n] and the gradient [n, V_d].
    """
    log_p, chosen = laws.log_p.topk(min(k, laws.log_p.shape[-1]), dim=-1)
    log_q = laws.logits.gather(-1, chosen) - laws.log_norm[:, None]
    if renormalise:
        log_p, log_q = log_p.log_softmax(-1), log_q.log_softmax(-1)
        gradient = torch.zeros_like(laws.q).scatter_(-1, chosen, log_q.exp() - log_p.exp())
    else:
        gradient = laws.q * log_p.exp().sum(-1, keepdim=True)
        gradient.scatter_add_(-1, chosen, -log_p.exp())
    value = (log_p.exp() * (log_p - log_q)).sum(-1)
    return value, gradient
