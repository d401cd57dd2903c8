"""What goes into the engine and what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from angelspec.decoding.categorical import SamplingParams

FinishReason = Literal["stop", "length", "context", "interrupted"]


@dataclass(frozen=True)
class Request:
    """One prompt and how to answer it.

    stop_ids end the answer and belong to it (usually the target's eos_ids; empty to ignore them). A stop string ends
    the text in front of it; it is matched in the text without special tokens. `meta` is carried to the answer.
    """

    id: str
    prompt_ids: Sequence[int]
    params: SamplingParams = SamplingParams()
    max_new_tokens: int = 128
    stop_ids: Sequence[int] = ()
    stop_strings: Sequence[str] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not len(self.prompt_ids):
            raise ValueError(f"request {self.id!r} has an empty prompt; expected at least one token")
        if self.max_new_tokens < 1:
            raise ValueError(f"request {self.id!r}: max_new_tokens is {self.max_new_tokens}; expected at least 1")
        if "" in self.stop_strings:
            raise ValueError(f"request {self.id!r} has an empty stop string, which would end every answer at once")


@dataclass(frozen=True)
class Answer:
    """One finished request.

    finish_reason  stop         a stop token (the last of token_ids) or a stop string (cut from text; the token that
                                completed it is the last one)
                   length       max_new_tokens
                   context      the engine's max_len: prompt and answer together
                   interrupted  SIGINT; token_ids hold what was committed until then
    rounds         target passes that committed tokens; drafted and accepted count draft tokens verified and kept.
                   accepted is what the target agreed with, also when a stop inside the block cuts it
    submitted, started, first_token, finished   seconds of time.perf_counter; started is when a KV slot was free
    """

    id: str
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    text: str
    finish_reason: FinishReason
    params: SamplingParams
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    submitted: float = 0.0
    started: float = 0.0
    first_token: float = 0.0
    finished: float = 0.0
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Chunk:
    """Tokens just committed for one request, for streaming. The first `accepted` of them were draft tokens."""

    id: str
    token_ids: list[int]
    accepted: int
