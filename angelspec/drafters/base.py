"""What all neural drafters share: trainable layers, and the embedding and LM head that they borrow from the target.

Borrowed weights are frozen, belong to the target, and are neither parameters nor part of the drafter's files; the
folder names them instead. A drafter is usable only after `borrow`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Tensor, nn

from angelspec.drafters.config import DrafterConfig
from angelspec.drafters.layers import DraftLayer, RMSNorm, Rotary
from angelspec.training.types import DraftHead

Config = TypeVar("Config", bound=DrafterConfig)


class Borrowed:
    """Frozen parts of the target. Not an nn.Module, so that the drafter does not own what is in it.

    embed   the target's embedding module (it may scale what it looks up)
    logits  the LM head as a module, hidden [.., H] -> logits [.., V_d]: the target's own, or one of the same kind over
            the rows d2t (a target whose linear layers are packed for a CPU gets a packed one)
    """

    def __init__(self, embed_tokens: nn.Module, lm_head: Any, d2t: Tensor | None) -> None:
        self.embed, self.logits, self._lm_head, self._d2t = embed_tokens, lm_head, lm_head, d2t
        plain = type(lm_head) is nn.Linear
        if d2t is not None:
            rows = lm_head.weight.detach()[d2t].contiguous()
            self.logits = nn.Linear(rows.shape[1], rows.shape[0], bias=False, device="meta")
            self.logits.weight = nn.Parameter(rows, requires_grad=False)
            self.logits = self.logits if plain else type(lm_head)(self.logits)
        self.dtype = lm_head.weight.dtype if plain else torch.float32  # what `logits` wants to be fed

    @functools.cached_property
    def head(self) -> DraftHead:
        """The same rows as a matrix, for the losses."""
        return DraftHead.restrict(self._lm_head.weight, self._d2t)


class NeuralDrafter(nn.Module, Generic[Config]):
    """L draft layers, the final norm, the rotary angles, and the draft vocabulary."""

    d2t: Tensor | None

    def __init__(self, config: Config, d2t: Tensor | None = None) -> None:
        """d2t [V_d]: target id of each draft id; None when every target token can be drafted."""
        super().__init__()
        size = config.vocab_size if d2t is None else d2t.numel()
        if size != config.draft_vocab_size:
            raise ValueError(
                f"The draft vocabulary has {size} tokens, config says draft_vocab_size {config.draft_vocab_size}."
            )
        self.config = config
        layers = nn.ModuleList(DraftLayer(config) for _ in range(config.num_layers))
        self.layers = cast(Sequence[DraftLayer], layers)
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.rotary = Rotary(config)
        self.register_buffer("d2t", d2t)
        self._borrowed: Borrowed | None = None

    def borrow(self, embed_tokens: nn.Module, lm_head: Any) -> None:
        """Take the target's embedding and LM head. Raises ValueError for another shape or a head with a bias."""
        c = self.config
        found = (lm_head.out_features, lm_head.in_features)
        if found != (c.vocab_size, c.hidden_size):
            raise ValueError(
                f"The target's LM head is {found}, this drafter was made for {(c.vocab_size, c.hidden_size)}: it"
                " belongs to another target."
            )
        if lm_head.bias is not None:
            raise ValueError("The target's LM head has a bias; drafters and their losses know heads without one only.")
        self._borrowed = Borrowed(embed_tokens, lm_head, self.d2t)

    @property
    def head(self) -> DraftHead:
        """The frozen LM head over the draft vocabulary."""
        return self._parts.head

    @torch.no_grad()
    def embed(self, tokens: Tensor) -> Tensor:
        """Frozen target embeddings [.., H] of target ids [..], in the drafter's dtype."""
        return self._parts.embed(tokens).to(self.norm.weight.dtype)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [.., V_d] of hidden states [.., H] through the borrowed head."""
        return self._parts.logits(hidden.to(self._parts.dtype))

    def to_target_ids(self, draft_ids: Tensor) -> Tensor:
        """Target ids of draft ids."""
        return draft_ids if self.d2t is None else self.d2t[draft_ids]

    @property
    def _parts(self) -> Borrowed:
        if self._borrowed is None:
            raise RuntimeError(
                "This drafter has no embedding and LM head yet; call borrow(embed_tokens, lm_head) first."
            )
        return self._borrowed
