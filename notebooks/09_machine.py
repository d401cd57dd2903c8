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
# # 09. This machine and this target
#
# **Which model is served here, on what, and what does a decoding step have to read?**
#
# Every later number depends on these three answers. The target is an unmodified causal language model; the engine
# below is the one that speculative decoding uses too, here with a drafter that proposes nothing.

# %% tags=["parameters"]
scale: str = "laptop"  # only a label here
comparable: bool = False  # False: figures carry a badge
target: dict = {}  # fields of a TargetSpec; empty: the embedded SmolLM2-135M-Instruct
device: dict = {"device": "auto", "compile": "auto"}
sampling: dict = {"temperature": 0.0, "top_p": 1.0, "top_k": 0, "thinking": False, "system_prompt": None}
max_new_tokens: int = 24
seed: int = 20260727
rows_path: str = "machine_rows.json"
figure_path: str = "machine_bytes.svg"

# %%
import dataclasses
import time

import matplotlib.pyplot as plt
import pandas as pd
from IPython.display import display

from angelspec.data.templates import ChatTemplate
from angelspec.decoding.categorical import SamplingParams
from angelspec.decoding.engine import Engine
from angelspec.decoding.request import Request
from angelspec.device import choose_policy
from angelspec.hardware import describe_hardware
from angelspec.io import write_json
from angelspec.plotting import style
from angelspec.targets.load import load_target
from angelspec.targets.spec import SMOLLM2, TargetSpec

style.use_style()

# %% [markdown]
# ## The machine
#
# `choose_policy` decides where and how to compute; each choice has a reason.

# %%
spec = TargetSpec(**target) if target else SMOLLM2
policy = choose_policy(device["device"], spec.dtype, compile=device["compile"])
policy.apply()
print(policy.describe())
hardware = describe_hardware()
display(pd.Series({key: str(value) for key, value in hardware.items()}, name="hardware").to_frame())

# %% [markdown]
# ## The target

# %%
started = time.perf_counter()
model = load_target(spec, policy)
print(f"loaded in {time.perf_counter() - started:.1f} s (the first time includes a compilation)")
dims = model.dims
display(pd.Series({**model.identity, **dataclasses.asdict(dims)}, name="target").astype(str).to_frame())

# %% [markdown]
# ## It answers
#
# Three questions at once, one from each domain. The temperature is the served one; at 0 the answers below are the
# same on every run, alone or in a batch.

# %%
questions = {
    "chat": "Suggest a quiet way to spend a rainy evening.",
    "code": "Write a Python function that counts the vowels in a string.",
    "math": "A box holds 6 rows of 4 apples. 5 apples are eaten. How many are left?",
}
template = ChatTemplate(model.tokenizer, sampling["thinking"], sampling["system_prompt"])


def request(domain: str) -> Request:
    ids = template.prompt_ids([{"role": "user", "content": questions[domain]}])
    how = SamplingParams(
        temperature=sampling["temperature"], top_p=sampling["top_p"], top_k=sampling["top_k"], seed=seed
    )
    return Request(domain, ids, how, max_new_tokens, model.eos_ids)


engine = Engine(model, slots=len(questions), max_len=512)
started = time.perf_counter()
answers = engine.run([request(domain) for domain in questions])
seconds = time.perf_counter() - started
for answer in answers:
    print(f"[{answer.id}] {questions[answer.id]}\n{answer.text.strip()} ({answer.finish_reason})\n")

# %% [markdown]
# The speed of that run is printed for orientation only. It includes the prompts and whatever had to warm up, and other
# work may have run beside it: **it is not a measurement.** Notebook 06 measures.

# %%
tokens = sum(len(answer.token_ids) for answer in answers)
print(f"{tokens} tokens in {seconds:.2f} s: {tokens / seconds:.0f} tokens/s (untimed)")

# %% [markdown]
# ## What a step reads
#
# Decoding one token for one request touches every weight once and the keys and values of the whole context. That is
# why drafting pays: a step that verifies eight rows reads hardly more than a step that decodes one.

# %%
element = policy.dtype.itemsize  # of weights and cache; activations may be wider
width = dims.head_dim * (dims.num_heads * 2 + dims.num_kv_heads * 2)
weights = {
    "attention": dims.num_layers * dims.hidden_size * width * element,
    "MLP": dims.num_layers * dims.hidden_size * dims.intermediate_size * 3 * element,
    "LM head": dims.vocab_size * dims.hidden_size * element,
}
kv_per_token = dims.num_layers * dims.num_kv_heads * dims.head_dim * 2 * element
contexts = [0, 256, 1024, 4096]
table = pd.DataFrame({**weights, "KV cache": [kv_per_token * context for context in contexts]}, index=contexts) / 2**20
display(table.round(1).rename_axis("context, tokens"))

# %%
figure, axes = plt.subplots()
left = pd.Series(0.0, index=contexts)
names = [f"{context:,}" for context in contexts]
for number, (part, hatch) in enumerate(zip(table.columns, ["", "//", "..", "xx"], strict=True)):
    axes.barh(names, table[part], left=left, color=f"C{number}", hatch=hatch, edgecolor="white", label=part)
    left += table[part]
axes.set(xlabel="bytes read by one decoding step of one request, MiB", ylabel="context, tokens")
axes.set_title("The weights dominate until the context is long")
axes.grid(visible=False)
axes.invert_yaxis()
figure.legend(loc="outside lower center", ncols=4)
if not comparable:
    style.badge(figure)
style.save(figure, figure_path)

# %% [markdown]
# ## The claims of this page, checked

# %%
again = engine.run([request(domain) for domain in questions])
alone = [Engine(model, slots=1, max_len=512).run([request(domain)])[0] for domain in questions]
row = {
    "claim": "machine", "arm": "ar", "drafter": None, "mixture": None, "domain": "all", "concurrency": len(questions),
    "temperature": sampling["temperature"], "metric": "throughput_untimed", "value": tokens / seconds, "lo": None,
    "hi": None, "n": 1, "unit": "tokens/s", "seed": seed, "scale": scale, "hardware": hardware["cpu"],
}  # fmt: skip
write_json(rows_path, [row])

assert all(answer.token_ids for answer in answers), "every question is answered"
assert [answer.token_ids for answer in again] == [answer.token_ids for answer in answers], "a run can be repeated"
same = sum(one.token_ids == other.token_ids for one, other in zip(alone, answers, strict=True))
print(f"{same} of {len(answers)} answers are the same alone as in the batch")
assert same == len(answers) or policy.device != "cpu", "on a CPU a batch changes nothing"
assert dims.num_heads % dims.num_kv_heads == 0
