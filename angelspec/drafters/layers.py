"""The pieces that every neural drafter is made of: RMSNorm, rotary positions, SwiGLU, and the draft layer.

Parameter names are those of Hugging Face decoder layers, so that target layers can be copied in by name and serving
engines find what they expect. Attention itself is passed in as a function: training, MTP roll-outs and cached inference
differ only in which keys a query meets, see `angelspec.drafters.attention`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.activations import ACT2FN
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from angelspec.drafters.config import DrafterConfig

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(q [.., n, heads, hd], own k [.., n, kv_heads, hd], own v) -> [.., n, heads, hd]; the context is already inside."""

Angles = tuple[Tensor, Tensor]
"""cos and sin [.., rotary_dim] of some positions."""


class RMSNorm(nn.Module):
    """y = weight * x / sqrt(mean(x^2) + eps), the mean in float32 or better (Hugging Face would round float64 down)."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return self.weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)).to(x.dtype)


class Rotary(nn.Module):
    """cos and sin at absolute positions, with the inverse frequencies that transformers gives the target.

    rotary_dim <= head_dim features of a head are rotated (partial rotary), as two halves. Scalings that depend on the
    length of the sequence (dynamic, longrope) are taken at their initial value: a cached key cannot be rotated again.
    """

    inv_freq: Tensor

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        rope = config.rope_parameters
        if rope["rope_type"] == "default":
            size = int(config.head_dim * rope.get("partial_rotary_factor", 1.0))
            inv_freq, self.scaling = 1.0 / rope["rope_theta"] ** (torch.arange(0, size, 2).float() / size), 1.0
        else:
            shape = LlamaConfig(
                hidden_size=config.hidden_size,
                num_attention_heads=config.num_heads,
                head_dim=config.head_dim,
                max_position_embeddings=config.max_position_embeddings,
                rope_parameters=dict(rope),
            )
            inv_freq, self.scaling = ROPE_INIT_FUNCTIONS[rope["rope_type"]](shape)
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(self, positions: Tensor, dtype: torch.dtype) -> Angles:
        angles = positions.unsqueeze(-1).float() * self.inv_freq.float()
        angles = torch.cat([angles, angles], dim=-1)
        return (angles.cos() * self.scaling).to(dtype), (angles.sin() * self.scaling).to(dtype)


def rotate(x: Tensor, angles: Angles) -> Tensor:
    """Rotary embedding of x [.., heads, hd] by angles [.., rotary_dim]; features beyond rotary_dim pass unchanged."""
    cos, sin = angles[0].unsqueeze(-2), angles[1].unsqueeze(-2)
    turned, rest = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
    left, right = turned.chunk(2, dim=-1)
    turned = turned * cos + torch.cat([-right, left], dim=-1) * sin
    return torch.cat([turned, rest], dim=-1) if rest.shape[-1] else turned


class GatedMLP(nn.Module):
    """W_down( act(W_gate x) * (W_up x) ); SwiGLU when act is SiLU. Inputs and outputs may differ in size."""

    def __init__(self, inputs: int, width: int, outputs: int, act: str) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(inputs, width, bias=False)
        self.up_proj = nn.Linear(inputs, width, bias=False)
        self.down_proj = nn.Linear(width, outputs, bias=False)
        self.act = ACT2FN[act]

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(self.act(self.gate_proj(x)) * self.up_proj(x))


class DraftAttention(nn.Module):
    """Projections of grouped-query attention. Context rows and draft rows share W_k, k_norm and W_v."""

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        hidden, self.head_dim = config.hidden_size, config.head_dim
        self.q_proj = nn.Linear(hidden, config.num_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(hidden, config.num_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(hidden, config.num_kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(config.num_heads * self.head_dim, hidden, bias=False)
        normalise = config.qk_norm
        self.q_norm = RMSNorm(self.head_dim, config.rms_norm_eps) if normalise else nn.Identity()
        self.k_norm = RMSNorm(self.head_dim, config.rms_norm_eps) if normalise else nn.Identity()

    def queries(self, x: Tensor, angles: Angles) -> Tensor:
        """[.., H] -> rotated queries [.., heads, hd]."""
        return rotate(self.q_norm(self.q_proj(x).unflatten(-1, (-1, self.head_dim))), angles)

    def keys_values(self, x: Tensor, angles: Angles) -> tuple[Tensor, Tensor]:
        """[.., H] -> rotated keys and values [.., kv_heads, hd]."""
        keys = rotate(self.k_norm(self.k_proj(x).unflatten(-1, (-1, self.head_dim))), angles)
        return keys, self.v_proj(x).unflatten(-1, (-1, self.head_dim))


class DraftLayer(nn.Module):
    """Pre-norm decoder layer: u + W_o Attn(RMSNorm(u)), then u + MLP(RMSNorm(u))."""

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = DraftAttention(config)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = GatedMLP(config.hidden_size, config.intermediate_size, config.hidden_size, config.hidden_act)

    def forward(self, u: Tensor, angles: Angles, attend: Attend) -> Tensor:
        """u [.., n, H] -> [.., n, H]."""
        x = self.input_layernorm(u)
        keys, values = self.self_attn.keys_values(x, angles)
        u = u + self.self_attn.o_proj(attend(self.self_attn.queries(x, angles), keys, values).flatten(-2))
        return u + self.mlp(self.post_attention_layernorm(u))
