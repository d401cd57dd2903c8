"""Three lines from a target and a drafter to answers:

from angelspec import SpeculativeDecoder
decoder = SpeculativeDecoder.from_pretrained("smollm2", "results/laptop/drafters/dfly")
print(decoder.generate("Why is the sky blue?")[0].text)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from angelspec.data.templates import ChatTemplate
from angelspec.decoding.categorical import SamplingParams
from angelspec.decoding.drafter import Drafter
from angelspec.decoding.engine import Engine
from angelspec.decoding.exactness import Rule
from angelspec.decoding.request import Answer, Request
from angelspec.decoding.stats import EngineStats
from angelspec.decoding.text import TextStream
from angelspec.device import choose_policy
from angelspec.drafters.ar import ARDrafter
from angelspec.drafters.ngram import NGramDrafter
from angelspec.targets.model import Target
from angelspec.targets.spec import SMOLLM2, TargetSpec
from angelspec.verification.policies import Policy

Prompt = str | Sequence[int] | Sequence[Mapping[str, str]]
DEFAULT_LENGTH = 256


@dataclass(frozen=True)
class Piece:
    """New text of one prompt while it is being answered.

    text is what is certain: whole characters that cannot be the beginning of a stop string. The first `accepted` of
    token_ids were draft tokens. `answer` is set in the last piece of a prompt.
    """

    index: int
    text: str
    token_ids: tuple[int, ...]
    accepted: int
    answer: Answer | None = None


class SpeculativeDecoder:
    """A target with a drafter, ready to answer prompts; what it writes has the law of the target alone.

    `stats` tells about the last call: tau, steps, and where the time went.
    """

    def __init__(
        self,
        target: Target,
        drafter: Drafter | None = None,
        *,
        policy: Policy | None = None,
        rule: Rule = "A",
        concurrency: int = 16,
        costs: Any = None,
    ) -> None:
        """concurrency: prompts answered at the same time. Raises BiasedCombination like the engine."""
        if concurrency < 1:
            raise ValueError(f"concurrency is {concurrency}; expected at least 1")
        self.target, self.drafter, self.concurrency = target, drafter or ARDrafter(), concurrency
        self._options: dict[str, Any] = {"policy": policy, "rule": rule, "costs": costs}
        self._engine = Engine(target, self.drafter, slots=1, max_len=2, **self._options)

    @classmethod
    def from_pretrained(
        cls,
        target: str | Path | TargetSpec | Target = "smollm2",
        drafter: str | Path | Drafter = "ar",
        *,
        device: str = "auto",
        dtype: str = "auto",
        threads: int | None = None,
        compile: str = "auto",
        rule: Rule = "A",
        **options: Any,
    ) -> SpeculativeDecoder:
        """Load both.

        Args:
            target: "smollm2", a folder, "owner/name@commit" of the Hub, a specification, or a loaded target.
            drafter: "ar" (none), "ngram", the folder of a trained drafter, or a drafter. Under rule B a trained
                drafter draws its drafts; under rule A it takes the most likely tokens.
            device, dtype, threads, compile: see angelspec.device.choose_policy; unused for a loaded target.
            options: policy, concurrency, costs.

        Raises:
            ValueError, TargetError, DrafterMismatch: what was given, what was expected, what to do.
        """
        if not isinstance(target, Target):
            from angelspec.targets.load import load_target

            spec = target if isinstance(target, TargetSpec) else target_spec(target)
            target = load_target(spec, choose_policy(device, dtype, threads, compile).apply())
        if isinstance(drafter, str | Path):
            drafter = named_drafter(drafter, target, sample=rule == "B")
        return cls(target, drafter, rule=rule, **options)

    def generate(self, prompts: Prompt | Sequence[Prompt], **options: Any) -> list[Answer]:
        """Answers in the order of the prompts, one for a single prompt. Options: see `requests`.

        SIGINT ends the run after the current step: answers without an end have finish_reason "interrupted".
        """
        requests = self.requests(prompts, **options)
        return self._ready(requests).run(requests)

    def stream(self, prompts: Prompt | Sequence[Prompt], **options: Any) -> Iterator[Piece]:
        """The same while it happens: committed tokens only, of all prompts as they come. Options: see `requests`."""
        requests = self.requests(prompts, **options)
        texts = [TextStream(self.target.tokenizer, r.stop_strings) for r in requests]
        for chunks, answers in self._ready(requests).stream(requests):
            for chunk in chunks:
                index = int(chunk.id)
                new = "".join(texts[index].push(token) for token in chunk.token_ids)
                answer = answers.get(index)
                if answer is not None:
                    new += texts[index].finish()
                yield Piece(index, new, tuple(chunk.token_ids), chunk.accepted, answer)

    def requests(
        self,
        prompts: Prompt | Sequence[Prompt],
        *,
        max_new_tokens: int = DEFAULT_LENGTH,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        seed: int = 0,
        stop: str | Sequence[str] = (),
        chat: bool = True,
        ignore_eos: bool = False,
    ) -> list[Request]:
        """What will be asked: one request per prompt, named "0", "1", ...; seeds count up from `seed`.

        A prompt is a user message, a conversation (list of {"role", "content"}), or token ids, which are taken as they
        are. chat=False takes texts without the chat template. Raises ValueError for an empty list of prompts.
        """
        stops = (stop,) if isinstance(stop, str) else tuple(stop)
        eos = () if ignore_eos else tuple(self.target.eos_ids)
        made = []
        for i, prompt in enumerate(_listed(prompts)):
            params = SamplingParams(temperature, top_k, top_p, min_p, seed + i)
            made.append(Request(str(i), self._encode(prompt, chat), params, max_new_tokens, eos, stops))
        if not made:
            raise ValueError("no prompt given; pass a text, a conversation, token ids, or a list of these")
        return made

    @property
    def stats(self) -> EngineStats:
        return self._engine.stats

    def _encode(self, prompt: Prompt, chat: bool) -> list[int]:
        if not isinstance(prompt, str):
            if all(isinstance(part, int) for part in prompt):
                return [int(part) for part in prompt]  # type: ignore[arg-type]
            messages = [dict(part) for part in prompt]  # type: ignore[arg-type]
        elif not chat:
            return list(self.target.tokenizer.encode(prompt))
        else:
            messages = [{"role": "user", "content": prompt}]
        return ChatTemplate(self.target.tokenizer).prompt_ids(messages)

    def _ready(self, requests: Sequence[Request]) -> Engine:
        """An engine with room for these requests: the last one if it has, else a new one."""
        need = max(len(r.prompt_ids) + r.max_new_tokens for r in requests)
        limit = getattr(self.target.config, "max_position_embeddings", None)
        need, slots = min(need, limit or need), min(self.concurrency, len(requests))
        have = self._engine.cache
        if have.max_len < need or have.slots < slots:
            slots, need = max(have.slots, slots), max(have.max_len, need)
            self._engine = Engine(self.target, self.drafter, slots=slots, max_len=need, **self._options)
        return self._engine


def target_spec(name: str | Path) -> TargetSpec:
    """From a name to a specification: "smollm2", an existing folder, or "owner/name@commit"."""
    if str(name) == "smollm2":
        return SMOLLM2
    if Path(name).is_dir():
        return TargetSpec("folder", str(name))
    repository, at, commit = str(name).partition("@")
    if not at:
        raise ValueError(f'target {str(name)!r} is no folder; expected "smollm2", a folder, or "owner/name@commit"')
    return TargetSpec("hub", repository, commit)


def named_drafter(name: str | Path, target: Target, *, sample: bool = False, slots: int | None = None) -> Drafter:
    """From a name to a drafter: "ar", "ngram", or the folder of a trained one. `slots`: tokens drafted at most."""
    if str(name) == "ar":
        return ARDrafter()
    if str(name) == "ngram":
        return NGramDrafter() if slots is None else NGramDrafter(slots)
    if not Path(name).is_dir():
        raise ValueError(f"drafter {str(name)!r} is unknown; there is ar, ngram, or the folder of a trained drafter")
    from angelspec.drafters.checkpoint import load_drafter
    from angelspec.drafters.serving import serve

    return cast(Drafter, serve(load_drafter(name, target), slots, sample))


def _listed(prompts: Any) -> list[Any]:
    """A single prompt as a list of one: a text, token ids, or a conversation."""
    if isinstance(prompts, str):
        return [prompts]
    items = list(prompts)
    alone = bool(items) and all(isinstance(x, int) for x in items) or all(isinstance(x, Mapping) for x in items)
    return [items] if items and alone else items
