"""Tiny float64 drafters over a tiny float64 target, and documents with what the target computed while reading them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from angelspec.drafters.base import NeuralDrafter
from angelspec.targets.rows import Rows
from angelspec.training.types import PackedBatch
from tests.tiny_drafters import random_drafter

LAYER_IDS = (0, 1, 3)
PROMPT = 4  # tokens of each document that the target did not write


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def read(target: Any, tokens: Tensor) -> Any:
    """The target's forward over one document, its last token left out."""
    n = len(tokens) - 1
    rows = Rows(tokens[:-1], torch.arange(n), torch.zeros(n, dtype=torch.int64))
    return target.forward(rows, target.new_cache(1, n), layer_ids=LAYER_IDS)


def pack(target: Any, documents: list[Tensor]) -> PackedBatch:
    """Documents end to end; the rows of last tokens hold junk that nothing may look at."""
    outs = [read(target, tokens) for tokens in documents]

    def rows(values: list[Tensor]) -> Tensor:
        return torch.cat([torch.cat([x, torch.full_like(x[:1], 1e3)]) for x in values])

    return PackedBatch(
        tokens=torch.cat(documents),
        positions=torch.cat([torch.arange(len(d)) for d in documents]),
        documents=torch.cat([torch.full((len(d),), i) for i, d in enumerate(documents)]),
        supervised=torch.cat([torch.arange(len(d)) >= PROMPT for d in documents]),
        features=rows([out.features for out in outs]),
        final_hidden=rows([out.final_hidden for out in outs]),
        lse=rows([out.logits.logsumexp(-1) for out in outs]),
    )


@pytest.fixture(scope="session")
def documents() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(0, 97, (length,), generator=generator) for length in (23, 9, 31)]


@pytest.fixture
def batch(tiny_llama: Any, documents: list[Tensor]) -> PackedBatch:
    return pack(tiny_llama, documents)


@pytest.fixture
def make(tiny_llama: Any) -> Callable[..., NeuralDrafter]:
    """make("dfly", block_size=4, ...): a drafter with random weights everywhere, nothing switched off by zeros."""

    def build(kind: str, seed: int = 1, d2t: Tensor | None = None, target: Any = None, **fields: Any) -> NeuralDrafter:
        return random_drafter(kind, target or tiny_llama, LAYER_IDS, seed=seed, d2t=d2t, **fields)

    return build
