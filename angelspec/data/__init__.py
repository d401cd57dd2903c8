"""Prompts by domain, mixtures, the target's own answers with their features, and the statistics of both."""
