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
# # 01 · How do chat, code and math answers of this target differ?
#
# A drafter learns to say what its target would say next. How well it can do so depends on the text: after
# `for i in range(` a good guess is easy, in the middle of an opinion it is not. AngelSpec's first idea is to take this
# seriously and to *co-specialise*: different drafter structures for different text, each trained on its own mixture.
#
# So before anything is trained, we look at the answers that the target gave to the training prompts. They are its own
# words, in the chat template and the sampling mode in which it is served; whatever the authors of a data set wrote is
# thrown away. Five questions: how long are the answers, how sure is the target of each word, how far ahead can it be
# guessed, how much does it repeat itself, and **what mixture follows?**

# %% tags=["parameters"]
answers: str = "results/laptop/answers/train"  # folder of the training answers
mixtures: dict = {"chat": {"chat": 1.0}, "code+math": {"code": 0.45, "math": 0.45, "chat": 0.1}}
tokens: int = 60_000  # answer tokens of each mixture, at most
temperature: float = 0.0  # at which the target is served; a label for the rows
depth: int = 8  # words to look ahead
scale: str = "laptop"
comparable: bool = True  # False: figures carry a badge
seed: int = 20260727  # of the bootstrap and of the choice of answers for a mixture
figures: str = ""  # folder for the figures as SVG and PDF; empty: only show them
rows_path: str = ""  # file for the numbers as rows of summary.json; empty: not written

# %%
import sys
from pathlib import Path

ROOT = next(folder for folder in (Path.cwd(), *Path.cwd().parents) if (folder / "angelspec").is_dir())
sys.path.insert(0, str(ROOT))

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from angelspec.data.mixtures import Item, select
from angelspec.data.records import AnswerStore
from angelspec.data.statistics import answer_table, domain_means, look_ahead
from angelspec.hardware import describe_hardware
from angelspec.io import write_json
from angelspec.plotting import style

style.use_style()


# %%
def keep(figure, name):
    """Badge a figure that is not comparable, and save it where the workflow asked for it."""
    if not comparable:
        style.badge(figure)
    if figures:
        style.save(figure, ROOT / figures / f"{name}.svg")


# %% [markdown]
# ## The answers
#
# `AnswerStore` reads every shard and refuses a folder that is empty, broken, or mixes different runs. The run key says
# how the answers were made; each record knows its domain, its prompt, the tokens of its answer and why it ended.

# %%
store = AnswerStore(ROOT / answers, features=False)
key = store.run_keys[0]
print("target  ", key["target"]["name"], key["target"]["revision"], "in", key["dtype"])
print("sampling", key["sampling"], "at most", key["max_new_tokens"], "tokens, thinking", key["chat"]["thinking"])
table = answer_table(store.records, key["stop_ids"])
domains = [domain for domain in style.DOMAIN_COLORS if domain in set(table.domain)]
overview = table.groupby("domain").agg(
    answers=("tokens", "size"), tokens=("tokens", "sum"), mean_length=("tokens", "mean"), finished=("finished", "mean")
)
overview.loc[domains].round(2)

# %% [markdown]
# *finished* is the share of answers that ended by themselves; the others were cut at the limit. A cut answer is fine
# for training, since every word of it is the target's, but it has no ending: a drafter learns little of when to stop.

# %%
by_name = {record.domain: record for record in store.records[::-1] if record.turn == 0}
for domain in domains:
    question, answer = by_name[domain].messages[-2:]
    print(f"[{domain}] {question['content'][:300]}\n>>> {answer['content'].strip()[:300]}\n")

# %% [markdown]
# ## How long are they?

# %%
fig, axes = plt.subplots(figsize=(style.WIDTH_IN, 2.8))
for domain in domains:
    lengths = np.sort(table[table.domain == domain].tokens)
    share = np.arange(1, len(lengths) + 1) / len(lengths)
    look = {"color": style.DOMAIN_COLORS[domain], "marker": style.DOMAIN_MARKERS[domain], "label": domain}
    axes.plot(lengths, share, drawstyle="steps-post", markevery=0.1, **look)
axes.axvline(key["max_new_tokens"], color="black", linestyle=":", label="limit")
axes.set(xlabel="length of an answer, tokens", ylabel="share of answers up to it", title="Length of the answers")
axes.legend(loc="upper left")
keep(fig, "01_answer_length")

