"""Drafters with random weights over a tiny target, nothing switched off by zeros."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from angelspec.drafters.base import NeuralDrafter
from angelspec.drafters.dflash import DFlash, DFlashConfig
from angelspec.drafters.dfly import DFly, DFlyConfig
from angelspec.drafters.mtp import MTP, MTPConfig

MASK_TOKEN = 5


def random_drafter(
    kind: str,
    target: Any,
    layer_ids: tuple[int, ...],
    *,
    seed: int = 1,
    d2t: Tensor | None = None,
    spread: float = 0.3,
    **fields: Any,
) -> NeuralDrafter:
    """`kind`: mtp, dflash or dfly. The dtype is torch's default one; fields override the drafter's configuration."""
    common = {"draft_vocab_size": None if d2t is None else len(d2t), "qk_norm": True}
    if kind == "mtp":
        config = MTPConfig.for_target(target.config, target.identity, **{"depths": 3, **common, **fields})
        drafter: NeuralDrafter = MTP(config, d2t)
    else:
        own = {"num_layers": 2, "block_size": 4, "target_layer_ids": layer_ids, "mask_token_id": MASK_TOKEN}
        config_class, model = {"dflash": (DFlashConfig, DFlash), "dfly": (DFlyConfig, DFly)}[kind]
        drafter = model(config_class.for_target(target.config, target.identity, **{**own, **common, **fields}), d2t)
    generator = torch.Generator().manual_seed(seed)
    for parameter in drafter.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.data = 1 + 0.1 * noise if parameter.ndim == 1 else spread * noise
    drafter.borrow(target.embed_tokens, target.lm_head)
    return drafter
