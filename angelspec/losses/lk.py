"""LK losses: train the acceptance rate itself, without losing the steep gradient of KL while the draft is still bad
(arXiv 2602.23881).
"""

from __future__ import annotations

import torch
from torch import Tensor

from angelspec.losses.kl import forward_kl
from angelspec.losses.laws import Laws
from angelspec.losses.tv import total_variation


def lk_hybrid(laws: Laws, eta: float = 3.0) -> tuple[Tensor, Tensor]:
    """LK = lam KL(p || q) + (1 - lam) TV(p, q) with lam = exp(-eta alpha), alpha = 1 - TV taken as a constant.

    A bad draft (alpha near 0) learns from KL, a good one (alpha near 1) from TV, slot by slot. KL is taken on the
    draft vocabulary. Returns the value [n] and the gradient with respect to the draft logits [n, V_d].
    """
    tv, tv_gradient = total_variation(laws)
    kl, kl_gradient = forward_kl(laws)
    lam = torch.exp(-eta * (1 - tv))
    return torch.lerp(tv, kl, lam), tv_gradient.lerp_(kl_gradient, lam[:, None])


def lk_alpha(laws: Laws, floor: float = 1e-6) -> tuple[Tensor, Tensor]:
    """LK_alpha = -log alpha, the log-probability of acceptance; d/dz = (dTV/dz) / alpha.

    `floor` bounds alpha from below, so that a draft that shares nothing with the target gives a finite loss (and no
    gradient). Returns the value [n] and the gradient [n, V_d].
    """
    tv, tv_gradient = total_variation(laws)
    alpha = (1 - tv).clamp_min(floor)
    moving = (1 - tv > floor).to(alpha.dtype)
    return -alpha.log(), tv_gradient.mul_((moving / alpha)[:, None])
