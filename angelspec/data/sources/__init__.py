"""Prompt sources: generators of our own (math, code, chat), prompts of a wheel, a JSONL file or a Hub data set."""
