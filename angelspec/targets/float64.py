"""Make a float64 model compute in float64 throughout.

transformers computes RMS norms and expert routing in float32 whatever the dtype of the model. In a float64 model that
rounding turns a difference of 1e-16 between two batch shapes into one of 1e-7, and "exactly equal" could not be
tested. Its default for experts, a grouped matmul, has no float64 at all. Only used for float64; every other dtype
runs the stock modules.
"""

from __future__ import annotations

import types

import torch
from torch import nn
from transformers import PreTrainedModel


def keep_float64(model: PreTrainedModel) -> PreTrainedModel:
    """Replace ``forward`` of the modules that would round to float32. Returns the model.

    Raises:
        ValueError: when the model is not float64.
    """
    for module in model.modules():
        name = type(module).__name__
        if name.endswith("RMSNorm"):
            if module.weight.dtype != torch.float64:
                raise ValueError(f"keep_float64 expects a float64 model, got {module.weight.dtype} in {name}")
            module.forward = types.MethodType(_rms_norm, module)
        elif name == "Qwen3MoeTopKRouter":
            module.forward = types.MethodType(_top_k_router, module)
            model.set_experts_implementation("eager")
    return model


def _rms_norm(module: nn.Module, hidden_states: torch.Tensor) -> torch.Tensor:
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    return module.weight * (hidden_states * torch.rsqrt(variance + module.variance_epsilon))


def _top_k_router(module: nn.Module, hidden_states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    logits = nn.functional.linear(hidden_states.reshape(-1, module.hidden_dim), module.weight)
    scores, experts = torch.topk(logits.softmax(-1), module.top_k, dim=-1)
    if module.norm_topk_prob:
        scores = scores / scores.sum(-1, keepdim=True)
    return logits, scores, experts
