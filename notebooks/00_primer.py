# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
#   language_info:
#     name: python
# ---

# %% [markdown]
# # 00 · Why draft-then-verify does not change the distribution
#
# A large language model (the *target*) writes one word per pass. A small one (the *drafter*) is fast and often
# guesses the same words. Speculative decoding lets the drafter propose a few words, lets the target look at all of
# them **in one pass**, and keeps those that stand. The claim that everything else in this project rests on is
#
# > the text has exactly the distribution that the target alone would have given it.
#
# Not approximately, and not "with no loss in quality": the same law. Here the claim is proved for a language of four
# words, small enough to walk through everything that can happen, in fractions. Then we look at two ways to lose the
# property by being clever about *which* drafts to check, because that is where real systems get it wrong.

# %%
import sys
from fractions import Fraction
from itertools import product
from pathlib import Path

ROOT = next(folder for folder in (Path.cwd(), *Path.cwd().parents) if (folder / "angelspec").is_dir())
sys.path.insert(0, str(ROOT))

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch

from angelspec import primer
from angelspec.decoding.acceptance import verify
from angelspec.decoding.categorical import Sampling, SamplingParams, sample_tokens
from angelspec.decoding.exactness import DraftLooks, bias
from angelspec.decoding.proposal import Proposal
from angelspec.plotting import style

# %% tags=["parameters"]
draws: int = 100_000  # rounds of the library's own verify() that are compared with the exact law
seed: int = 0  # of those rounds
figures: str = ""  # folder for the figures as SVG and PDF; empty: only show them

# %%
style.use_style()
WORDS = ["tea", "milk", "cup", "end"]
DRAFT, TARGET, LEFT = style.METHOD_COLORS["dflash"], style.METHOD_COLORS["dfly"], style.METHOD_COLORS["mtp"]


def keep(figure, name):
    """Save a figure where the workflow asked for it."""
    if figures:
        style.save(figure, ROOT / figures / f"{name}.svg")


# %% [markdown]
# ## One word
#
# The target's law of the next word is $p$, the drafter's is $q$. They disagree: the drafter believes in *milk*.

# %%
p = primer.law(6, 3, 2, 1)
q = primer.law(3, 6, 1, 2)
pd.DataFrame({"target p": p, "drafter q": q}, index=WORDS).map(str)

# %% [markdown]
# **Rule A, exact match.** Draw $x$ from the drafter and, independently, $y$ from the target. Write $y$. The draft is
# *accepted* if $x = y$, and then the next draft word may be looked at. Whatever happens, $y$ is written, and $y$ was
# drawn from $p$ without a glance at $x$. So the law is $p$, and there is nothing more to prove. A draft is accepted
# with probability $\sum_v p_v q_v$.

# %%
written = [Fraction(0)] * 4
accepted_a = Fraction(0)
for x, y in product(range(4), repeat=2):
    chance = q[x] * p[y]
    written[y] += chance
    accepted_a += chance if x == y else 0

rule_a = tuple(written)
print("written:", *map(str, rule_a), "  target:", *map(str, p), "  accepted:", accepted_a)

# %% [markdown]
# **Rule B, rejection sampling** (Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318). Draw $x$ from
# $q$ and keep it with probability $\min(1, p_x/q_x)$. If it is rejected, write a word drawn from what the target has
# *more* than the drafter, the residual
#
# $$r_v = \frac{\max(p_v - q_v, 0)}{\sum_w \max(p_w - q_w, 0)} .$$
#
# Word $v$ comes in through two doors. Through the first with probability $q_v \min(1, p_v/q_v) = \min(p_v, q_v)$.
# Through the second with $\max(p_v - q_v, 0)$, because a rejection has probability $1 - \sum_w \min(p_w, q_w) =
# \sum_w \max(p_w - q_w, 0)$, which cancels the denominator. And $\min(p_v, q_v) + \max(p_v - q_v, 0) = p_v$.

# %%
residual = primer.residual(p, q)
stands = [min(Fraction(1), a / b) for a, b in zip(p, q, strict=True)]
first_door = [b * s for b, s in zip(q, stands, strict=True)]
rejected = sum(b * (1 - s) for b, s in zip(q, stands, strict=True))
second_door = [rejected * r for r in residual]

