"""Asking a target: prompts become conversations, held turn by turn, and every answer comes with the target's own rows.

Every prompt is asked in the chat template, in one mode. Conversations of several turns advance together: the second
question is asked after the first answer, in the words that the target really used.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from angelspec.data.masks import keep_supervised
from angelspec.data.prompts import Prompt
from angelspec.data.records import AnswerRecord, TargetRows
from angelspec.data.templates import ChatTemplate, Message, TemplateError
from angelspec.decoding.capture import Capture
from angelspec.decoding.categorical import SamplingParams
from angelspec.decoding.engine import Engine
from angelspec.decoding.request import Answer, Request
from angelspec.targets.model import Target, default_layer_ids

HEARTBEAT_S = 10.0
TEMPLATE_TOKENS = 32  # room for what a template writes around a later question
Say = Callable[[str], None]


@dataclass(frozen=True)
class Mode:
    """How the target is asked: everything, besides target and prompt, that an answer depends on."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    thinking: bool | None = None
    system: str | None = None
    max_new_tokens: int = 128
    layers: int = 5  # captured target layers T

    def params(self, seed: int) -> SamplingParams:
        return SamplingParams(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p, seed=seed)


@dataclass(frozen=True)
class Answered:
    """Answers in the order of their prompts and turns, the target's rows of each, and what was left out, by reason."""

    records: list[AnswerRecord]
    rows: list[TargetRows]
    dropped: Counter[str]


