"""Where a drafter's weights start: random, or as far as possible from the target's own layers.

A draft layer has the shape and the parameter names of a target layer, so a target layer can be copied into it. At
small training budgets that is worth about twice the training time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from angelspec.drafters.base import NeuralDrafter
from angelspec.drafters.dflash.model import BlockDrafter
from angelspec.drafters.layers import DraftLayer
from angelspec.drafters.mtp.model import MTP

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")


@torch.no_grad()
def initialise_random(drafter: NeuralDrafter, generator: torch.Generator, std: float = 0.02) -> None:
    """Matrices N(0, std^2); norms, fusion logits and everything that starts at zero stay as they were built."""
    for module in drafter.modules():
        if isinstance(module, nn.Linear) and bool(module.weight.any()):
            module.weight.copy_(torch.randn(module.weight.shape, generator=generator) * std)


@torch.no_grad()
def initialise_from_target(
    drafter: NeuralDrafter, layers: Sequence[Any], layer_ids: Sequence[int], final_norm: Any
) -> None:
    """Copy target layers `layer_ids` (one per draft layer) and the final norm; pass the target's state through.

    Block drafters: W_fc passes the last captured feature and drops the others; the norm of the context is the mean of
    the copied layers' input norms, since their key and value projections expect rows that were scaled so. MTP: W_eh
    adds the normalised embedding and the normalised hidden state.
    """
    if len(layer_ids) != len(drafter.layers):
        raise ValueError(f"{len(layer_ids)} target layers for a drafter of {len(drafter.layers)}: name one for each.")
    sources = [layers[index] for index in layer_ids]
    for own, source in zip(drafter.layers, sources, strict=True):
        copy_layer(own, source)
    _copy(drafter.norm.weight, final_norm.weight, "final norm")
    identity = torch.eye(drafter.config.hidden_size)
    if isinstance(drafter, BlockDrafter):
        drafter.fc.weight.zero_()
        drafter.fc.weight[:, -drafter.config.hidden_size :] = identity
        drafter.hidden_norm.weight.copy_(torch.stack([s.input_layernorm.weight for s in sources]).mean(0))
    elif isinstance(drafter, MTP):
        drafter.eh_proj.weight.copy_(torch.cat([identity, identity], dim=1))


@torch.no_grad()
def copy_layer(own: DraftLayer, source: Any) -> None:
    """Copy a target decoder layer. Raises ValueError when its parts have other names or shapes."""
    parts = ("self_attn", "mlp", "input_layernorm", "post_attention_layernorm")
    absent = [name for name in parts if not hasattr(source, name)]
    if absent or not hasattr(source.mlp, "gate_proj"):
        raise ValueError(
            f"A {type(source).__name__} cannot be copied (no {', '.join(absent) or 'dense gated MLP'}); use random"
            " initialisation."
        )
    for name in ("input_layernorm", "post_attention_layernorm"):
        _copy(getattr(own, name).weight, getattr(source, name).weight, name)
    for name in PROJECTIONS:
        _copy(getattr(own.self_attn, name).weight, getattr(source.self_attn, name).weight, name)
    for name in ("gate_proj", "up_proj", "down_proj"):
        _copy(getattr(own.mlp, name).weight, getattr(source.mlp, name).weight, name)
    for norm, projection in (("q_norm", "q_proj"), ("k_norm", "k_proj")):
        theirs, ours = getattr(source.self_attn, norm, None), getattr(own.self_attn, norm)
        if theirs is not None and isinstance(ours, nn.Identity):
            raise ValueError(
                "The target normalises queries and keys and the drafter does not: set qk_norm in its config."
            )
        if theirs is not None:
            _copy(ours.weight, theirs.weight, norm)
        elif not isinstance(ours, nn.Identity):
            ours.weight.fill_(typical_size(getattr(source.self_attn, projection).weight, source.input_layernorm.weight))


def typical_size(projection: Tensor, norm: Tensor) -> float:
    """Root mean square that queries (or keys) W (g * x) have when the features of x are uncorrelated and of unit size.

    A target without q/k norms has learned the sharpness of its attention in the length of q and k. A norm with weight
    1 would erase it: |q.k| / sqrt(hd) <= sqrt(hd) whatever was learned. With this weight the logits keep their
    typical size. projection [heads*hd, H], norm [H].
    """
    return (projection * norm).square().sum(1).mean().sqrt().item()


def _copy(own: Tensor, source: Tensor, what: str) -> None:
    if own.shape != source.shape:
        raise ValueError(
            f"{what}: the target has {tuple(source.shape)}, the drafter {tuple(own.shape)}; keep the target's sizes to"
            " copy layers."
        )
    own.copy_(source)
