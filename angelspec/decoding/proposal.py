"""What a drafter proposes and what the target decides about it."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Proposal:
    """N draft tokens for each of R requests.

    tokens      int64 [R, N]; token k (1-based) is meant for sequence position S + k, S being the anchor's position
    confidence  float32 [R, N]; estimated probability that token k is accepted given that all before it were
    q           float [R, N, V]: the distribution token k was drawn from, in the target's vocabulary (a drafter with a
                smaller one scatters it through its d2t map); None when tokens are a function of the committed text
    lengths     int64 [R] when some requests got fewer than N tokens, else None. Under rule B they may depend on the
                committed text only; stopping early by confidence is a policy, and has to be declared as one
    parent      int64 [N]: the slot each token continues, -1 for the anchor. None is the chain -1, 0, 1, ...
    """

    tokens: Tensor
    confidence: Tensor
    q: Tensor | None = None
    lengths: Tensor | None = None
    parent: Tensor | None = None

    def __post_init__(self) -> None:
        requests, slots = self.tokens.shape
        if self.confidence.shape != self.tokens.shape:
            raise ValueError(
                f"confidence has shape {list(self.confidence.shape)}; expected that of the tokens, {[requests, slots]}"
            )
        if self.q is not None and self.q.shape[:2] != self.tokens.shape:
            raise ValueError(f"q has shape {list(self.q.shape)}; expected [{requests}, {slots}, vocabulary]")
        if self.parent is not None and self.parent.tolist() != list(range(-1, slots - 1)):
            raise ValueError(
                f"parent is {self.parent.tolist()}; only chains can be verified: expected {list(range(-1, slots - 1))}"
            )

    @classmethod
    def empty(cls, requests: int, device: torch.device | str = "cpu") -> "Proposal":
        """What AR proposes."""
        return cls(torch.zeros(requests, 0, dtype=torch.int64, device=device), torch.zeros(requests, 0, device=device))

    @property
    def survival(self) -> Tensor:
        """s[r, k] = product of the confidences of slots 1..k, float32 [R, N]; 0 past a request's length."""
        s = self.confidence.cumprod(1)
        if self.lengths is None:
            return s
        return s * (torch.arange(s.shape[1], device=s.device) < self.lengths.unsqueeze(1))

    def padded(self, requests: int) -> "Proposal":
        """The same with rows of nothing appended, for requests that are verified without having been drafted for."""
        extra = requests - len(self.tokens)
        if extra == 0:
            return self

        def pad(x: Tensor) -> Tensor:
            return torch.cat((x, x.new_zeros(extra, *x.shape[1:])))

        q = None if self.q is None else pad(self.q)
        lengths = None if self.lengths is None else pad(self.lengths)
        return Proposal(pad(self.tokens), pad(self.confidence), q, lengths, self.parent)


@dataclass(frozen=True)
class Verdict:
    """accepted [R]: draft tokens kept; next_token [R]: the target's token after them (bonus or correction); int64."""

    accepted: Tensor
    next_token: Tensor
