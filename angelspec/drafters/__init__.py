"""Drafters: one folder per method, and what they share.

config         sizes and conventions, config.json
layers, base   the draft layer; the embedding and LM head borrowed from the target
attention      blocks against a packed batch, blocks against a cache
vocab          draft vocabulary and mask token
initialise     random weights, or layers copied from the target
serving        propose and commit for the engine
checkpoint     the folder on disk, loaded strictly
"""