rule_b = tuple(a + b for a, b in zip(first_door, second_door, strict=True))
accepted_b = sum(first_door)
pd.DataFrame({"kept draft": first_door, "from residual": second_door, "written": rule_b, "target": p}, index=WORDS).map(
    str
)

# %% [markdown]
# The share that is accepted is the overlap of the two laws. With the total variation distance $TV = \frac12 \sum_v
# |p_v - q_v|$ it is
#
# $$\alpha = \sum_v \min(p_v, q_v) = 1 - TV(p, q) ,$$
#
# and this is why good drafters are trained to bring *TV* down. Rule B accepts more than rule A: it lets the draft
# itself be the sample. But see below what rule A gives in return.

# %%
fig, (left, right) = plt.subplots(1, 2, width_ratios=[2, 1])
place = np.arange(4)
left.bar(place - 0.2, [float(v) for v in q], 0.36, color=DRAFT, label="drafter q")
left.bar(place + 0.2, [float(v) for v in first_door], 0.36, color=TARGET, label="kept draft, min(p, q)")
bottom = [float(v) for v in first_door]
rest = [float(v) for v in second_door]
left.bar(place + 0.2, rest, 0.36, bottom=bottom, color=LEFT, hatch="//", edgecolor="white", label="from the residual")
left.plot(place + 0.2, [float(v) for v in p], "_", color="black", markersize=20, label="target p")
left.set_xticks(place, labels=WORDS)
left.set_ylabel("probability")
left.set_title("Two doors add up to the target")
left.legend(loc="upper right")
right.bar(["rule A", "rule B"], [float(accepted_a), float(accepted_b)], 0.6, color=["0.6", TARGET])
right.axhline(float(1 - primer.total_variation(p, q)), color="black", linestyle=":", label="1 - TV(p, q)")
right.set_title("Draft words accepted")
right.set_ylabel("probability")
right.set_ylim(0, 0.85)
right.legend(loc="upper left")
keep(fig, "00_two_doors")

# %% [markdown]
# ## Many words
#
# Text is written in rounds. In a round the drafter proposes $N$ words; they are checked from the left until one
# falls, and the round ends with one word of the target's own: the replacement of the fallen draft, or a *bonus* word
# after the last one. A round always commits at least one word, so speculative decoding never gets stuck.
#
# Now words depend on the word before. Target and drafter are bigram models: one law for each last word.

# %%
target = (primer.law(1, 6, 3, 2), primer.law(4, 1, 4, 3), primer.law(5, 2, 0, 5), primer.law(3, 3, 3, 3))
drafter = (primer.law(2, 8, 1, 1), primer.law(1, 1, 8, 2), primer.law(3, 3, 3, 3), primer.law(0, 5, 5, 2))
N, LENGTH = 3, 4

alone = {}
for text in product(range(4), repeat=LENGTH):
    chance, last = Fraction(1), 0
    for word in text:
        chance, last = chance * target[last][word], word
    if chance:
        alone[text] = chance
print(f"{len(alone)} texts of {LENGTH} words can follow 'tea'; their probabilities add up to {sum(alone.values())}")

# %% [markdown]
# `primer.round_a` and `primer.round_b` walk through every draw of drafter and target in a round of $N = 3$;
# `primer.text_law` chains rounds until four words are there. The drafts are bad on purpose (after *cup* the drafter
# knows nothing, and it proposes words that the target never writes). The law of the texts must still be the target's,
# fraction by fraction.

# %%
text_laws = {}
for name, play in {"rule A": primer.round_a, "rule B": primer.round_b}.items():
    rounds = [play(target, drafter, last, N) for last in range(4)]
    text_laws[name] = primer.text_law(rounds, last=0, length=LENGTH)
    tau = primer.expected_tokens(rounds[0])
    print(
        f"{name}: {len(alone)} texts, equal to the target: {text_laws[name] == alone}; words a round: {float(tau):.3f}"
    )

