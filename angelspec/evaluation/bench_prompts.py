"""Prompts for a speed test: distinct, ordinary questions of about 60 tokens once the chat template is around them."""

from __future__ import annotations

TASKS = (
    "Explain {} to a curious ten-year-old in plain words, and give one example from daily life.",
    "Write a short story in which {} plays an important part and somebody changes their mind.",
    "List five common misconceptions about {} and correct each of them in one sentence.",
    "Compare {} with something that is often confused with it, and say how to tell them apart.",
    "Give a step by step plan for somebody who wants to learn about {} within one month.",
    "Write a polite letter to a newspaper that argues for more public attention to {}.",
    "Summarise the history of {} in three paragraphs and name one open question at the end.",
    "Describe an experiment about {} that can be done at home, with what is needed and what to expect.",
)
TOPICS = (
    "the tides of the sea",
    "double-entry bookkeeping",
    "how bread rises",
    "prime numbers",
    "the printing press",
    "migrating birds",
    "electric motors",
    "soil and compost",
    "map projections",
    "the human immune system",
    "glaciers",
    "musical harmony",
    "public libraries",
    "solar eclipses",
    "recursion in programming",
    "the invention of zero",
)


def bench_prompts() -> list[str]:
    """128 prompts, neighbours different in both task and topic."""
    count = len(TASKS) * len(TOPICS)
    return [TASKS[(i + i // len(TOPICS)) % len(TASKS)].format(TOPICS[i % len(TOPICS)]) for i in range(count)]
