"""Prompt lookup: propose what followed the last n-gram when it occurred before."""

from angelspec.drafters.ngram.model import NGramDrafter

__all__ = ["NGramDrafter"]
