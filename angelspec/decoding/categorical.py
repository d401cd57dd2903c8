"""The one categorical distribution: temperature, top-k, top-p and min-p, for sampling and for acceptance ratios.

A distribution is a row of integer weights

    w_v = floor( exp((l_v - max l) / T) * 2^40 ),

with the exponential in float32 and everything after it in int64. Integer sums do not depend on the order of summation,
so the cumulative distribution, top-p sets and samples are the same on every device and for every batch shape.

Error of the quantisation: the largest weight is exactly 2^40, so the total is at least that, and flooring takes less
than one unit from each of V weights. Against the float32 softmax the total variation error is at most V * 2^-40
(4.5e-8 for V = 49152); a token less likely than 2^-40 (9e-13) times the most likely one is never drawn.

Truncation follows the order of Hugging Face's warpers: top-k, then top-p on what is left, then min-p. Each keeps a
prefix of the tokens sorted by (weight descending, id ascending), so together they keep the shortest of three prefixes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from angelspec.decoding.philox import uniform

SCALE = 2**40
_FIRST_WIDTH = 64  # candidates looked at first for top-p and min-p; widened eightfold while some row needs more


@dataclass(frozen=True)
class SamplingParams:
    """How one request samples. temperature 0 is greedy (lowest id on ties); top_k 0, top_p 1 and min_p 0 mean off."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature is {self.temperature}; expected a finite number >= 0 (0 is greedy)")
        if self.top_k < 0:
            raise ValueError(f"top_k is {self.top_k}; expected an integer >= 0 (0 switches it off)")
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"top_p is {self.top_p}; expected a number in (0, 1] (1 switches it off)")
        if not 0.0 <= self.min_p <= 1.0:
            raise ValueError(f"min_p is {self.min_p}; expected a number in [0, 1] (0 switches it off)")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed is {self.seed}; expected an integer in [0, 2^63)")

    @property
    def truncates(self) -> bool:
        return self.temperature > 0 and (self.top_k > 0 or self.top_p < 1.0 or self.min_p > 0.0)


@dataclass(frozen=True)
class Sampling:
    """SamplingParams of n rows as tensors. The flags are known on the host, so that a greedy batch costs nothing."""

    temperature: Tensor  # float32 [n]
    top_k: Tensor  # int64 [n]
    top_p: Tensor  # float64 [n]
    min_p: Tensor  # float64 [n]
    seed: Tensor  # int64 [n]
    all_greedy: bool
    truncates: bool  # some row uses top-k, top-p or min-p

    @classmethod
    def of(cls, params: Sequence[SamplingParams], device: torch.device | str = "cpu") -> "Sampling":
        def column(name: str, dtype: torch.dtype) -> Tensor:
            return torch.tensor([getattr(p, name) for p in params], dtype=dtype, device=device)

        return cls(
            column("temperature", torch.float32),
            column("top_k", torch.int64),
            column("top_p", torch.float64),
            column("min_p", torch.float64),
            column("seed", torch.int64),
            all_greedy=all(p.temperature == 0 for p in params),
            truncates=any(p.truncates for p in params),
        )

    def rows(self, index: Tensor | slice) -> "Sampling":
        """The rows `index` (repeats allowed): from requests to their rows, or a part of a batch."""
        return replace(
            self,
            temperature=self.temperature[index],
            top_k=self.top_k[index],
            top_p=self.top_p[index],
            min_p=self.min_p[index],
            seed=self.seed[index],
        )


@dataclass(frozen=True)
class Categorical:
    """n distributions over V tokens as integer weights [n, V] with totals [n]."""

    weights: Tensor
    total: Tensor

    @classmethod
    def from_logits(cls, logits: Tensor, sampling: Sampling) -> "Categorical":
        """logits [n, V] (any float type, read as float32) after temperature and truncation; one-hot where greedy.

        Raises ValueError when a row has no finite maximum (NaN or +inf logits, or all -inf).
        """
        logits = logits.float()
        greedy = sampling.temperature == 0
        top = logits.amax(1, keepdim=True)
        if not bool(top.isfinite().all()):
            raise ValueError(
                "logits with NaN, +inf or nothing but -inf in a row; expected a finite maximum. Check the target."
            )
        scaled = (logits - top).div_(sampling.temperature.masked_fill(greedy, 1.0).unsqueeze(1))
        weights = scaled.exp_().mul_(SCALE).to(torch.int64)
        if sampling.truncates:
            weights = _truncate(weights, sampling)
        if bool(greedy.any()):
            one_hot = torch.zeros_like(weights).scatter_(1, argmax(logits).unsqueeze(1), SCALE)
            weights = torch.where(greedy.unsqueeze(1), one_hot, weights)
        return cls(weights, weights.sum(1))

    @classmethod
    def from_masses(cls, masses: Tensor) -> "Categorical":
        """From non-negative masses [n, V] (float64, not normalised), scaled so that the largest weight is 2^40."""
        weights = (masses / masses.amax(1, keepdim=True) * SCALE).to(torch.int64)
        return cls(weights, weights.sum(1))

    def sample(self, u: Tensor) -> Tensor:
        """Inverse cumulative distribution in vocabulary order at floor(u * total); u float64 [n], tokens int64 [n]."""
        # The product is rounded to 53 bits, the same way on every device; it may round up to the total itself.
        level = torch.minimum((u * self.total.to(torch.float64)).to(torch.int64), self.total - 1)
        return torch.searchsorted(self.weights.cumsum(1), level.unsqueeze(1), right=True).squeeze(1)

    def probs(self) -> Tensor:
        """Probabilities float64 [n, V]."""
        return self.weights.to(torch.float64) / self.total.to(torch.float64).unsqueeze(1)

    def prob(self, tokens: Tensor) -> Tensor:
        """Probability float64 [n] of one token per row."""
        return self.weights.gather(1, tokens.unsqueeze(1)).squeeze(1).to(torch.float64) / self.total.to(torch.float64)