# %% [markdown]
# ## How many words does a round give?
#
# Draft word $k$ is reached only if all before it stood. If each is accepted with probability $\alpha$, independently,
#
# $$\tau = 1 + \alpha + \alpha^2 + \dots + \alpha^N = \frac{1 - \alpha^{N+1}}{1 - \alpha} .$$
#
# This is the *mean accepted length* of the papers (MAL, $\tau$; the last word is counted). It saturates: at $\alpha =
# 0.5$ no drafter, however long its drafts, gets beyond two words. Later words are worth less and cost the target the
# same. Points are enumerated with the one-word laws from above, lines are the formula.

# %%
depths = list(range(9))
alphas = {"rule A": accepted_a, "rule B": accepted_b}
enumerated = {
    name: [primer.expected_tokens(play((p,) * 4, (q,) * 4, 0, depth)) for depth in depths[:5]]
    for name, play in {"rule A": primer.round_a, "rule B": primer.round_b}.items()
}
formula = {name: [sum(alpha**k for k in range(depth + 1)) for depth in depths] for name, alpha in alphas.items()}

fig, axes = plt.subplots()
for alpha in (0.5, 0.7, 0.8, 0.9):
    axes.plot(depths, [(1 - alpha ** (n + 1)) / (1 - alpha) for n in depths], color=LEFT, linestyle="--")
    axes.annotate(f"α = {alpha}", (8, (1 - alpha**9) / (1 - alpha)), xytext=(4, -3), textcoords="offset points")
for name, color, marker in (("rule A", "0.6", "s"), ("rule B", TARGET, "o")):
    axes.plot(depths, [float(t) for t in formula[name]], color=color)
    points = [float(t) for t in enumerated[name]]
    axes.plot(depths[:5], points, marker, color=color, label=f"{name}, α = {alphas[name]} (enumerated)")
axes.set(xlabel="draft words N", ylabel="words per round, τ", title="Long drafts saturate", xlim=(-0.2, 8.9))
axes.legend(loc="upper left")
keep(fig, "00_words_per_round")

# %% [markdown]
# ## The same with the library
#
# `angelspec.decoding.acceptance.verify` is what the engine runs. We let it judge many independent one-word drafts. Its
# random numbers come from a counter-based generator keyed by (request seed, position, purpose), so that each "request"
# here is one seed. Under rule A something stronger than equality of laws holds: the target's sample does not depend
# on the draft, hence speculative output equals plain decoding *token for token* for the same seed, at any
# temperature.

# %%
generator = torch.Generator().manual_seed(seed)
logits = torch.tensor([float(v) for v in p]).log()
q_float = torch.tensor([float(v) for v in q], dtype=torch.float64)
drafts = torch.multinomial(q_float, draws, replacement=True, generator=generator).unsqueeze(1)
requests = Sampling.of([SamplingParams(temperature=1.0, seed=seed * draws + i) for i in range(draws)])
position = torch.zeros(draws, dtype=torch.int64)
depth = torch.ones(draws, dtype=torch.int64)
proposal = Proposal(drafts, torch.ones(draws, 1), q=q_float.expand(draws, 1, 4))


# %%
def first_words(rule):
    """First committed word of every round, and the share of drafts that were accepted."""
    verdict = verify(proposal, logits.expand(2 * draws, 4), depth, requests, position, rule)
    return torch.where(verdict.accepted == 1, drafts[:, 0], verdict.next_token), verdict.accepted.double().mean().item()


library = {rule: first_words(rule) for rule in "AB"}
plain = sample_tokens(logits.expand(draws, 4), requests, position + 1, stream=0)
table = pd.DataFrame({"target p": [float(v) for v in p]}, index=WORDS)
for rule, (words, _) in library.items():
    table[f"verify, rule {rule}"] = torch.bincount(words, minlength=4).double() / draws
table["3 standard errors"] = 3 * (table["target p"] * (1 - table["target p"]) / draws) ** 0.5
same_tokens = bool((library["A"][0] == plain).all())
print(f"rule A equals plain decoding in {'all' if same_tokens else 'NOT all'} of {draws:,} rounds")
for rule, exact in (("A", accepted_a), ("B", accepted_b)):
    print(f"accepted under rule {rule}: {library[rule][1]:.4f} (exact {float(exact):.4f})")
