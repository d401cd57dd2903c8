"""The two laws of a draft slot, target p and draft q, for a handful of rows at a time.

p lives on the whole target vocabulary V, q on the draft vocabulary V_d. Given the target's hidden state h and the
log-sum-exp over V that was captured while the target answered, p(v) = exp(h . W_v - lse) is exact for every v in V_d
without touching the other V - V_d columns; what p puts outside V_d is one number, `missing = 1 - sum_{v in V_d} p(v)`.
Exact up to the precision of h: from states stored in bfloat16, p sums to 1 within a few per cent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Laws:
    """Draft and target law of n slots.

    logits   [n, V_d]  draft logits z
    log_norm [n]       log sum_v exp z_v
    q        [n, V_d]  exp(z - log_norm), sums to 1
    labels   [n]       int64 true token as draft id, -1 when V_d does not hold it
    teacher  [n, V_d]  log of the target law on V_d, None when no teacher is used
    """

    logits: Tensor
    log_norm: Tensor
    q: Tensor
    labels: Tensor
    teacher: Tensor | None

    @classmethod
    def of(cls, logits: Tensor, labels: Tensor, log_p: Tensor | None = None) -> Laws:
        """Laws from draft logits [n, V_d], labels [n] and the target's log-probabilities [n, V_d]."""
        log_norm = logits.logsumexp(-1)
        q = (logits - log_norm[:, None]).exp_()
        return cls(logits, log_norm, q, labels, log_p)

    @property
    def log_p(self) -> Tensor:
        """log of the target law on V_d [n, V_d]. Raises ValueError when these laws have no teacher."""
        if self.teacher is None:
            raise ValueError("this loss needs the target's law: give the pass a teacher (hidden states and lse)")
        return self.teacher

    @cached_property
    def p(self) -> Tensor:
        """The target law on V_d [n, V_d]; sums to 1 - missing."""
        return self.log_p.exp()

    @property
    def covered(self) -> Tensor:
        """bool [n]: the draft vocabulary holds the label."""
        return self.labels >= 0

    def label_log_q(self) -> Tensor:
        """log q(label) [n]; -inf where V_d does not hold the label."""
        chosen = self.logits.gather(-1, self.labels.clamp_min(0)[:, None])[:, 0] - self.log_norm
        return chosen.masked_fill(~self.covered, -torch.inf)

    @cached_property
    def acceptance(self) -> Tensor:
        """alpha = sum_{v in V_d} min(p, q) [n]: the probability that rejection sampling accepts a draw of q."""
        return torch.minimum(self.p, self.q).sum(-1)

    @cached_property
    def mass(self) -> Tensor:
        """Mass of p inside the draft vocabulary [n]."""
        return self.p.sum(-1)

    @property
    def missing(self) -> Tensor:
        """Mass of p outside the draft vocabulary [n], a lower bound of TV that training cannot remove."""
        return (1 - self.mass).clamp_min(0)