def argmax(logits: Tensor) -> Tensor:
    """Lowest id of the largest logit of each row [n, V]: first the block of 64, then the place in it.

    torch.argmax is not vectorised on CPU; taking block maxima first is twice as fast and gives the same id.
    """
    rows, vocab = logits.shape
    if vocab % 64 or not logits.is_contiguous():
        return logits.argmax(1)
    blocks = logits.view(rows, vocab // 64, 64)
    block = blocks.amax(2).argmax(1)
    inside = blocks[torch.arange(rows, device=logits.device), block].argmax(1)
    return block * 64 + inside


def sample_tokens(logits: Tensor, sampling: Sampling, positions: Tensor, stream: int) -> Tensor:
    """One token per row of logits [n, V] for the sequence positions [n]: argmax where greedy, else by `stream`."""
    if sampling.all_greedy:
        return argmax(logits)
    u = uniform(sampling.seed, positions, stream)
    # A few rows at a time on a CPU: 2^18 weights stay in cache, a batch of 64 rows does not (three times slower).
    step = max(1, 2**18 // logits.shape[1] if logits.device.type == "cpu" else len(logits))
    parts = [
        Categorical.from_logits(logits[i : i + step], sampling.rows(slice(i, i + step))).sample(u[i : i + step])
        for i in range(0, len(logits), step)
    ]
    return torch.cat(parts) if parts else torch.empty(0, dtype=torch.int64, device=logits.device)


def _truncate(weights: Tensor, sampling: Sampling) -> Tensor:
    """Zero the weights [n, V] outside top-k, top-p and min-p.

    The kept set is found from sorted *values*, which ties cannot reorder: its size m, the smallest kept weight, and how
    many tokens of exactly that weight belong to it (the lowest ids). No row is sorted further than needed.
    """
    active = (sampling.top_k > 0) | (sampling.top_p < 1.0) | (sampling.min_p > 0.0)
    rows = (active & (sampling.temperature > 0)).nonzero().squeeze(1)
    full, weights = weights, weights[rows]
    kept, cut = _prefix_sizes(weights, sampling.rows(rows))
    above = weights > cut
    tied = weights == cut
    room = kept - above.sum(1)
    if not bool((tied.sum(1) == room).all()):
        tied &= tied.cumsum(1) <= room.unsqueeze(1)
    full[rows] = weights.masked_fill_(~(above | tied), 0)
    return full


def _prefix_sizes(weights: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """(m [n], smallest kept weight [n, 1]) where m is the length of the shortest of the three prefixes."""
    vocab = weights.shape[1]
    k = torch.where(sampling.top_k > 0, sampling.top_k.clamp(max=vocab), vocab)
    limited = k[k < vocab]
    width = max(_FIRST_WIDTH, int(limited.max()) if limited.numel() else 1)
    total = weights.sum(1)
    floor = (sampling.min_p * SCALE).ceil().to(torch.int64).unsqueeze(1)
    while True:
        width = min(width, vocab)
        top = weights.topk(width, dim=1).values
        mass = top.cumsum(1)
        left = torch.where(k < vocab, mass.gather(1, k.clamp(max=width).unsqueeze(1) - 1).squeeze(1), total)
        needed = torch.minimum((sampling.top_p * left.to(torch.float64)).ceil().to(torch.int64), left)
        by_mass = torch.where(sampling.top_p < 1.0, (mass < needed.unsqueeze(1)).sum(1) + 1, vocab)
        by_ratio = (top >= floor).sum(1)
        if width < vocab:  # a full window proves nothing about what lies beyond it
            by_ratio = torch.where(by_ratio == width, vocab, by_ratio)
        kept = torch.minimum(torch.minimum(k, by_mass), by_ratio).clamp(min=1)
        if width == vocab or not bool((kept > width).any()):
            return kept, top.gather(1, kept.unsqueeze(1) - 1)
        width *= 8
