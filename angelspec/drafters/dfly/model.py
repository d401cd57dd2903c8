"""DFly: a context per layer and a predecessor-conditioned head on top of DFlash (AngelSpec, arXiv 2607.25852).

    alpha^i = softmax(W_fuse[i, :])                              W_fuse [L, T]
    g^i     = RMSNorm_ctx( c + sum_t alpha^i_t h^(t) )           per layer; c = W_fc [h^(1); ..; h^(T)] as in DFlash

    z_k  = [ RMSNorm_h(h_k) ; RMSNorm_e(E[x_{k-1}]) ]            2H; x_{k-1} is the anchor for slot 1
    h'_k = h_k + W_down( SiLU(W_gate z_k) * (W_up z_k) )         W_down starts at zero
    logits_k = LMhead(h'_k)                                      no second norm

In training x_{k-1} is the true token, all slots at once. At inference the backbone runs once and the head slot by
slot, on the token just drafted.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from angelspec.drafters.dflash.model import BlockDrafter
from angelspec.drafters.dfly.config import DFlyConfig
from angelspec.drafters.layers import GatedMLP, RMSNorm

MARKOV_RANK = 256


def initial_fusion_logits(layers: int, features: int) -> Tensor:
    """W_fuse [L, T] at the start: -2 |t - t_i|, where t_i is the target depth that corresponds to draft layer i."""
    depth = torch.zeros(1) if layers == 1 else torch.arange(layers) / (layers - 1)
    own = (depth * (features - 1)).round()
    return -2.0 * (torch.arange(features) - own.unsqueeze(1)).abs()


class Correction(nn.Module):
    """The hidden correction: what is added to h_k once the token before slot k is known. Zero at the start."""

    def __init__(self, config: DFlyConfig) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.hidden_norm = RMSNorm(hidden, config.rms_norm_eps)
        self.embed_norm = RMSNorm(hidden, config.rms_norm_eps)
        self.mlp = GatedMLP(2 * hidden, config.head_size or hidden, hidden, "silu")
        nn.init.zeros_(self.mlp.down_proj.weight)

    def forward(self, hidden: Tensor, previous: Tensor, embedding: Tensor) -> Tensor:
        """hidden [.., H], previous tokens [..] with their embedding [.., H] -> addition [.., H]."""
        return self.mlp(torch.cat([self.hidden_norm(hidden), self.embed_norm(embedding)], dim=-1))


class MarkovBias(nn.Module):
    """A bias on the logits that depends on the token before: W2 W1[x_{k-1}], of rank r, after DSpark (arXiv
    2607.05147).

    DSpark learns W2 in R^{V_d x r}. Here W2 = LMhead W with W in R^{H x r}, so that the bias is an addition W
    W1[x_{k-1}] to the hidden state and the losses keep one frozen head. For r <= H only the span of the LM head is
    lost.
    """

    def __init__(self, config: DFlyConfig) -> None:
        super().__init__()
        rank = config.head_size or MARKOV_RANK
        self.previous = nn.Embedding(config.vocab_size, rank)
        self.out_proj = nn.Linear(rank, config.hidden_size, bias=False)
        nn.init.normal_(self.previous.weight, std=rank**-0.5)
        nn.init.zeros_(self.out_proj.weight)

    def forward(self, hidden: Tensor, previous: Tensor, embedding: Tensor) -> Tensor:
        """Same arguments as Correction; only the previous tokens [..] matter."""
        return self.out_proj(self.previous(previous))


class DFly(BlockDrafter[DFlyConfig]):
    """DFly, or with `fusion` and `head` switched, the steps of its ablation."""

    def __init__(self, config: DFlyConfig, d2t: Tensor | None = None) -> None:
        super().__init__(config, d2t)
        if config.fusion:
            self.fusion = nn.Parameter(initial_fusion_logits(config.num_layers, len(config.target_layer_ids)))
        if config.head != "none":
            self.correction = Correction(config) if config.head == "correction" else MarkovBias(config)

    def contexts(self, features: Tensor) -> list[Tensor]:
        if not self.config.fusion:
            return super().contexts(features)
        shared = self.fc(features.flatten(1))  # [M, H]
        fused = torch.einsum("lt,mth->lmh", self.fusion.softmax(-1), features)
        return [self.hidden_norm(shared + own) for own in fused]

    @property
    def sequential_head(self) -> bool:
        return self.config.head != "none"

    def refine(self, hidden: Tensor, previous: Tensor) -> Tensor:
        if self.config.head == "none":
            return hidden
        return hidden + self.correction(hidden, previous, self.embed(previous))
