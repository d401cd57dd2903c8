"""Cross entropy with the token that the target really wrote."""

from __future__ import annotations

from torch import Tensor

from angelspec.losses.laws import Laws


def cross_entropy(laws: Laws) -> tuple[Tensor, Tensor]:
    """CE = -log q(y), with gradient dCE/dz = q - onehot(y).

    Returns the value [n] and the gradient with respect to the draft logits [n, V_d]. A label outside the draft
    vocabulary teaches q nothing: value and gradient are zero there.
    """
    covered = laws.covered.to(laws.q.dtype)
    value = -laws.label_log_q().masked_fill(~laws.covered, 0.0)
    gradient = laws.q * covered[:, None]
    gradient.scatter_add_(-1, laws.labels.clamp_min(0)[:, None], -covered[:, None])
    return value, gradient
