"""Total variation between target and draft: one minus the acceptance probability of a slot."""

from __future__ import annotations

from torch import Tensor

from angelspec.losses.laws import Laws


def total_variation(laws: Laws) -> tuple[Tensor, Tensor]:
    """TV = 1/2 (sum_{v in V_d} |p - q| + missing) = 1 - sum_{v in V_d} min(p, q), exact over the whole target
    vocabulary.

    With m_v = 1[q_v < p_v] (the tokens whose draft probability is worth raising) and s = sum_v m_v q_v, the gradient is
    dTV/dz_v = q_v (s - m_v). Returns the value [n] and that gradient [n, V_d].

    Leviathan et al., "Fast inference from transformers via speculative decoding" (arXiv 2211.17192): acceptance = 1 -
    TV.
    """
    value = 1 - laws.acceptance
    worth_raising = (laws.q < laws.p).to(laws.q.dtype).mul_(laws.q)
    gradient = laws.q * worth_raising.sum(-1, keepdim=True)
    return value, gradient.sub_(worth_raising)