# %% [markdown]
# ## How sure is the target of each word?
#
# For a sample of the answers the law of every token was kept as two numbers: its entropy, in nats, and the probability
# of the likeliest word (*top-1 mass*). Both are of the model's own law at temperature 1, whatever it is served at. They
# were computed from the final hidden state that is stored with each answer; no second pass over the target was needed.
#
# Entropy bounds what any drafter can do when the target samples. At temperature 0 the target's law is a single word,
# and what counts is whether a *small* model can find it; that is easier where the large one is sure.

# %%
files = sorted((ROOT / answers).glob("statistics-*.parquet"))
laws = pd.concat([pd.read_parquet(path) for path in files], ignore_index=True)
laws["sure"] = laws.top1 >= 0.9
means = domain_means(laws, ["entropy", "top1", "sure", "lookup"], seed=seed)
means.pivot(index="domain", columns="metric", values="value").loc[[*domains, "all"]].round(3)

# %%
fig, (left, right) = plt.subplots(1, 2)
bins = np.array([0, 4, 8, 16, 32, 64, 128, 256, 512, 1024])
for domain in domains:
    mine = laws[laws.domain == domain]
    look = {"color": style.DOMAIN_COLORS[domain], "marker": style.DOMAIN_MARKERS[domain], "label": domain}
    entropy = np.sort(mine.entropy)
    left.plot(entropy, np.linspace(0, 1, len(entropy)), markevery=0.125, **look)
    place = bins[np.digitize(mine.position, bins) - 1]
    by_place = mine.groupby(place).top1.mean()
    right.plot(range(len(by_place)), by_place, **look)
left.set(
    xlabel="entropy of a token, nats", ylabel="share of tokens up to it", xlim=(-0.05, 4), title="Entropy of the law"
)
left.legend(loc="lower right")
ticks = [f"{a}" for a in bins[: len(by_place)]]
right.set(xlabel="from this token of the answer on", ylabel="mean top-1 mass", title="Along the answer")
right.set_xticks(range(len(ticks)), labels=ticks)
keep(fig, "01_entropy")

# %% [markdown]
# ## How far ahead can it be guessed?
#
# A round of speculative decoding needs several right words *in a row*. Suppose a perfect guesser who always names the
# target's likeliest word. If the target samples at temperature 1, the guess of the next $k$ words stands with the
# product of their top-1 masses. This is how far the text itself can be seen ahead, before any drafter's own mistakes.
# The sum over $k$, plus the word that the target adds, are the words a round would give. Answers that end in a loop are
# left out (they come below): there, everything can be foreseen.

# %%
loops = set(table[table.looping].id)
laws["looping"] = laws.id.isin(loops)
ahead = look_ahead(laws, depth)
survival = domain_means(ahead[~ahead.id.isin(loops)], range(1, depth + 1), seed=seed)
words = 1 + survival.groupby("domain").value.sum().reindex([*domains, "all"])
with_loops = 1 + domain_means(ahead, range(1, depth + 1)).groupby("domain").value.sum()

fig, axes = plt.subplots()
for domain in [*domains, "all"]:
    mine = survival[survival.domain == domain]
    error = [mine.value - mine.lo, mine.hi - mine.value]
    axes.errorbar(mine.metric.astype(int), mine.value, error, capsize=2, color=style.DOMAIN_COLORS[domain],
                  marker=style.DOMAIN_MARKERS[domain], label=f"{domain}: {words[domain]:.2f} a round")  # fmt: skip
axes.set(
    xlabel="words ahead, k",
    ylabel="all k are the likeliest word",
    ylim=(0, 1),
    title="How far the text can be foreseen",
)
axes.legend(loc="upper right", title="words of a perfect guesser (95 % CI)")
keep(fig, "01_look_ahead")

# %% [markdown]
# ## How much does it repeat itself?
#
# Two kinds of repetition make drafting look better than it is. **Prompt lookup** proposes what followed the last few
# words when they occurred before, in the prompt or in the answer. It needs no training at all, so it is the control
# that a drafter has to beat. And small models fall into **loops**: an answer that ends by repeating the same few tokens
# at least three times is free for any drafter. Both are reported beside every acceptance length in this project.

# %%
repetition = domain_means(table, ["lookup", "looping", "finished"], seed=seed)
fig, panels = plt.subplots(1, 2, figsize=(style.WIDTH_IN, 2.6))
titles = {"lookup": "Prompt lookup guesses right", "looping": "Answers that end in a loop"}
for panel, (metric, title) in zip(panels, titles.items(), strict=True):
    mine = repetition[repetition.metric == metric].set_index("domain").loc[[*domains, "all"]]
    error = [mine.value - mine.lo, mine.hi - mine.value]
    panel.bar(mine.index, mine.value, 0.6, yerr=error, capsize=3, color=[style.DOMAIN_COLORS[d] for d in mine.index])
    panel.set(title=title, ylabel="share of answers" if metric == "looping" else "mean share of an answer's tokens")
