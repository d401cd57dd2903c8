"""End-to-end total variation: the expected accepted length of a chain, trained directly."""

from __future__ import annotations

import torch
from torch import Tensor


def end_to_end_tv(alpha: Tensor, valid: Tensor) -> Tensor:
    """L = 1 - (1/G) sum_{j valid} prod_{i <= j} alpha_i per chain, with alpha_i = 1 - TV_i and G the number of valid
    slots.

    sum_j prod_{i<=j} alpha_i is the expected number of accepted tokens of the chain under rejection sampling with
    these laws, so L = 0 exactly when everything is accepted. alpha, valid [C, N]; an invalid slot has alpha := 1.
    Returns [C], zero for a chain without a valid slot. Differentiable in alpha. AngelSpec (arXiv 2607.25852),
    end-to-end objective of the final stage.
    """
    reach = torch.where(valid, alpha, torch.ones_like(alpha)).cumprod(-1)
    slots = valid.sum(-1)
    return (slots - (reach * valid).sum(-1)) / slots.clamp_min(1)
