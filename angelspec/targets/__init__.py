"""Targets: the served model. An unmodified transformers causal LM behind one ragged forward over a KV cache.

``load.load_target(spec, policy)`` gives a :class:`model.Target`; ``python -m angelspec.targets fetch`` only downloads.
"""