keep(fig, "01_repetition")

# %%
pd.DataFrame({"without looping answers": words, "all answers": with_loops}).loc[[*domains, "all"]].round(2)

# %% [markdown]
# The table shows what loops are worth: the words a perfect guesser would get per round, without and with them. A domain
# that gains much by its loops is harder than its plain average says.
#
# ## What mixture follows?
#
# A mixture is a weight per domain and one budget of answer tokens, so that mixtures are compared at equal size. All of
# them are filled from this one pool. *Foreseen* weighs the words per round of each domain by the tokens that the
# mixture takes from it: how far ahead can a perfect guesser see in this training text?

# %%
items = [Item(f"{record.id}/{record.turn}", record.domain, len(record.response_ids)) for record in store.records]
lines = []
for name, weights in mixtures.items():
    _, shares = select(items, weights, tokens, seed)
    taken = {share.domain: share.tokens for share in shares}
    total = sum(taken.values())
    foreseen = sum(words.get(domain, np.nan) * n for domain, n in taken.items() if n) / max(total, 1)
    missing = sum(share.missing for share in shares)
    lines.append({"mixture": name, **taken, "tokens": total, "missing": missing, "foreseen": foreseen})
mixture_table = pd.DataFrame(lines).set_index("mixture").fillna(0).round(2)
mixture_table

# %% [markdown]
# How to read it. A **block drafter** proposes seven words at once and earns its keep only where the text can be
# foreseen that far; a **sequential** one (MTP) proposes three, and gives up little where it cannot. So the structure
# that looks far belongs to the domains with the long tails in the figure above, and its training mixture to them as
# well, with a share of chat so that it does not fail there. The cheap one belongs to chat. This is the paper's split,
# and the numbers above say how strong the case for it is *for this target*; the cell below puts it in words. Whether
# it pays is decided by training, in notebook 03.

# %%
value = means.set_index(["domain", "metric"]).value
ranking = sorted(domains, key=lambda domain: value[domain, "entropy"])
for domain in ranking:
    entropy, sure, ended = value[domain, "entropy"], value[domain, "sure"], overview.finished[domain]
    print(f"{domain}: {entropy:.2f} nats a token, top-1 mass >= 0.9 for {sure:.0%}; {ended:.0%} of answers finished;")
    print(f"    {words[domain]:.2f} words a round for a perfect guesser")
easiest, hardest = ranking[0], ranking[-1]
print(f"\nThe most predictable domain is {easiest}, the least {hardest}: a long draft pays first in {easiest}.")
agrees = "chat" not in domains or hardest == "chat"
print("The paper's split " + ("follows" if agrees else "does not follow") + " from the entropies of this target.")

# %% [markdown]
# ## What was claimed

# %%
rows = pd.concat([means, repetition], ignore_index=True)
rows["metric"] = rows.metric.replace({"lookup": "lookup_guessed", "sure": "top1_at_least_0.9"})
rows = rows.drop_duplicates(["domain", "metric"], keep="last")  # lookup over all answers, not over the sample only
units = {"entropy": "nats"}
fixed = {"claim": "data_specialization", "arm": "ar", "drafter": None, "mixture": None, "concurrency": None}
fixed |= {"temperature": temperature, "seed": seed, "scale": scale, "hardware": describe_hardware()["cpu"]}
records = [{**fixed, **row, "unit": units.get(row["metric"], "share")} for row in rows.to_dict("records")]
if rows_path:
    write_json(ROOT / rows_path, records)

assert (table.tokens > 0).all() and (table.tokens <= key["max_new_tokens"]).all(), "no empty answer, none too long"
assert laws.entropy.between(-1e-3, 12).all() and laws.top1.between(0, 1.001).all(), "laws are laws"
chances = ahead[[*range(1, depth + 1)]].to_numpy()
assert not (np.diff(chances, axis=1) > 0).any(), "seeing further ahead is never easier"
if key["sampling"]["temperature"] == 0:
    assert laws.hit.mean() > 0.98, "greedy answers are the likeliest words, but for near-ties moved by rounding"
assert mixture_table.tokens.le(tokens).all(), "no mixture exceeds its budget"
