"""The real target in float32: the engine's greedy answers against one stock forward over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from angelspec.decoding.engine import Engine
from angelspec.decoding.request import Answer, Request
from angelspec.device import DevicePolicy
from angelspec.drafters.ngram import NGramDrafter
from angelspec.evaluation.bench_prompts import bench_prompts
from angelspec.targets.load import load_target
from angelspec.targets.rows import Rows
from angelspec.targets.spec import SMOLLM2
from tests.unit.decoding.mock_drafters import Ragged

PROMPTS, NEW_TOKENS = 16, 128


@pytest.fixture(scope="module")
def served() -> Any:
    """The target as a user gets it in float32: with the C++ kernels where there is a compiler. Not compiled."""
    return load_target(SMOLLM2, DevicePolicy("cpu", torch.float32, torch.get_num_threads(), False, {}))


@pytest.fixture(scope="module")
def requests(smollm2: Any) -> list[Request]:
    texts = bench_prompts()[:: 128 // PROMPTS]
    ids = [smollm2.tokenizer(f"Question: {text}\nAnswer:")["input_ids"] for text in texts]
    return [Request(str(i), prompt, max_new_tokens=NEW_TOKENS) for i, prompt in enumerate(ids)]


@pytest.fixture(scope="module")
def answers(served: Any, requests: list[Request]) -> list[Answer]:
    return Engine(served, slots=PROMPTS, max_len=256).run(requests)


@pytest.fixture(scope="module")
def logits(smollm2: Any, answers: list[Answer], stock: Callable[..., Any]) -> list[torch.Tensor]:
    """Stock logits [128, V] for every generated position: one padded forward per four answers, for memory."""
    found = []
    for group in range(0, PROMPTS, 4):
        texts = [torch.tensor([*a.prompt_ids, *a.token_ids][:-1]) for a in answers[group : group + 4]]
        padded = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True)  # causal: what follows a text changes nothing
        out = stock(smollm2, padded).logits
        found += [row[len(t) - NEW_TOKENS : len(t)].clone() for row, t in zip(out, texts, strict=True)]
    return found


@pytest.fixture(scope="module")
def noise(served: Any, answers: list[Answer], logits: list[torch.Tensor]) -> float:
    """Largest logit difference between the stock forward and ours, fed one answer the way the engine fed it."""
    text, first, steps = [*answers[0].prompt_ids, *answers[0].token_ids], len(answers[0].prompt_ids), 24
    cache = served.new_cache(1, 256)
    ours = []
    for piece in [range(first), *([i] for i in range(first, first + steps - 1))]:
        rows = Rows.concatenate([(0, piece[0], [text[i] for i in piece])])
        ours.append(served.forward(rows, cache, logit_rows=torch.tensor([len(piece) - 1])).logits)
    return (torch.cat(ours) - logits[0][:steps]).abs().max().item()


def test_every_token_is_the_stock_models_argmax(
    answers: list[Answer], logits: list[torch.Tensor], noise: float
) -> None:
    """Equal, or at a top-2 gap of at most twice the measured float32 noise."""
    print(f"float32 noise {noise:.1e}")
    assert noise < 1e-3, "float32 noise of this size would hide errors"
    for answer, stock_logits in zip(answers, logits, strict=True):
        assert len(answer.token_ids) == NEW_TOKENS
        chosen = stock_logits.gather(1, torch.tensor(answer.token_ids).unsqueeze(1)).squeeze(1)
        assert (stock_logits.amax(1) - chosen).max() <= 2 * noise


def test_speculative_answers_diverge_at_near_ties_only(
    served: Any, requests: list[Request], answers: list[Answer], logits: list[torch.Tensor], noise: float
) -> None:
    engine = Engine(served, NGramDrafter(slots=5), slots=7, max_len=256, policy=Ragged())
    drafted = engine.run([Request(r.id, r.prompt_ids, max_new_tokens=32) for r in requests[:7]])
    assert engine.stats.tau > 1.05, "nothing was accepted, so nothing was tested"
    for answer, plain, stock_logits in zip(drafted, answers, logits, strict=False):
        same = [a == b for a, b in zip(answer.token_ids, plain.token_ids, strict=False)]
        if not all(same):
            top = stock_logits[same.index(False)].topk(2).values
            assert top[0] - top[1] <= 2 * noise
