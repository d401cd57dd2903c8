"""A target of a few numbers, answers that can be learned, and a drafter for them. Also a program: one training run in
a process of its own.

The "language": each token is the one before plus a step that the document keeps, modulo the vocabulary. The fake
target knows the next token (its final hidden state points at it) and its features hold the current token and the step,
so a drafter can foresee all of it.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import torch
from torch import nn

from angelspec.data.packing import Document
from angelspec.drafters.dfly.config import DFlyConfig
from angelspec.drafters.dfly.model import DFly
from angelspec.losses.objective import Objective
from angelspec.training.batches import BatchConfig, Batches
from angelspec.training.config import Stage, TrainingConfig
from angelspec.training.distributed import World, join_world
from angelspec.training.optim import OptimiserConfig
from angelspec.training.progress import ProgressLine
from angelspec.training.trainer import Trainer

VOCAB, HIDDEN, FEATURES, STEPS = 24, 16, 2, 5
MASK = VOCAB - 1


class TinyTarget(nn.Module):
    """Embedding and LM head."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.embed_tokens = nn.Embedding(VOCAB, HIDDEN)
        self.lm_head = nn.Linear(HIDDEN, VOCAB, bias=False)
        for module in (self.embed_tokens, self.lm_head):
            nn.init.normal_(module.weight, generator=generator)
        self.requires_grad_(False)


class TinyStore:
    """Documents made up on demand; `lengths` are those of prompts and answers."""

    def __init__(self, documents: int = 12, seed: int = 1, longest: int = 30) -> None:
        generator = torch.Generator().manual_seed(seed)
        draw = lambda low, high: torch.randint(low, high, (documents,), generator=generator).tolist()  # noqa: E731
        self.starts, self.steps = draw(0, MASK), draw(1, STEPS)
        self.lengths = list(zip(draw(2, 6), draw(8, longest), strict=True))
        self.target = TinyTarget()

    def document(self, place: int) -> Document:
        prompt, answer = self.lengths[place]
        length = prompt + answer
        tokens = (self.starts[place] + self.steps[place] * torch.arange(length)) % MASK
        final_hidden = 2 * self.target.lm_head.weight[tokens[1:]]
        step = self.target.embed_tokens.weight[self.steps[place]].expand(length - 1, -1)
        features = torch.stack([self.target.embed_tokens(tokens[:-1]), step], dim=1)
        lse = (final_hidden @ self.target.lm_head.weight.T).logsumexp(-1)
        return Document(tokens, torch.arange(length) >= prompt, features, final_hidden, lse)


def tiny_drafter(seed: int = 7, block_size: int = 4) -> DFly:
    torch.manual_seed(seed)
    config = DFlyConfig(
        hidden_size=HIDDEN, intermediate_size=32, num_heads=2, num_kv_heads=1, head_dim=8, vocab_size=VOCAB,
        draft_vocab_size=VOCAB, rms_norm_eps=1e-6, hidden_act="silu", max_position_embeddings=128,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4},
        num_layers=2, qk_norm=True, block_size=block_size,
        target_layer_ids=tuple(range(FEATURES)), target={}, mask_token_id=MASK,
    )  # fmt: skip
    drafter, target = DFly(config), TinyTarget()
    drafter.borrow(target.embed_tokens, target.lm_head)
    return drafter


def tiny_config(**changes: object) -> TrainingConfig:
    config = TrainingConfig(
        steps=30,
        batches=BatchConfig(sequences=2, max_length=48, anchors=6),
        stages=(Stage(Objective(lk_hybrid=1.0, slots="d-pace"), 0.7), Stage(Objective(e2e=1.0), 0.3)),
        optimiser=OptimiserConfig(lr=2e-2),
        autocast="off",
        checkpoint_every=4,
    )
    return dataclasses.replace(config, **changes)


def tiny_trainer(folder: Path, config: TrainingConfig, world: World | None = None, show: bool = False) -> Trainer:
    store = TinyStore()
    batches = Batches(store, store.lengths, config.batches, config.seed)
    return Trainer(tiny_drafter(), batches, config, folder, world=world, show=show)


if __name__ == "__main__":  # python tiny.py FOLDER CONFIG-AS-JSON: one run, a line on stderr for every step
    torch.set_num_threads(1)
    run = TrainingConfig.from_dict(json.loads(sys.argv[2]))
    trainer = tiny_trainer(Path(sys.argv[1]), run, join_world("cpu"))
    trainer.progress_line = ProgressLine(run.steps, every_s=0.0)
    trainer.run()
