"""The law of the output through the whole engine: a tiny float64 target, real drafters that draw, 20,000 answers each.

Answers to one prompt under 20,000 seeds; the first three tokens must have the law that the target itself gives when it
reads all prefixes. The first token comes from the prompt alone, the others were drafted, judged, corrected or
sampled. The settings are one family: Holm at level 0.01.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from angelspec.decoding.categorical import Categorical, Sampling, SamplingParams
from angelspec.decoding.engine import Engine
from angelspec.decoding.exactness import Looks, Rule
from angelspec.decoding.request import Answer, Request
from angelspec.drafters.ngram import NGramDrafter
from angelspec.drafters.serving import serve
from angelspec.targets.rows import Rows
from angelspec.verification.policies import Fixed, Full, StepBatch
from tests.property.laws import p_value, rejected
from tests.tiny_drafters import random_drafter

VOCAB, PROMPT, LENGTH, NEW_TOKENS = 8, [3, 1], 3, 4
DRAWS, ALPHA = 20_000, 0.01
P = SamplingParams


@pytest.fixture(scope="module", autouse=True)
def float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def target() -> Any:
    """A Llama of two layers over eight tokens: small enough to enumerate what it writes."""
    from transformers import AutoModelForCausalLM, LlamaConfig

    from angelspec.targets.float64 import keep_float64
    from angelspec.targets.model import Target
    from tests.tiny_targets import TinyTokenizer

    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, max_position_embeddings=64, initializer_range=0.5, bos_token_id=None,
        eos_token_id=0, pad_token_id=None, tie_word_embeddings=True,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float64)
    keep_float64(model)
    identity = {"kind": "random", "name": "tiny-law", "revision": "0", "digest": "none"}
    return Target(model, TinyTokenizer(), identity)


def enumerate_law(target: Any, params: SamplingParams) -> Tensor:
    """P(x1, x2, x3) float64 [V^3]: the target reads every prefix."""
    prefixes = [[a, b] for a in range(VOCAB) for b in range(VOCAB)]
    rows = Rows.concatenate([(i, 0, [*PROMPT, *prefix]) for i, prefix in enumerate(prefixes)])
    logits = target.forward(rows, target.new_cache(len(prefixes), 8)).logits.view(VOCAB, VOCAB, 4, VOCAB)

    def probs(x: Tensor) -> Tensor:
        flat = x.reshape(-1, VOCAB)
        return Categorical.from_logits(flat, Sampling.of([params] * len(flat))).probs().view(x.shape)

    first, second, third = probs(logits[0, 0, 1]), probs(logits[:, 0, 2]), probs(logits[:, :, 3])
    return (first.view(-1, 1, 1) * second.unsqueeze(2) * third).flatten()


@dataclass
class Ragged:
    """History: depths by a generator that sees nothing."""

    name: str = "ragged"
    looks_at: Looks = "history"

    def __post_init__(self) -> None:
        self.generator = torch.Generator().manual_seed(6)

    def __call__(self, survival: Tensor, batch: StepBatch, costs: Any = None) -> Tensor:
        return torch.randint(0, survival.shape[1] + 1, (len(survival),), generator=self.generator)


@dataclass
class Threshold:
    """Prefix: as deep as the survival stays above a bound."""

    name: str = "threshold"
    looks_at: Looks = "prefix"

    def __call__(self, survival: Tensor, batch: StepBatch, costs: Any = None) -> Tensor:
        return (survival > 0.2).sum(1)


@dataclass
class BestHalf:
    """Batch: the better half of all draft rows in the step."""

    name: str = "best half"
    looks_at: Looks = "batch"

    def __call__(self, survival: Tensor, batch: StepBatch, costs: Any = None) -> Tensor:
        return (survival >= survival.flatten().kthvalue((survival.numel() + 1) // 2).values).sum(1)


class Sometimes(Ragged):
    """Drafts in two steps of three only, and not always to the full length."""

    steps = 0

    def draft_slots(self, batch: StepBatch, costs: Any = None) -> int:
        self.steps += 1
        return (3, 0, 2)[self.steps % 3]


SETTINGS: dict[str, tuple[Rule, SamplingParams, str, Callable[[], Any]]] = {
    "B dfly T1 full": ("B", P(1.0), "dfly", Full),
    "B dfly T.7 top-p threshold": ("B", P(0.7, top_p=0.9), "dfly", Threshold),
    "B dfly d2t T1 top-k ragged": ("B", P(1.0, top_k=5), "dfly d2t", Ragged),
    "B dflash T1 best half of the batch": ("B", P(1.0), "dflash", BestHalf),
    "B mtp T.3 sometimes": ("B", P(0.3), "mtp", Sometimes),
    "B mtp T1 min-p fixed": ("B", P(1.0, min_p=0.1), "mtp", lambda: Fixed(2)),
    "A dfly T.7 best half of the batch": ("A", P(0.7), "dfly", BestHalf),
    "A ngram T1 top-p full": ("A", P(1.0, top_p=0.9), "ngram", Full),
}


def build(kind: str, target: Any, sample: bool) -> Any:
    """Drafts that agree with the target now and then: large random weights, the target's own head."""
    if kind == "ngram":
        return NGramDrafter(3, max_n=2)
    d2t = torch.tensor([1, 2, 4, 6, 7]) if kind.endswith("d2t") else None
    return serve(random_drafter(kind.split()[0], target, (0, 1), seed=3, d2t=d2t), sample=sample)


