"""Lossless decoding of ragged batches: propose, allocate, verify, commit."""
