"""The training loop of all drafters.

A step: take the next batch and its anchors, let the drafter draft from every anchor, apply the objective of the
current stage, follow the gradient. The loop knows nothing about the drafter but `training_forward` and its frozen
head.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from angelspec import hardware
from angelspec.io import to_plain
from angelspec.losses.objective import Outcome, evaluate
from angelspec.training import checkpoint
from angelspec.training.batches import Batches, Position
from angelspec.training.config import TrainingConfig
from angelspec.training.distributed import World, shard
from angelspec.training.optim import build_optimisers, set_learning_rate
from angelspec.training.progress import MetricsTable, ProgressLine
from angelspec.training.types import DraftHead

Evaluation = Callable[[nn.Module], list[dict[str, Any]]]
"""Held-out evaluation: rows with at least `domain` and `tau`."""


class TrainingStopped(ValueError):
    """Training cannot go on. The message says why, what was kept, and what to try."""


class Trainer:
    """Trains `drafter` (angelspec.training.types.TrainableDrafter) in place; resumes by itself when `folder` holds
    checkpoints.

    Files below `folder`: metrics.parquet (a row per step), evaluations.parquet, checkpoints/.
    """

    def __init__(
        self,
        drafter: nn.Module,
        batches: Batches,
        config: TrainingConfig,
        folder: str | Path,
        *,
        world: World | None = None,
        evaluation: Evaluation | None = None,
        show: bool = True,
    ) -> None:
        self.drafter, self.batches, self.config = drafter, batches, config
        self.world, self.evaluation = world or World(), evaluation
        self.device = next(drafter.parameters()).device
        self.bfloat16 = _use_bfloat16(config.autocast, self.device)
        self.head = self._head()
        shard(drafter, self.world, bfloat16=self.bfloat16)
        self.optimisers = build_optimisers(drafter, config.optimiser)
        self.checkpoints = Path(folder) / "checkpoints"
        self.metrics = MetricsTable(Path(folder) / "metrics.parquet")
        self.evaluations = MetricsTable(Path(folder) / "evaluations.parquet")
        self.progress_line = ProgressLine(config.steps) if show and self.world.leads else None
        self.step, self.seconds, self.tau = 0, 0.0, None
        self._saved_step = -1

    @property
    def progress(self) -> float:
        """Share of the budget that is used up: of the steps, or of the minutes if more of those are."""
        share = self.step / self.config.steps
        if self.config.minutes is not None:
            share = max(share, self.seconds / (60 * self.config.minutes))
        return min(share, 1.0)

    def run(self) -> None:
        """Train to the end of the budget.

        Raises TrainingStopped for a loss or gradient that is not finite and for a full disk; the last good checkpoint
        stays.
        """
        self._resume()
        self.drafter.train()
        while self.progress < 1:
            row = self._train_step()
            self.metrics.append(row)
            self._evaluate_if_due()
            if self.progress_line:
                self.progress_line.update({**row, "tau": self.tau}, self.progress)
            if _due(self.step, self.config.checkpoint_every):
                self._save()
        if self._saved_step != self.step:
            self._save()
        if self.progress_line:
            self.progress_line.close()
        self.drafter.eval()

    def _train_step(self) -> dict[str, float]:
        started = time.monotonic()
        progress = self.progress
        lr = self.config.optimiser.lr * self.config.schedule.factor(progress, 1 / self.config.steps)
        objective = self.config.objective(progress)
        loss, seen = 0.0, None
        for _ in range(self.config.accumulate):
            batch, anchors = self.batches.next(self.world.rank, self.world.size)
            batch, anchors = batch.to(self.device), anchors.to(self.device)
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16):
                draft = self.drafter.training_forward(batch, anchors)
            outcome = evaluate(draft, batch, self.head, objective)
            denominators = self.world.sum(outcome.denominators).clamp_min(torch.finfo(torch.float32).tiny)
            share = (outcome.numerators / denominators).sum() / self.config.accumulate
            (share * self.world.size).backward()  # FSDP averages over the processes; the shares must be added
            loss += float(self.world.sum(share))
            statistics = _slot_statistics(outcome)
            seen = statistics if seen is None else seen + statistics
        norm = self._clip_gradients(loss)
        set_learning_rate(self.optimisers, lr)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        self.step += 1
        elapsed = time.monotonic() - started
        self.seconds += elapsed
        totals = {"step": self.step, "seconds": self.seconds, "loss": loss, "lr": lr, "gradient_norm": norm}
        return totals | _slot_metrics(self.world.sum(seen), elapsed)

    def _clip_gradients(self, loss: float) -> float:
        """Clip to the global norm and return it; stop before anything that is not finite reaches the weights."""
        if math.isfinite(loss):
            norm = torch.nn.utils.clip_grad_norm_(self.drafter.parameters(), self.config.optimiser.clip)
            norm = float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)
            if math.isfinite(norm):
                return norm
            what = f"the gradient norm is {norm}"
        else:
            what = f"the loss is {loss}"
        raise self._stopped(f"{what}. Try a lower learning rate or more warm-up, and look at metrics.parquet.")

    def _evaluate_if_due(self) -> None:
        last = self.progress >= 1 and self.config.evaluate_every
        if self.evaluation is None or not (last or _due(self.step, self.config.evaluate_every)):
            return
        self.drafter.eval()
        rows = self.evaluation(self.drafter)
        self.drafter.train()
        for row in rows:
            self.evaluations.append({"step": self.step, "seconds": self.seconds, **row})
        self.tau = next((row["tau"] for row in rows if row["domain"] == "all"), self.tau)

    def _save(self) -> None:
        state = {
            "step": self.step,
            "seconds": self.seconds,
            "position": to_plain(self.batches.position),
            "config": to_plain(self.config),
        }
        taken = checkpoint.take(self.drafter, self.optimisers, state)
        if self.world.leads:
            try:
                self.metrics.write()
                self.evaluations.write()
                checkpoint.save(taken, self.checkpoints, self.config.keep_checkpoints)
            except checkpoint.DiskFull as error:
                raise self._stopped(f"{error.strerror} ({error.filename}). Free some space and start again.") from error
        self.world.barrier()
        self._saved_step = self.step

    def _resume(self) -> None:
        path = checkpoint.newest(self.checkpoints)
        if path is None:
            return
        saved = checkpoint.load(path)
        _same_run(saved.state["config"], to_plain(self.config), path)
        checkpoint.restore(saved, self.drafter, self.optimisers)
        self.step, self.seconds = saved.state["step"], saved.state["seconds"]
        self.batches.position = Position(**saved.state["position"])
        self.metrics.load(self.step)
        self.evaluations.load(self.step)
        self._saved_step = self.step

    def _stopped(self, reason: str) -> TrainingStopped:
        path = checkpoint.newest(self.checkpoints)
        kept = f"The last good checkpoint is {path.name}" if path else "There is no checkpoint yet"
        if self.world.leads:
            self.metrics.write()
        return TrainingStopped(f"Training stopped in step {self.step + 1}: {reason} {kept}.")

    def _head(self) -> DraftHead:
        head = self.drafter.head
        # Logits need more than bfloat16 gives; only GPUs return float32 products of bfloat16 matrices.
        if self.bfloat16 and self.device.type == "cuda":
            return DraftHead(head.weight.to(torch.bfloat16), head.d2t, head.t2d)
        return head


def _slot_statistics(outcome: Outcome) -> torch.Tensor:
    """[5, N]: count, correct, reached, acceptance, missing."""
    parts = (outcome.count, outcome.correct, outcome.reached, outcome.acceptance, outcome.missing)
    return torch.stack([part.double() for part in parts])


def _slot_metrics(seen: torch.Tensor, elapsed: float) -> dict[str, float]:
    """Means per slot; `draft_tau` = 1 + expected accepted tokens of a block with teacher-forced predecessors."""
    count, correct, reached, acceptance, missing = seen.cpu()
    some = count.clamp_min(1)
    tokens = float(count.sum())
    metrics = {
        "tokens": tokens,
        "tokens_per_s": tokens / elapsed,
        "draft_tau": 1 + float((reached / some).sum()),
        "missing": float(missing.sum() / some.sum()),
    }
    for slot, (right, alpha) in enumerate(
        zip((correct / some).tolist(), (acceptance / some).tolist(), strict=True), start=1
    ):
        metrics |= {f"correct_{slot}": right, f"acceptance_{slot}": alpha}
    return metrics


def _use_bfloat16(wish: str, device: torch.device) -> bool:
    if wish != "auto":
        return wish == "on"
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and bool(set(hardware.cpu_flags()) & set(hardware.NATIVE_BF16_FLAGS))


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def _same_run(saved: Mapping[str, Any], current: Mapping[str, Any], path: Path) -> None:
    different = sorted(key for key in saved.keys() | current.keys() if saved.get(key) != current.get(key))
    if different:
        raise TrainingStopped(
            f"{path} was made with another configuration ({', '.join(different)} differ). Go on with that one, or give"
            " this run a folder of its own."
        )
