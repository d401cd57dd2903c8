"""DFlash: all tokens of a block from one pass, conditioned on the target's hidden states (arXiv 2602.06036).

    c    = W_fc [h^(1); ..; h^(T)]                     features of T target layers at every committed position
    g    = RMSNorm_ctx(c)                              the context, shared by all draft layers
    u^0  = E[x_a, MASK, .., MASK]                      B slots at positions a .. a+B-1
    layer: q from RMSNorm(u); k, v from [g ; RMSNorm(u)] by the same projections; rotary at absolute positions;
           every slot sees all context rows before a and the whole block (not causal)
    h_k  = RMSNorm(u^L)_k,  logits_k = LMhead(h_k)     frozen head of the target; slots 1 .. B-1 are proposals

Context keys and values depend on the committed text alone, so inference computes them once per committed token and
keeps them.

Two places are left open for methods that build on this one: `contexts` (what each layer reads) and `refine` (what
happens to a slot's hidden state once its predecessor is known). DFly fills both in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from torch import Tensor, nn

from angelspec.drafters.attention import packed_attention
from angelspec.drafters.base import NeuralDrafter
from angelspec.drafters.dflash.config import DFlashConfig
from angelspec.drafters.layers import Attend, RMSNorm
from angelspec.training.layout import BlockLayout, ContextGrid, slot_positions
from angelspec.training.types import DraftHidden, PackedBatch

Config = TypeVar("Config", bound=DFlashConfig)


class BlockDrafter(NeuralDrafter[Config]):
    """The block-parallel backbone. Config is DFlashConfig or extends it."""

    def __init__(self, config: Config, d2t: Tensor | None = None) -> None:
        super().__init__(config, d2t)
        hidden = config.hidden_size
        self.fc = nn.Linear(len(config.target_layer_ids) * hidden, hidden, bias=False)
        self.hidden_norm = RMSNorm(hidden, config.rms_norm_eps)

    def contexts(self, features: Tensor) -> list[Tensor]:
        """features [M, T, H] -> what each of the L layers reads, [M, H] each."""
        return [self.hidden_norm(self.fc(features.flatten(1)))] * len(self.layers)

    @property
    def sequential_head(self) -> bool:
        """Whether `refine` uses the token before a slot, so that slots are drafted one after another."""
        return False

    def refine(self, hidden: Tensor, previous: Tensor) -> Tensor:
        """hidden [.., H] of slots and the tokens [..] before them -> hidden states for the LM head."""
        return hidden

    def context_keys_values(self, features: Tensor, positions: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Keys and values [M, kv_heads, hd] per layer of committed rows: features [M, T, H] at positions [M]."""
        features = features.to(self.norm.weight.dtype)
        angles = self.rotary(positions, features.dtype)
        pairs = zip(self.layers, self.contexts(features), strict=True)
        return [layer.self_attn.keys_values(g, angles) for layer, g in pairs]

    def backbone(self, anchors: Tensor, positions: Tensor, size: int, attend: Callable[[int], Attend]) -> Tensor:
        """Hidden states [A, size-1, H] of the proposal slots.

        anchors [A] tokens and positions [A] of the anchors; size = slots of the block, the anchor's included (at most
        B is what was trained, fewer cost less); attend(i) is the attention of layer i.
        """
        tokens = anchors.new_full((len(anchors), size), self.config.mask_token_id)
        tokens[:, 0] = anchors
        u = self.embed(tokens)
        angles = self.rotary(slot_positions(positions, size), u.dtype)
        for index, layer in enumerate(self.layers):
            u = layer(u, angles, attend(index))
        return self.norm(u[:, 1:])

    def training_forward(self, batch: PackedBatch, anchors: Tensor) -> DraftHidden:
        """One block per anchor (rows [A] of the batch, increasing), all of them at once.

        Cost, forward: context 2*M*(T*H*H + L*2*kv*hd*H) FLOP for M context rows, blocks 2*A*B*(weights of the
        layers), and the attention of angelspec.drafters.attention. Predecessors are the true tokens.
        """
        layout = BlockLayout.build(batch, anchors, self.config.block_size)
        grid = ContextGrid.build(batch, anchors)
        mask = grid.mask(self.config.block_size, self.config.block_size)
        context = self.context_keys_values(batch.features[grid.rows], batch.positions[grid.rows])
        hidden = self.backbone(
            batch.tokens[anchors],
            batch.positions[anchors],
            self.config.block_size,
            lambda layer: packed_attention(grid, *context[layer], mask),
        )
        hidden = self.refine(hidden, layout.predecessors(batch))
        return DraftHidden(hidden, layout.labels, layout.teacher_rows, layout.valid)


class DFlash(BlockDrafter[DFlashConfig]):
    """DFlash as published: one shared context, independent slots."""
