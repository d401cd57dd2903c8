"""MTP: one decoder layer that feeds itself, trained the way it is used (AngelSpec, arXiv 2607.25852).

    x_j = W_eh [ RMSNorm_e(E[t_j]) ; RMSNorm_h(h_j) ]       t_j = x_{j+1}, h_j = target hidden after its final norm
    o_j = RMSNorm(DecoderLayer(x_j));  logits = LMhead(o_j) predict x_{j+2}

With the anchor at a, the chain starts from row j = a-1: its input is the anchor token and h_{a-1}, the last hidden
state that exists. Depth d = 0 .. D-1 predicts x_{a+1+d}; every depth after the first is fed its predecessor's o
(gradient flows) and token (no gradient). The embedding is zero at position 0, as in serving engines.

Attention: the query of depth d at row j sees the depth-0 keys of rows <= j of its document, and one key per later
depth 1 .. d, computed at row j itself (the diagonal), in one softmax. Positions are j + d. So the drafter at
inference is a causal decoder over a cache: depth d writes its key at position j + d, where the depth-0 key of that
position will replace it once the token is committed.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from angelspec.drafters.attention import packed_attention
from angelspec.drafters.base import NeuralDrafter
from angelspec.drafters.layers import Attend, RMSNorm
from angelspec.drafters.mtp.config import MTPConfig
from angelspec.training.layout import BlockLayout, ContextGrid
from angelspec.training.types import DraftHidden, PackedBatch

ARGMAX_ELEMENTS = 2**22  # logits that exist at once while the on-policy tokens are chosen


class MTP(NeuralDrafter[MTPConfig]):
    """The layer, the fusion of embedding and hidden state, and the roll-out over depths."""

    def __init__(self, config: MTPConfig, d2t: Tensor | None = None) -> None:
        super().__init__(config, d2t)
        hidden, eps = config.hidden_size, config.rms_norm_eps
        self.embed_norm = RMSNorm(hidden, eps)
        self.hidden_norm = RMSNorm(hidden, eps)
        self.eh_proj = nn.Linear(2 * hidden, hidden, bias=False)

    def fuse(self, tokens: Tensor, hidden: Tensor, positions: Tensor) -> Tensor:
        """x [.., H] of rows at positions [..]; hidden [.., H] are their states, `tokens` [..] the tokens AFTER them."""
        embedding = self.embed(tokens).masked_fill((positions == 0).unsqueeze(-1), 0.0)
        return self.eh_proj(torch.cat([self.embed_norm(embedding), self.hidden_norm(hidden)], dim=-1))

    def context_keys_values(self, tokens: Tensor, hidden: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Depth-0 keys and values [M, kv_heads, hd] of committed rows. Arguments as for `fuse`, one row each."""
        layer = self.layers[0]
        x = layer.input_layernorm(self.fuse(tokens, hidden.to(self.norm.weight.dtype), positions))
        return layer.self_attn.keys_values(x, self.rotary(positions, x.dtype))

    def step(self, tokens: Tensor, hidden: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """One depth for A chains: tokens [A], hidden [A, H], positions [A] (j + d) -> o [A, H]."""
        x = self.fuse(tokens, hidden, positions).unsqueeze(1)  # a block of one query
        y = self.layers[0](x, self.rotary(positions.unsqueeze(1), x.dtype), attend)
        return self.norm(y.squeeze(1))

    def training_forward(self, batch: PackedBatch, anchors: Tensor) -> DraftHidden:
        """Roll out D depths from every anchor [A] (rows of the batch, increasing).

        Cost, forward: context 2*M*(2*H*H + 2*kv*hd*H) FLOP for M rows; each depth 2*A*(2*H*H + weights of the layer),
        its attention, and 2*A*V_d*H more for the on-policy token.
        """
        depths = self.config.proposals
        layout = BlockLayout.build(batch, anchors, depths + 1)
        grid = ContextGrid.build(batch, anchors)
        context = self.context_keys_values(
            batch.tokens[grid.rows + 1], batch.final_hidden[grid.rows], batch.positions[grid.rows]
        )
        tokens, positions = batch.tokens[anchors], batch.positions[anchors] - 1
        hidden = batch.final_hidden[anchors - 1].to(self.norm.weight.dtype)
        diagonal: list[tuple[Tensor, Tensor]] = []
        outputs = []
        for depth in range(depths):
            attend = diagonal_attention(grid, context, diagonal, depth)
            hidden = self.step(tokens, hidden, positions + depth, attend)
            outputs.append(hidden)
            if depth + 1 < depths:
                tokens = self.greedy_tokens(hidden) if self.config.on_policy else layout.labels[:, depth]
        return DraftHidden(torch.stack(outputs, dim=1), layout.labels, layout.teacher_rows, layout.valid)

    @torch.no_grad()
    def greedy_tokens(self, hidden: Tensor) -> Tensor:
        """Most likely tokens [A] (target ids) of hidden states [A, H], a few rows at a time."""
        rows = max(1, ARGMAX_ELEMENTS // self.config.draft_vocab_size)
        return self.to_target_ids(torch.cat([self.logits(part).argmax(-1) for part in hidden.split(rows)]))


def diagonal_attention(
    grid: ContextGrid, context: tuple[Tensor, Tensor], diagonal: list[tuple[Tensor, Tensor]], depth: int
) -> Attend:
    """Attention of depth `depth`: depth-0 keys of the context, and the diagonal keys of depths 1 .. depth.

    The key of depth 0 at row a-1 is already in the context. A later depth appends its own to `diagonal`.
    """

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if depth > 0:
            diagonal.append((k, v))
        keys = torch.cat([k[:, :0]] + [k for k, _ in diagonal], dim=1)  # [A, depth, kv_heads, hd]
        values = torch.cat([v[:, :0]] + [v for _, v in diagonal], dim=1)
        return packed_attention(grid, *context, grid.mask(1, depth))(q, keys, values)

    return attend