def answer_all(target: Any, setting: str, draws: int = DRAWS) -> list[Answer]:
    rule, params, kind, policy = SETTINGS[setting]
    requests = [
        Request("x", PROMPT, P(params.temperature, params.top_k, params.top_p, params.min_p, seed), NEW_TOKENS)
        for seed in range(draws)
    ]
    engine = Engine(
        target, build(kind, target, rule == "B"), slots=1000, max_len=len(PROMPT) + NEW_TOKENS, policy=policy(),
        rule=rule, prefill_rows=1500,
    )  # fmt: skip
    return engine.run(requests)


def first_tokens(answers: list[Answer]) -> Tensor:
    return torch.tensor([a.token_ids[:LENGTH] for a in answers])


@pytest.fixture(scope="module")
def p_values() -> dict[str, float]:
    return {}


@pytest.mark.parametrize("setting", SETTINGS)
def test_answers_have_the_targets_law(target: Any, setting: str, p_values: dict[str, float]) -> None:
    answers = answer_all(target, setting)
    drafted, accepted = sum(a.drafted for a in answers), sum(a.accepted for a in answers)
    assert 0.05 * drafted < accepted < 0.95 * drafted, "drafts were all kept or all refused: nothing was tested"
    p_values[setting] = p = p_value(first_tokens(answers), enumerate_law(target, SETTINGS[setting][1]))
    assert p > ALPHA / len(SETTINGS)


def test_the_family_as_a_whole(p_values: dict[str, float]) -> None:
    assert not rejected(list(p_values.values()), ALPHA), p_values


def test_the_wrong_proposal_distribution_is_caught_through_the_engine(
    target: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drafter that draws at one temperature and reports another one."""
    from angelspec.decoding.proposal import Proposal
    from angelspec.drafters.serving import ServedDrafter

    honest = ServedDrafter.proposal

    def flattened(self: ServedDrafter, slots: list[Any]) -> Proposal:
        proposal = honest(self, slots)
        assert proposal.q is not None
        q = proposal.q.sqrt()
        return Proposal(proposal.tokens, proposal.confidence, q / q.sum(2, keepdim=True))

    monkeypatch.setattr(ServedDrafter, "proposal", flattened)
    answers = answer_all(target, "B dfly T1 full", draws=6000)
    assert p_value(first_tokens(answers), enumerate_law(target, P(1.0))) < 1e-10