table.round(4)

# %% [markdown]
# ## How to break it: looking at what one is about to check
#
# Checking costs time, so a good system asks *which* drafts are worth checking; that is the subject of notebook 05.
# Under rule B the answer for slot $k$ must not depend on the word $x_k$ that was drawn for it. Two words, target
# $(0.7, 0.3)$, drafter $(0.5, 0.5)$. Suppose that the drafter looks more confident about the *second* slot when its
# first draft was word 0. Both examples below are sensible at first sight.
#
# **Example 1, throughput.** Verifying $j$ draft words gives $1 + a_1 + \dots + a_j$ expected words at a speed of
# $SPS(1 + j)$ steps a second, where $a_j = c_1 \cdots c_j$; take the best $j$. The speed falls in jumps, as on a real
# device: it is $1, 0.6, 0.55$. This is Algorithm 1 of DSpark (arXiv 2607.05147) *without* its early stop.
#
# **Example 2, cost.** Verifying costs $1, 1.6, 1.85$; take the depth with the most expected words per unit of cost.
# First confidence $0.5$ (the drafter's largest probability), second $0.9$ or $0.55$ by $x_1$.

# %%
p2, q2 = primer.law(7, 3), primer.law(1, 1)
EXAMPLES = {
    "1: throughput": {"speed": (1.0, 0.6, 0.55), "first": 0.6, "second": (0.9, 0.2)},
    "2: cost": {"speed": (1.0, 1 / 1.6, 1 / 1.85), "first": 0.5, "second": (0.9, 0.55)},
}


def choose_depth(example, second, stop_early=False):
    """Depth 0, 1 or 2 with the most words per second; `stop_early` ends the search at the first one that is no gain."""
    words = np.cumsum([1.0, example["first"], example["first"] * second])
    value = words * example["speed"]
    if stop_early:
        return next((j for j in (0, 1) if value[j + 1] <= value[j]), 2)
    return int(value.argmax())


pd.DataFrame(
    {name: [choose_depth(example, c) for c in example["second"]] for name, example in EXAMPLES.items()},
    index=["drafts checked if x₁ = 0", "drafts checked if x₁ = 1"],
)

# %% [markdown]
# So a drafted 0 is checked, and under rule B it always stands ($p_0 > q_0$). A drafted 1 is *not* checked: it is thrown
# away, and a fresh word is drawn from the target, which is 0 in seven cases of ten. Word 0 gets the best of both
# worlds:
#
# $$P(0) = \tfrac12 \cdot 1 + \tfrac12 \cdot 0.7 = 0.85 .$$
#
# Every single step looked fair. Now all ways to decide, each enumerated exactly.


# %%
def output_law(rule, depth_of):
    """Exact law of the first word when `depth_of(x1)` decides whether the drawn x1 is checked."""
    law = [Fraction(0), Fraction(0)]
    for x, drawn in enumerate(q2):
        if depth_of(x) == 0 or rule == "A":  # the target's sample is written, whatever was drafted
            outcome = p2
        else:
            stands = min(Fraction(1), p2[x] / drawn)
            instead = primer.residual(p2, q2)
            outcome = [stands * (v == x) + (1 - stands) * instead[v] for v in range(2)]
        law = [a + drawn * b for a, b in zip(law, outcome, strict=True)]
    return tuple(law)


# %%
laws, stale = {}, {0: 2, 1: 0}
for name, example in EXAMPLES.items():

    def best(x, example=example):
        return choose_depth(example, example["second"][x])

    def cautious(x, example=example):
        return choose_depth(example, example["second"][x], stop_early=True)

    laws[name, "B, best depth now"] = output_law("B", best)
    laws[name, "B, stop at the first refusal"] = output_law("B", cautious)
    old = [output_law("B", lambda x, y=y: best(y)) for y in range(2)]  # y: the draft of the step before
    laws[name, "B, confidences one step old"] = tuple(sum(q2[y] * old[y][v] for y in range(2)) for v in range(2))
    laws[name, "A, best depth now"] = output_law("A", best)
