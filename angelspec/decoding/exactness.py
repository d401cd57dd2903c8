"""Which choices of verification depth keep the output law, decided from declarations.

Rule A (exact match) accepts a draft token iff it equals a target sample that does not depend on the draft. What is not
verified is simply not known yet, so any way of choosing the depth is lossless.

Rule B (rejection sampling, accept with probability min(1, p/q)) is lossless only if the decision to verify slot k uses
nothing that depends on the token x_k drawn for it. Otherwise tokens that raise the confidence are verified (and then
favoured by q) while the others are replaced by fresh target samples: DSpark (arXiv 2607.05147), the early exit of
Algorithm 1, and D-cut (arXiv 2607.14647), appendix B, give two-token examples.

So every drafter declares how its slots depend on each other and what its confidences are made of, every policy declares
what it looks at, and `require_exact` refuses a biased pair before a single token is generated.
"""

from dataclasses import dataclass
from typing import Literal

Rule = Literal["A", "B"]
Head = Literal["deterministic", "parallel", "sequential"]
Confidence = Literal["history", "distribution", "drawn"]
Looks = Literal["history", "prefix", "batch"]


class BiasedCombination(ValueError):
    """A drafter, a policy and an acceptance rule that together would change the distribution of the output."""


@dataclass(frozen=True)
class DraftLooks:
    """What a drafter's proposal and confidence look at.

    head        deterministic  tokens are a function of the committed text (n-gram, greedy drafts): nothing is drawn
                parallel       tokens are drawn, q_k does not depend on the tokens drawn for earlier slots (DFlash)
                sequential     q_k depends on the tokens drawn before it (DFly, DSpark, MTP)
    confidence  history        acceptance statistics, position, load, or confidences of an earlier step
                distribution   a function of q_k alone (largest probability, entropy)
                drawn          q_k at the drawn token x_k
    """

    head: Head
    confidence: Confidence


def bias(draft: DraftLooks, policy: Looks) -> str | None:
    """Why the pair is biased under rule B, or None when it is exact.

    policy  history  the depth is fixed before the current draft is seen
            prefix   slot k is decided from confidences of slots 1..k only; the first refusal ends the request's draft
            batch    an optimum over all current confidences: those of later slots can move the cut in front of slot k
    """
    if policy == "history" or draft.head == "deterministic" or draft.confidence == "history":
        return None
    if draft.confidence == "drawn":
        return "the confidence of slot k is q_k(x_k), so whether x_k is verified depends on which token was drawn"
    if policy == "batch" and draft.head == "sequential":
        return (
            "the policy weighs later slots before it decides slot k, and with a sequential head their confidences "
            "depend on the token drawn for slot k"
        )
    return None


def require_exact(rule: Rule, draft: DraftLooks, policy: Looks, names: tuple[str, str] = ("drafter", "policy")) -> None:
    """Raise BiasedCombination, with the reason and the ways out, unless the combination is lossless."""
    if rule not in ("A", "B"):
        raise ValueError(f"acceptance rule is {rule!r}; expected 'A' (exact match) or 'B' (rejection sampling)")
    reason = bias(draft, policy) if rule == "B" else None
    if reason is None:
        return
    ways = ["rule A", "a policy that looks at history only, such as confidences one step old"]
    if draft.confidence == "drawn":
        ways.append("a confidence made of q_k alone, such as its largest probability, with a prefix policy")
    else:
        ways.append("a prefix policy, which stops at the first refusal")
    raise BiasedCombination(
        f"{names[0]} with {names[1]} is biased under rule B: {reason}. Use one of: " + "; ".join(ways) + "."
    )
