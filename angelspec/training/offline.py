"""Exact greedy acceptance without decoding: replay a drafter on text that the target wrote greedily.

Under greedy decoding a draft token is accepted when it equals the token that the target writes there, and that token
is on record. The drafter sees features of committed text only, which is the recorded text whatever was drafted. So the
number of tokens that a round accepts is a function of its anchor alone, and the rounds of a document are a walk over
that function:

    a = first answer token;  until the answer ends:  n = accepted(a);  commit min(n + 1, rest) tokens;  a <- a + n + 1

The first answer token comes with the prompt's own pass, which drafts nothing and is no round. Rounds equal those of
live greedy decoding with this drafter, the last one of an answer (cut by its end) included. Two ways to ask the
drafter agree:

rollout   through the training forward, all anchors of a document at once. It feeds the true predecessors where decoding
          feeds drafted ones; up to the first mismatch they are the same, and behind it nothing counts.
replay    through propose and commit, as in serving, round by round, many documents at once. It costs only the anchors
          that are visited, and can draft fewer slots than were trained.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from angelspec.data.packing import Document, pack
from angelspec.decoding.categorical import Sampling, SamplingParams
from angelspec.decoding.drafter import Anchors, Committed
from angelspec.losses.vocabulary import slot_terms
from angelspec.training.layout import candidate_anchors
from angelspec.training.types import PackedBatch

ANCHORS_PER_PASS = 256


@dataclass(frozen=True)
class Rollout:
    """Rounds of one document: accepted draft tokens, and committed tokens (accepted + the target's own, cut at the
    end).
    """

    accepted: tuple[int, ...]
    committed: tuple[int, ...]

    @property
    def tau(self) -> float:
        """Committed tokens per target pass."""
        return sum(self.committed) / len(self.committed)


def rollout(drafter: nn.Module, document: Document) -> Rollout | None:
    """Rounds of greedy decoding of one document; None when its answer has fewer than two tokens."""
    return walk(accepted_tokens(drafter, document), len(document))


@torch.no_grad()
def accepted_tokens(drafter: nn.Module, document: Document) -> dict[int, int]:
    """Accepted draft tokens of a round, for every position of the document that can be an anchor."""
    batch = pack([document]).to(next(drafter.parameters()).device)
    candidates = _anchors(batch)
    accepted: dict[int, int] = {}
    for anchors in candidates.split(ANCHORS_PER_PASS) if len(candidates) else ():
        draft = drafter.training_forward(batch, anchors)
        _, seen = slot_terms(draft.hidden.flatten(0, 1), draft.labels.flatten(), drafter.head, ())
        lengths = (seen.correct.view(draft.valid.shape) & draft.valid).cumprod(-1).sum(-1)
        accepted |= dict(zip(anchors.tolist(), lengths.tolist(), strict=True))
    return accepted


def walk(accepted: dict[int, int], length: int) -> Rollout | None:
    """Rounds over a document of `length` tokens, from its first possible anchor to its last token."""
    if not accepted:
        return None
    anchor, rounds = min(accepted), []
    while anchor < length - 1:
        rounds.append((accepted[anchor], min(accepted[anchor] + 1, length - 1 - anchor)))
        anchor += rounds[-1][1]
    return Rollout(*(tuple(column) for column in zip(*rounds, strict=True)))


@torch.no_grad()
def replay(served: Any, documents: Sequence[Document], slots: int | None = None) -> list[Rollout | None]:
    """Rounds of greedy decoding of many documents through a served drafter (angelspec.drafters.serving.serve).

    slots: tokens drafted per round, all that the drafter offers when None.
    """
    slots = served.slots if slots is None else slots
    first = [_first_anchor(document) for document in documents]
    history, known = _histories(documents), list(first)
    documents = [_on_device(document, next(served.drafter.parameters()).device) for document in documents]
    state = served.new_state(None, len(documents), max(len(document) for document in documents))
    rounds: list[list[tuple[int, int]]] = [[] for _ in documents]
    waiting = [i for i, anchor in enumerate(first) if anchor is not None]
    read = dict.fromkeys(waiting, 0)
    while waiting:
        served.commit(state, _newly_committed(documents, waiting, read, known))
        read |= {i: known[i] for i in waiting}
        positions = torch.tensor([known[i] for i in waiting])
        index = torch.tensor(waiting)
        sampling = Sampling.of([SamplingParams(temperature=0.0)] * len(waiting))
        drafts = served.propose(
            state, Anchors(history[index, positions], positions, index, history), slots, sampling, None
        ).tokens
        for i, draft in zip(waiting, drafts.cpu(), strict=True):
            rest = len(documents[i]) - 1 - known[i]
            truth = history[i, known[i] + 1 : known[i] + 1 + min(slots, rest)]
            accepted = int((draft[: len(truth)] == truth).long().cumprod(0).sum())
            rounds[i].append((accepted, min(accepted + 1, rest)))
            known[i] += rounds[i][-1][1]
        waiting = [i for i in waiting if known[i] < len(documents[i]) - 1]
    return [Rollout(*(tuple(c) for c in zip(*one, strict=True))) if one else None for one in rounds]


def tau_by_domain(documents: Sequence[tuple[str, Document]]) -> Callable[[nn.Module], list[dict[str, Any]]]:
    """Evaluation for the trainer: tau on held-out greedy answers, over `all` of them and by domain.

    documents: (domain, document). Rows: domain, tau (tokens per round over all rounds), prompts, rounds.
    """

    def evaluation(drafter: nn.Module) -> list[dict[str, Any]]:
        rollouts = [(domain, rollout(drafter, document)) for domain, document in documents]
        kept = [(domain, one) for domain, one in rollouts if one is not None]
        domains = sorted({domain for domain, _ in kept})
        rows = [_summary("all", [one for _, one in kept])]
        return rows + [_summary(name, [one for domain, one in kept if domain == name]) for name in domains]

    return evaluation


def _summary(domain: str, rollouts: Sequence[Rollout]) -> dict[str, Any]:
    committed = [tokens for one in rollouts for tokens in one.committed]
    tau = sum(committed) / len(committed) if committed else 0.0
    return {"domain": domain, "tau": tau, "prompts": len(rollouts), "rounds": len(committed)}


def _first_anchor(document: Document) -> int | None:
    candidates = _anchors(pack([replace(document, features=document.features[:, :0])]))
    return int(candidates[0]) if len(candidates) else None


def _anchors(batch: PackedBatch) -> Tensor:
    """Answer tokens that another one follows."""
    candidates = candidate_anchors(batch)
    return candidates[batch.supervised[candidates]]


def _on_device(document: Document, device: torch.device) -> Document:
    """The document with its features where the drafter is; tokens stay on the CPU."""
    return replace(document, features=document.features.to(device), final_hidden=document.final_hidden.to(device))


def _histories(documents: Sequence[Document]) -> Tensor:
    """Tokens of all documents, int64 [documents, longest]; the drafter reads them up to the anchor only."""
    return torch.nn.utils.rnn.pad_sequence([document.tokens for document in documents], batch_first=True)


def _newly_committed(
    documents: Sequence[Document], waiting: Sequence[int], start: dict[int, int], end: Sequence[int]
) -> Committed:
    """Rows start[i] .. end[i]-1 of the waiting documents: what the target has read since the last round."""
    spans = [(i, slice(start[i], end[i])) for i in waiting]
    return Committed(
        slots=torch.cat([torch.full((span.stop - span.start,), i) for i, span in spans]),
        positions=torch.cat([torch.arange(span.start, span.stop) for _, span in spans]),
        tokens=torch.cat([documents[i].tokens[span] for i, span in spans]),
        features=torch.cat([documents[i].features[span] for i, span in spans]),
        final_hidden=torch.cat([documents[i].final_hidden[span] for i, span in spans]),
    )
