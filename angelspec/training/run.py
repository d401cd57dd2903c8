"""One training run from answers to a saved drafter: what the command, the workflow and the notebooks call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from angelspec.data.records import AnswerStore
from angelspec.drafters.base import NeuralDrafter
from angelspec.drafters.checkpoint import METHODS, check_target, save_drafter
from angelspec.drafters.initialise import initialise_from_target, initialise_random
from angelspec.drafters.vocab import choose_draft_vocab, choose_mask_token, count_tokens, coverage
from angelspec.io import to_plain, write_json
from angelspec.targets.model import Target
from angelspec.training import checkpoint
from angelspec.training.batches import Batches, keyed_generator
from angelspec.training.config import TrainingConfig, mtp_stages, read_values
from angelspec.training.distributed import World
from angelspec.training.mixture import Selection, choose_answers
from angelspec.training.offline import tau_by_domain
from angelspec.training.trainer import Trainer


@dataclass(frozen=True)
class DrafterPlan:
    """Which drafter to build. Sizes come from the target.

    block_size counts the anchor: block_size - 1 tokens are proposed (for MTP, as many depths). draft_vocab: size of
    the draft vocabulary, None for the whole one. initialise: layers from the target (`from_layers`, evenly spread when
    None), or random. fusion and head are DFly's, on_policy is MTP's.
    """

    method: Literal["mtp", "dflash", "dfly"]
    layers: int = 3
    block_size: int = 8
    draft_vocab: int | None = None
    initialise: Literal["target", "random"] = "target"
    from_layers: tuple[int, ...] | None = None
    fusion: bool = True
    head: Literal["correction", "markov", "none"] = "correction"
    on_policy: bool = True


@dataclass(frozen=True)
class RunConfig:
    """A drafter, the mixture of domains that it learns from, and how it is trained.

    mixture: domain -> share of the answer tokens, None for everything; answer_tokens: budget, None for no limit.
    held_out: at most so many held-out answers for tau during training, per domain.
    """

    drafter: DrafterPlan
    training: TrainingConfig
    mixture: dict[str, float] | None = None
    answer_tokens: int | None = None
    held_out: int = 12

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunConfig:
        """Build from plain values, strictly. MTP gets its own stages unless some are given."""
        run: RunConfig = read_values(cls, values, "run")
        if run.drafter.method == "mtp" and "stages" not in values["training"]:
            stages = to_plain(mtp_stages(run.drafter.block_size - 1))
            return read_values(cls, {**values, "training": {**values["training"], "stages": stages}}, "run")
        return run


@dataclass(frozen=True)
class RunSummary:
    """What came out. coverage: share of the training tokens that the draft vocabulary holds; tau by domain, None
    without held-out answers.
    """

    steps: int
    seconds: float
    documents: int
    answer_tokens: int
    draft_tokens: int
    parameters: int
    coverage: float
    tau: dict[str, float] = field(default_factory=dict)


def train_drafter(
    target: Target,
    run: RunConfig,
    answers: str | Path,
    out: str | Path,
    *,
    held_out: str | Path | None = None,
    world: World | None = None,
    show: bool = True,
) -> RunSummary:
    """Train a drafter for `target` on the answers in a folder; write it to `out`/drafter and the run's records beside
    it.

    An interrupted run goes on from its last checkpoint. With several processes, all of them call this.
    """
    out, world = Path(out), world or World()
    store = AnswerStore(answers)
    check_target(store.run_keys[0]["target"], target.identity, f"The answers in {answers}")
    places = choose_answers(store.records, run.mixture, run.answer_tokens, run.training.seed)
    records = [store.records[place] for place in places]
    lengths = [(len(record.prompt_ids), len(record.response_ids)) for record in records]
    batches = Batches(Selection(store, places), lengths, run.training.batches, run.training.seed)
    counts = count_tokens((record.response_ids for record in records), target.dims.vocab_size)
    drafter = build_drafter(target, run.drafter, store.run_keys[0]["layer_ids"], counts, run.training.seed)
    evaluation = None if held_out is None else tau_by_domain(_held_out(held_out, run.held_out))
    trainer = Trainer(drafter, batches, run.training, out, world=world, evaluation=evaluation, show=show)
    trainer.run()
    summary = RunSummary(
        steps=trainer.step,
        seconds=trainer.seconds,
        documents=len(places),
        answer_tokens=sum(answer for _, answer in lengths),
        draft_tokens=int(sum(row["tokens"] for row in trainer.metrics.rows)),
        parameters=sum(p.numel() for p in drafter.parameters()),
        coverage=coverage(counts, drafter.d2t) if drafter.d2t is not None else 1.0,
        tau={row["domain"]: row["tau"] for row in trainer.evaluations.rows if row["step"] == trainer.step},
    )
    if world.leads:
        _save(target, run, store, drafter, trainer, summary, out)
    world.barrier()
    return summary


def build_drafter(
    target: Target, plan: DrafterPlan, layer_ids: list[int], counts: torch.Tensor, seed: int
) -> NeuralDrafter:
    """A drafter for `target`, its borrowed weights attached, its own ones initialised as planned.

    layer_ids: captured target layers of the answers; counts [V]: tokens of the training answers, for the draft
    vocabulary.
    """
    d2t = None if plan.draft_vocab is None else choose_draft_vocab(counts, plan.draft_vocab, target.eos_ids)
    config_class: Any  # each method's own for_target, with its own fields
    config_class, model = METHODS[plan.method]
    fields: dict[str, Any] = {"draft_vocab_size": plan.draft_vocab}
    if plan.method == "mtp":
        fields |= {"depths": plan.block_size - 1, "on_policy": plan.on_policy}
    else:
        mask = choose_mask_token(target.tokenizer, target.dims.vocab_size)
        fields |= {"num_layers": plan.layers, "block_size": plan.block_size, "mask_token_id": mask}
        fields |= {"target_layer_ids": tuple(layer_ids)}
    if plan.method == "dfly":
        fields |= {"fusion": plan.fusion, "head": plan.head}
    drafter = model(config_class.for_target(target.config, target.identity, **fields), d2t)
    initialise_random(drafter, keyed_generator(seed, 0))
    if plan.initialise == "target":
        layers = plan.from_layers or spread_layers(target.dims.num_layers, len(drafter.layers))
        initialise_from_target(drafter, target.layers, layers, target.final_norm)
    drafter.to(target.device)
    drafter.borrow(target.embed_tokens, target.lm_head)
    return drafter


def spread_layers(target_layers: int, draft_layers: int) -> tuple[int, ...]:
    """Target layers to start from: the last one of each of `draft_layers` equal parts (9, 19, 29 for 3 of 30)."""
    return tuple((i + 1) * target_layers // draft_layers - 1 for i in range(draft_layers))


def _held_out(folder: str | Path, per_domain: int) -> list[tuple[str, Any]]:
    store = AnswerStore(folder)
    temperature = store.run_keys[0]["sampling"]["temperature"]
    if temperature != 0:
        raise ValueError(
            f"The held-out answers in {folder} were sampled at temperature {temperature}; tau without decoding is"
            " exact on greedy answers only. Give answers made at temperature 0, or none."
        )
    taken: dict[str, int] = {}
    documents = []
    for place, record in enumerate(store.records):
        taken[record.domain] = taken.get(record.domain, 0) + 1
        if taken[record.domain] <= per_domain:
            documents.append((record.domain, store.document(place)))
    return documents


def _save(
    target: Target,
    run: RunConfig,
    store: AnswerStore,
    drafter: NeuralDrafter,
    trainer: Trainer,
    summary: RunSummary,
    out: Path,
) -> None:
    """Write the drafter of the last checkpoint (whole tensors, also when training was sharded) and the summary."""
    whole = type(drafter)(drafter.config, drafter.d2t)
    whole.load_state_dict(checkpoint.load(checkpoint.newest(trainer.checkpoints)).model)
    made = {"run": to_plain(run), "answers": store.run_keys[0], "summary": to_plain(summary), "target": target.identity}
    card = {
        "Training": {"documents": summary.documents, "answer tokens": summary.answer_tokens, "steps": summary.steps},
        "Acceptance": {f"tau, held-out {domain}": f"{tau:.2f}" for domain, tau in summary.tau.items()},
    }
    save_drafter(out / "drafter", whole, provenance=made, card=card)
    write_json(out / "summary.json", summary)