table = pd.DataFrame({key: [str(v) for v in value] for key, value in laws.items()}, index=["P(0)", "P(1)"]).T
table

# %% [markdown]
# Three ways out, all of them in this project. **Stop at the first refusal**: slot 1 is decided from $c_1$ alone, and
# $c_1$ was known before $x_1$ was drawn. **Old confidences**: they say something about the last draft, nothing about
# this one. **Rule A**: the target's sample does not care what was checked, so that any cleverness is allowed.

# %%
ways = ["B, best depth now", "B, stop at the first refusal", "B, confidences one step old", "A, best depth now"]
fig, axes = plt.subplots(figsize=(style.WIDTH_IN, 2.6))
for shift, (name, hatch) in zip((-0.19, 0.19), (("1: throughput", ""), ("2: cost", "//")), strict=True):
    heights = [float(laws[name, way][0]) for way in ways]
    colors = [LEFT if abs(height - 0.7) > 1e-12 else TARGET for height in heights]
    bars = axes.barh(np.arange(4) + shift, heights, 0.34, color=colors, hatch=hatch, edgecolor="white")
    axes.bar_label(bars, [f"{height:.2f}  example {name}" for height in heights], padding=3, fontsize="small")
axes.axvline(0.7, color="black", linestyle=":")
axes.annotate("target 0.7", (0.7, -0.55), xytext=(3, 0), textcoords="offset points", fontsize="small")
axes.set_yticks(range(4), labels=ways)
axes.set(
    xlabel="probability of word 0",
    xlim=(0, 1.25),
    ylim=(3.5, -0.75),
    title="What is written, by how the depth is chosen",
)
axes.grid(False)
keep(fig, "00_biased_depth")

# %% [markdown]
# The engine does not leave this to care: drafters and policies *declare* what they look at, and a pair that is biased
# under rule B is refused with the reason. The whole table:

# %%
heads = {"parallel head": "parallel", "sequential head": "sequential"}
sources = {
    "history, load, old confidences": ("history", "batch"),
    "max q or entropy, stop at the first refusal": ("distribution", "prefix"),
    "optimum over all current confidences": ("distribution", "batch"),
    "q of the drawn word": ("drawn", "prefix"),
}
reasons = {
    (source, head): bias(DraftLooks(kind, confidence), policy)
    for source, (confidence, policy) in sources.items()
    for head, kind in heads.items()
}
verdicts = {key: "exact" if reason is None else "biased" for key, reason in reasons.items()}
print(reasons["optimum over all current confidences", "sequential head"])
pd.Series(verdicts).unstack()[list(heads)].reindex(sources)

# %% [markdown]
# ## What was claimed
#
# The last cell of every notebook asserts what its text says. Here all of it is exact except the sampling check.

# %%
assert rule_a == p and rule_b == p, "both rules write the target's law"
assert accepted_b == 1 - primer.total_variation(p, q) == primer.overlap(p, q), "acceptance is 1 - TV"
assert accepted_a < accepted_b, "rule B accepts more than rule A"
assert text_laws["rule A"] == text_laws["rule B"] == alone, "whole texts have the target's law"
assert all(enumerated[rule] == formula[rule][:5] for rule in enumerated), "words per round are the geometric sum"
for rule, exact in (("A", accepted_a), ("B", accepted_b)):
    words, share = library[rule]
    counts = torch.bincount(words, minlength=4).numpy()
    expected = draws * np.array([float(v) for v in p])
    assert ((counts - expected) ** 2 / expected).sum() < 27.9, f"chi-square of rule {rule}, p < 4e-6"
    assert abs(share - float(exact)) < 5 * (0.25 / draws) ** 0.5, f"acceptance of rule {rule}"
assert same_tokens, "rule A equals plain decoding token for token"
for (_, way), law in laws.items():
    assert law == (primer.law(17, 3) if way == "B, best depth now" else p2), way
assert verdicts["optimum over all current confidences", "sequential head"] == "biased"
assert verdicts["max q or entropy, stop at the first refusal", "sequential head"] == "exact"
