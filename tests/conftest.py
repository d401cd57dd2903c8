"""Shared fixtures: tiny random targets in float64, and SmolLM2-135M-Instruct in float32 as the workflow fetches it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.tiny_targets import build_tiny_target


@pytest.fixture(scope="session")
def tiny_target() -> Callable[..., Any]:
    """``tiny_target(kind)``: one shared target per kind and seed. Its weights are read-only."""
    made: dict[tuple[str, int], Any] = {}

    def get(kind: str, seed: int = 0) -> Any:
        if (kind, seed) not in made:
            made[kind, seed] = build_tiny_target(kind, seed)
        return made[kind, seed]

    return get


@pytest.fixture(scope="session")
def tiny_llama(tiny_target: Callable[..., Any]) -> Any:
    return tiny_target("llama")


@pytest.fixture(scope="session")
def tiny_qwen3(tiny_target: Callable[..., Any]) -> Any:
    return tiny_target("qwen3")


@pytest.fixture(scope="session")
def tiny_qwen3_moe(tiny_target: Callable[..., Any]) -> Any:
    return tiny_target("qwen3_moe")


@pytest.fixture(scope="session")
def smollm2() -> Any:
    """The default target in float32 with the torch attention, fetched as for any user (540 MB, once)."""
    from angelspec.device import DevicePolicy
    from angelspec.targets.load import load_target
    from angelspec.targets.spec import SMOLLM2

    return load_target(SMOLLM2, DevicePolicy("cpu", torch.float32, torch.get_num_threads(), False, {}), backend="torch")


@pytest.fixture(scope="session")
def stock() -> Callable[..., Any]:
    """``stock(target, input_ids, **kwargs)``: the same weights through transformers' own forward and attention."""

    def run(target: Any, input_ids: torch.Tensor, **kwargs: Any) -> Any:
        ragged = target.config._attn_implementation
        target.model.set_attn_implementation("sdpa")
        try:
            with torch.no_grad():
                return target.model(input_ids, output_hidden_states=True, use_cache=False, **kwargs)
        finally:
            target.model.set_attn_implementation(ragged)

    return run
