"""Mixtures: which share of the answers each drafter family is trained on.

AngelSpec (arXiv 2607.25852) co-specialises structure and data: the MTP drafter sees conversations, the block drafters
see code and mathematics. Here a mixture is a set of domain weights with one token budget, so that mixtures are compared
at equal size. All mixtures select from one pool of answers, which therefore has to be produced only once.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# The manual is config/config.yaml; these are the same weights for callers without a configuration.
MIXTURES: dict[str, dict[str, float]] = {
    "chat": {"chat": 1.0},
    "code+math": {"code": 0.45, "math": 0.45, "chat": 0.10},
    "all": {"chat": 1.0, "code": 1.0, "math": 1.0},
}


@dataclass(frozen=True)
class Item:
    """One answered prompt as far as a mixture is concerned."""

    id: str
    domain: str
    tokens: int  # answer tokens


@dataclass(frozen=True)
class Share:
    """What a mixture took from one domain."""

    domain: str
    wanted: int  # tokens
    tokens: int
    items: int

    @property
    def missing(self) -> int:
        """Tokens by which the pool fell short."""
        return max(0, self.wanted - self.tokens)


def budgets(weights: Mapping[str, float], tokens: int) -> dict[str, int]:
    """Tokens per domain, in proportion to the weights (which need not add up to 1); they add up to `tokens` exactly.

    Raises:
        ValueError: a negative weight, no positive weight, or a negative budget.
    """
    if tokens < 0:
        raise ValueError(f"token budget is {tokens}, expected at least 0")
    if any(weight < 0 for weight in weights.values()) or not sum(weights.values()) > 0:
        raise ValueError(f"mixture weights are {dict(weights)}, expected non-negative numbers, one of them positive")
    total = sum(weights.values())
    exact = {domain: tokens * weight / total for domain, weight in weights.items()}
    result = {domain: int(value) for domain, value in exact.items()}
    rest = tokens - sum(result.values())
    for domain in sorted(exact, key=lambda name: (result[name] - exact[name], name))[:rest]:
        result[domain] += 1  # largest remainders first
    return result


def pool_budgets(mixtures: Mapping[str, Mapping[str, float]], tokens: int) -> dict[str, int]:
    """Tokens per domain that the shared pool needs so that every mixture can be filled to `tokens`."""
    needed: dict[str, int] = defaultdict(int)
    for weights in mixtures.values():
        for domain, share in budgets(weights, tokens).items():
            needed[domain] = max(needed[domain], share)
    return dict(needed)


def select(
    items: Iterable[Item], weights: Mapping[str, float], tokens: int, seed: int = 0
) -> tuple[list[str], list[Share]]:
    """Choose answers for one mixture.

    Every domain is gone through in an order given by a hash of seed and id, and answers are taken until the next one
    would exceed the domain's budget. So the choice is independent of the order of `items`, and a larger budget keeps
    what a smaller one took.

    Returns:
        The chosen ids, interleaved by the same hash, and what was taken per domain (with what is missing).

    Raises:
        ValueError: an id occurs twice.
    """
    by_domain: dict[str, list[Item]] = defaultdict(list)
    seen: set[str] = set()
    for item in items:
        if item.id in seen:
            raise ValueError(f"id {item.id} occurs twice among the answers; a mixture needs one entry per answer")
        seen.add(item.id)
        by_domain[item.domain].append(item)
    chosen: list[str] = []
    shares: list[Share] = []
    for domain, wanted in budgets(weights, tokens).items():
        taken = count = 0
        for item in sorted(by_domain[domain], key=lambda item: _place(item.id, seed)):
            if taken + item.tokens > wanted:
                break
            taken, count = taken + item.tokens, count + 1
            chosen.append(item.id)
        shares.append(Share(domain, wanted, taken, count))
    return sorted(chosen, key=lambda identity: _place(identity, seed)), shares


def _place(identity: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}:mixture:{identity}".encode()).digest()
