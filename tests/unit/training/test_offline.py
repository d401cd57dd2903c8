"""The offline rollout: equal to its other form, to a literal simulation, and to live greedy decoding with the
engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from angelspec.data.packing import Document, pack
from angelspec.decoding.categorical import SamplingParams
from angelspec.decoding.engine import Engine
from angelspec.decoding.request import Request
from angelspec.drafters.dfly import DFly, DFlyConfig
from angelspec.drafters.mtp import MTP, MTPConfig
from angelspec.drafters.serving import serve
from angelspec.losses.objective import Objective, evaluate
from angelspec.targets.rows import Rows
from angelspec.training.layout import candidate_anchors
from angelspec.training.offline import Rollout, accepted_tokens, replay, rollout, tau_by_domain, walk

LAYER_IDS, PROMPTS, LENGTH = (0, 1, 3), [[5, 9, 2, 40], [7, 8], [11, 3, 3], [60, 61, 62, 63, 64]], 24


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def requests() -> list[Request]:
    return [Request(str(i), tuple(ids), SamplingParams(), LENGTH, (), ()) for i, ids in enumerate(PROMPTS)]


def live_rounds(target: Any, served: Any) -> list[tuple[int, ...]]:
    """Tokens that the engine commits in each round of each request; the first round is the pass over the prompt."""
    sizes: dict[str, list[int]] = {request.id: [] for request in requests()}
    Engine(target, served, slots=3, max_len=64).run(requests(), on_token=lambda c: sizes[c.id].append(len(c.token_ids)))
    return [tuple(one) for one in sizes.values()]


@pytest.fixture
def documents(tiny_llama: Any) -> list[Document]:
    """Greedy answers of the tiny target, and what it computed while reading them."""
    made = []
    for answer in Engine(tiny_llama, slots=2, max_len=64).run(requests()):
        tokens = torch.tensor([*answer.prompt_ids, *answer.token_ids])
        n = len(tokens) - 1
        rows = Rows(tokens[:-1], torch.arange(n), torch.zeros(n, dtype=torch.int64))
        out = tiny_llama.forward(rows, tiny_llama.new_cache(1, n), layer_ids=LAYER_IDS)
        supervised = torch.arange(n + 1) >= len(answer.prompt_ids)
        made.append(Document(tokens, supervised, out.features, out.final_hidden, out.logits.logsumexp(-1)))
    return made


@pytest.fixture(params=["dfly", "mtp"])
def drafter(request: pytest.FixtureRequest, tiny_llama: Any, documents: list[Document]) -> Any:
    """A drafter that has learned some of these answers, so that rounds of every length occur."""
    torch.manual_seed(0)
    if request.param == "mtp":
        made = MTP(MTPConfig.for_target(tiny_llama.config, tiny_llama.identity, depths=3))
    else:
        own = {"num_layers": 2, "block_size": 4, "target_layer_ids": LAYER_IDS, "mask_token_id": 96}
        made = DFly(DFlyConfig.for_target(tiny_llama.config, tiny_llama.identity, **own))
    made.borrow(tiny_llama.embed_tokens, tiny_llama.lm_head)
    batch = pack(documents[:2])
    optimiser = torch.optim.Adam(made.parameters(), lr=3e-3)
    for _ in range(25):
        draft = made.training_forward(batch, candidate_anchors(batch))
        outcome = evaluate(draft, batch, made.head, Objective(ce=1.0))
        optimiser.zero_grad()
        (outcome.numerators / outcome.denominators).sum().backward()
        optimiser.step()
    return made.eval()


def test_a_walk_jumps_over_what_was_committed_and_is_cut_by_the_end() -> None:
    accepted = {3: 2, 4: 0, 5: 9, 6: 0, 7: 1, 8: 1}
    assert walk(accepted, 10) == Rollout(accepted=(2, 0, 1), committed=(3, 1, 2))
    assert walk(accepted, 9) == Rollout(accepted=(2, 0, 1), committed=(3, 1, 1))
    assert walk({}, 5) is None
    assert walk(accepted, 10).tau == 2.0


def test_both_forms_equal_live_greedy_decoding(drafter: Any, tiny_llama: Any, documents: list[Document]) -> None:
    offline = [rollout(drafter, document) for document in documents]
    assert offline == replay(serve(drafter), documents)
    assert live_rounds(tiny_llama, serve(drafter)) == [(1, *one.committed) for one in offline]
    lengths = {tokens for one in offline for tokens in one.accepted}
    assert lengths >= {0, 3}, "the rounds are too much alike to test anything"


def test_fewer_slots_equal_live_decoding_with_fewer_slots(
    drafter: Any, tiny_llama: Any, documents: list[Document]
) -> None:
    offline = replay(serve(drafter), documents, slots=2)
    assert max(tokens for one in offline for tokens in one.accepted) == 2
    assert live_rounds(tiny_llama, serve(drafter, slots=2)) == [(1, *one.committed) for one in offline]


def test_the_future_is_not_looked_at(drafter: Any, documents: list[Document]) -> None:
    """Replacing all that lies behind an anchor and its labels changes nothing about its round."""
    document = documents[0]
    anchor = 10
    n = anchor + 4
    features, final_hidden = document.features[: n - 1].clone(), document.final_hidden[: n - 1].clone()
    cut = Document(document.tokens[:n], document.supervised[:n], features, final_hidden, document.lse[: n - 1])
    cut.features[anchor:] = 1e3
    cut.final_hidden[anchor:] = -1e3
    assert accepted_tokens(drafter, cut)[anchor] == accepted_tokens(drafter, document)[anchor]


def test_evaluation_rows(drafter: Any, documents: list[Document]) -> None:
    rows = tau_by_domain([("chat", documents[0]), ("math", documents[2]), ("math", documents[3])])(drafter)
    assert [(row["domain"], row["prompts"]) for row in rows] == [("all", 3), ("chat", 1), ("math", 2)]
    assert rows[1]["tau"] == rollout(drafter, documents[0]).tau
    weighted = sum(row["tau"] * row["rounds"] for row in rows[1:]) / rows[0]["rounds"]
    assert rows[0]["tau"] == pytest.approx(weighted)