class Interviewer:
    """A target that is asked `prompts` in one mode, `slots` conversations at a time.

    lengths   tokens of the first question of every prompt that can be asked, by id
    skipped   the others, counted by reason
    max_len   tokens of the longest conversation

    Raises TemplateError for a tokenizer without a template, ValueError when no prompt at all can be asked.
    """

    def __init__(
        self,
        target: Target,
        mode: Mode,
        prompts: Sequence[Prompt],
        *,
        slots: int = 16,
        max_prompt_tokens: int = 1024,
        say: Say = print,
    ) -> None:
        self.target, self.mode, self.slots, self.say = target, mode, slots, say
        self.template = ChatTemplate(target.tokenizer, mode.thinking, mode.system)
        self.layer_ids = default_layer_ids(target.dims.num_layers, mode.layers)
        self.lengths: dict[str, int] = {}
        self.skipped: Counter[str] = Counter()
        longest = 0
        for prompt in prompts:
            try:
                length = len(self.template.prompt_ids(questions(prompt)[0]))
            except TemplateError as error:
                self.skipped[f"does not render: {error}"] += 1
                continue
            if length > max_prompt_tokens:
                self.skipped[f"longer than {max_prompt_tokens} tokens"] += 1
                continue
            self.lengths[prompt.id] = length
            longest = max(longest, self._longest(prompt, length))
        if not self.lengths:
            reasons = "; ".join(f"{count} {reason}" for reason, count in self.skipped.items())
            raise ValueError(f"None of {len(prompts)} prompts can be asked ({reasons or 'there is none'}).")
        rounded = math.ceil(longest / 64) * 64
        self.max_len = min(rounded, getattr(target.config, "max_position_embeddings", None) or rounded)
        self._engine: Engine | None = None
        self._rows: dict[str, TargetRows] = {}
        self._spoke = time.monotonic()

    @property
    def engine(self) -> Engine:
        """Made when first needed: a run that finds all its shards needs none."""
        if self._engine is None:
            self._engine = Engine(self.target, slots=self.slots, max_len=self.max_len)
        return self._engine

    def measure(self, prompts: Sequence[Prompt], prompt_tokens: int = 32, steps: int = 8) -> tuple[float, float]:
        """(prompt, answer) tokens a second on this machine, with capture, on the first few of `prompts`.

        Takes about two seconds beyond what the engine needs to warm up anyway.
        """
        usable = [prompt for prompt in prompts if prompt.id in self.lengths][: self.slots]
        ids = [self.template.prompt_ids(questions(prompt)[0])[:prompt_tokens] for prompt in usable]
        seconds = []
        for new in (1, 1, 1 + steps):  # the first run builds and warms up whatever there is
            started = time.perf_counter()
            self.engine.run(
                [Request(str(i), prompt, max_new_tokens=new) for i, prompt in enumerate(ids)],
                capture=Capture(self.layer_ids, lambda answer, rows: None),
            )
            seconds.append(time.perf_counter() - started)
        _, reading, both = seconds
        return sum(map(len, ids)) / reading, len(ids) * steps / max(both - reading, 1e-6)

    def answer(self, prompts: Sequence[Prompt], answer_tokens: int | None = None) -> Answered:
        """Ask `prompts`, for at most `answer_tokens` tokens of answers altogether.

        The budget is kept by asking no more prompts at a time than it can bear if every answer is as long as can be;
        what they leave of it is for the next ones. Raises KeyboardInterrupt when the run is interrupted.
        """
        left = math.inf if answer_tokens is None else answer_tokens
        waiting = [prompt for prompt in prompts if prompt.id in self.lengths]
        dropped: Counter[str] = Counter({"that cannot be asked": len(prompts) - len(waiting)})
        records: list[AnswerRecord] = []
        self._rows.clear()
        while waiting:
            wave = affordable(waiting, left, self.mode.max_new_tokens)
            if not wave:
                dropped["beyond the token budget"] += len(waiting)
                break
            answered = self._converse(wave, dropped, of=len(prompts))
            left -= sum(len(record.response_ids) for record in answered)
            records += answered
            waiting = waiting[len(wave) :]
        records, without = keep_supervised(records)
        rows = [self._rows.pop(_request_id(record.id, record.turn)) for record in records]
        return Answered(records, rows, +(dropped + without))

    def _converse(self, prompts: Sequence[Prompt], dropped: Counter[str], of: int) -> list[AnswerRecord]:
        """Hold the conversations of `prompts`: one turn of all of them, then the next."""
        records: dict[tuple[int, int], AnswerRecord] = {}
        spoken: dict[int, list[Message]] = {place: [] for place in range(len(prompts))}
        capture = Capture(self.layer_ids, self._keep_rows)
        for turn in range(max(prompt.turns for prompt in prompts)):
            requests: dict[int, Request] = {}
            for place in [place for place in spoken if turn < prompts[place].turns]:
                prompt = prompts[place]
                spoken[place] += questions(prompt)[turn]
                ids = self._render(spoken[place], dropped)
                if ids is None:
                    del spoken[place]  # the conversation ends here; its earlier answers stay
                    continue
                params, stops = self.mode.params(prompt.seed), self.target.eos_ids
                name = _request_id(prompt.id, turn)
                requests[place] = Request(name, ids, params, self.mode.max_new_tokens, stops)
            answers = self.engine.run(list(requests.values()), lambda chunk: self._heartbeat(of), capture)
            if self.engine.interrupted:
                raise KeyboardInterrupt
            for place, answer in zip(requests, answers, strict=True):
                spoken[place].append({"role": "assistant", "content": answer.text})
                records[place, turn] = _record(prompts[place], turn, spoken[place], answer)
        return [records[key] for key in sorted(records)]

    def _render(self, messages: Sequence[Message], dropped: Counter[str]) -> list[int] | None:
        try:
            ids = self.template.prompt_ids(messages)
        except TemplateError:
            dropped["later turns that do not render"] += 1
            return None
        if len(ids) + self.mode.max_new_tokens > self.max_len:
            dropped["turns that do not fit into the context"] += 1
            return None
        return ids

    def _longest(self, prompt: Prompt, first: int) -> int:
        """Tokens of a conversation whose answers are all as long as can be."""
        later = [message["content"] for question in questions(prompt)[1:] for message in question]
        said = sum(len(self.template.encode(text)) + TEMPLATE_TOKENS for text in later)
        return first + said + prompt.turns * self.mode.max_new_tokens

    def _keep_rows(self, answer: Answer, rows: TargetRows) -> None:
        self._rows[answer.id] = rows

    def _heartbeat(self, of: int) -> None:
        if time.monotonic() - self._spoke > HEARTBEAT_S:
            self._spoke = time.monotonic()
            self.say(f"  {len(self._rows)} answers of {of} prompts")


def affordable(prompts: Sequence[Prompt], tokens: float, max_new_tokens: int) -> list[Prompt]:
    """As many of the first prompts as `tokens` can bear when every answer takes `max_new_tokens`."""
    wave = []
    for prompt in prompts:
        tokens -= prompt.turns * max_new_tokens
        if tokens < 0:
            break
        wave.append(prompt)
    return wave


def questions(prompt: Prompt) -> list[list[Message]]:
    """What is said before each answer: the first question, with the system message if there is one, then one by one."""
    users = [[message] for message in prompt.messages if message["role"] == "user"]
    system = [message for message in prompt.messages if message["role"] == "system"]
    return [[*system, *users[0]], *users[1:]]


def _request_id(prompt_id: str, turn: int) -> str:
    return f"{prompt_id}/{turn}"


def _record(prompt: Prompt, turn: int, messages: Sequence[Message], answer: Answer) -> AnswerRecord:
    return AnswerRecord(
        id=prompt.id,
        domain=prompt.domain,
        source=prompt.source,
        turn=turn,
        messages=tuple(dict(message) for message in messages),
        prompt_ids=tuple(answer.prompt_ids),
        response_ids=tuple(answer.token_ids),
        finish_reason=answer.finish_reason,
        seed=prompt.seed,
    )
