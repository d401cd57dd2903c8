"""How much each slot of a chain counts. All functions return weights [C, N] (zero where invalid) that carry no
gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor


def exponential_decay(valid: Tensor, gamma: float) -> Tensor:
    """w_k = exp(-(k-1) / gamma) for slots k = 1..N: late slots are rarely reached (DFlash, arXiv 2602.06036).

    valid [C, N] bool. The paper takes gamma 4, 5, 7 for blocks of 8, 10, 16.
    """
    slot = torch.arange(valid.shape[1], device=valid.device, dtype=torch.float32)
    return torch.exp(-slot / gamma) * valid


def d_pace(label_probability: Tensor, valid: Tensor, a: float = 0.5) -> Tensor:
    """w_j = sum_{k >= j} prod_{i <= k} q'_i with q'_i = (1 - a) q_i + a (D-PACE, arXiv 2605.18810).

    q_i is the draft's probability of the true token. The weight is the expected number of tokens that depend on slot j
    being right, with every q smoothed towards 1 by a, so that hard slots still get a share. label_probability, valid
    [C, N]; an invalid slot neither counts nor breaks the chain.
    """
    smoothed = torch.lerp(label_probability.detach(), torch.ones_like(label_probability), a)
    reach = smoothed.masked_fill(~valid, 1.0).cumprod(-1) * valid
    return reach.flip(-1).cumsum(-1).flip(-1) * valid


def accept_until_fail(correct: Tensor, valid: Tensor) -> Tensor:
    """w_k = 1 for slots up to and including the first wrong one, 0 after it (Spec-AUF, arXiv 2607.01893).

    correct [C, N] bool: the draft's most likely token is the true one. Slots behind a failure would never be reached,
    so they are not trained.
    """
    failures_before = (~correct & valid).cumsum(-1) - (~correct & valid).long()
    return ((failures_before == 0) & valid).float()


def coupling(alpha: Tensor, valid: Tensor) -> Tensor:
    """Surrogate weights of end-to-end training: W_m = (1/D) prod_{i<m} alpha_i S_m with S_m = 1 + alpha_{m+1} S_{m+1},
    S_D = 1.

    W_m = -dL/d alpha_m of the direct form L = 1 - (1/D) sum_j prod_{i<=j} alpha_i: the gain of the accepted length
    when slot m improves. Multiplying them, as constants, onto any per-slot loss couples the depths of MTP end to end
    without depending on TV's gradient (AngelSpec, arXiv 2607.25852). alpha, valid [C, N]; invalid slots count as alpha
    = 1 and have no weight.
    """
    alpha = alpha.detach().masked_fill(~valid, 1.0)
    before = torch.cat([torch.ones_like(alpha[:, :1]), alpha.cumprod(-1)[:, :-1]], dim=-1)
    behind = torch.ones_like(alpha)
    for m in range(alpha.shape[1] - 2, -1, -1):
        behind[:, m] = 1 + alpha[:, m + 1] * behind[:, m + 1]
    return before * behind / alpha.shape[1] * valid
