"""One prompt: what the target is asked, where it comes from, and the seed its answer is sampled with.

A prompt holds what the *user side* says and nothing else: an optional system message, then one user message per turn.
Assistant turns never belong to it. The target writes them, because a drafter has to learn the answers of the model it
will draft for, not those of whoever wrote the data set (AngelSpec, arXiv 2607.25852, section on data). Two user
messages in a row therefore mean a conversation of two turns, answered one after the other.

Ids are content addresses, so they survive reordering, resampling and a change of machine; the seed of an answer is a
function of the id alone, so an answer does not depend on the shard or the batch it was produced in.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from angelspec.io import atomic_write_text

DOMAINS = ("chat", "code", "math")
SPLITS = ("train", "eval")
ID_HEX_DIGITS = 20

Message = dict[str, str]
_WORDS, _OTHERS = re.compile(r"\w+"), re.compile(r"[^\w\s]|\n+")


class PromptError(ValueError):
    """A prompt, or a line of a prompt file, that cannot be used. The message says where and what to do."""


@dataclass(frozen=True)
class Prompt:
    """One prompt of one domain.

    Attributes:
        id: content address of `messages` (see `prompt_id`).
        domain: "chat", "code" or "math", or the name of a data set that is evaluated on its own.
        source: the source that produced it, e.g. "math", "humaneval" or the name given in the configuration.
        kind: problem kind, topic or task inside the source; whole kinds are held out for evaluation.
        split: "train" or "eval".
        messages: optional system message, then the user turns in order.
        answer: the exact answer where the source knows one (math), else None. Never shown to the target.
        licence: licence of the text.
        seed: 63-bit sampling seed, a function of the id.
    """

    id: str
    domain: str
    source: str
    kind: str
    split: str
    messages: tuple[Message, ...]
    answer: str | None
    licence: str
    seed: int

    @property
    def text(self) -> str:
        """All messages joined: what lengths and near-duplicates are measured on."""
        return "\n".join(message["content"] for message in self.messages)

    @property
    def turns(self) -> int:
        """Number of answers the target has to give."""
        return sum(message["role"] == "user" for message in self.messages)


def prompt_id(messages: Iterable[Message]) -> str:
    """Content address: SHA-256 of the roles and texts, first 80 bits as hexadecimal digits."""
    canonical = json.dumps([[m["role"], m["content"]] for m in messages], ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("utf-8")).hexdigest()[:ID_HEX_DIGITS]


def seed_of(identity: str) -> int:
    """Sampling seed of a prompt: 63 bits of a hash of its id (non-negative, fits int64)."""
    digest = hashlib.sha256(f"seed:{identity}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def make_prompt(
    messages: str | Sequence[Message],
    *,
    domain: str,
    source: str,
    kind: str,
    split: str,
    licence: str,
    answer: str | None = None,
) -> Prompt:
    """Check and build a prompt; a plain string is a single user turn.

    Raises:
        PromptError: when the messages are not an optional system message followed by non-empty user turns.
    """
    if split not in SPLITS:
        raise PromptError(f"split is {split!r}, expected one of {SPLITS}")
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    clean = tuple(_user_side(messages))
    if not any(message["role"] == "user" for message in clean):
        raise PromptError("no user message: a prompt needs at least one message with role 'user'")
    identity = prompt_id(clean)
    return Prompt(identity, domain, source, kind, split, clean, answer, licence, seed_of(identity))


def _user_side(messages: Sequence[Message]) -> Iterator[Message]:
    """The system and user messages, checked; assistant turns are left out because the target writes its own."""
    for place, message in enumerate(messages):
        if not isinstance(message, dict) or not {"role", "content"} <= message.keys():
            raise PromptError(f"message {place} is {message!r}, expected an object with 'role' and 'content'")
        role, content = message["role"], message["content"]
        if role == "assistant":
            continue
        if role not in ("system", "user"):
            raise PromptError(f"message {place} has role {role!r}, expected 'system', 'user' or 'assistant'")
        if role == "system" and place > 0:
            raise PromptError(f"message {place} is a system message; only the first message may be one")
        if not isinstance(content, str) or not content.strip():
            raise PromptError(f"message {place} ({role}) has no text: content is {content!r}")
        yield {"role": role, "content": content.strip("\n").rstrip()}


def estimate_tokens(text: str) -> int:
    """About how many tokens a byte-pair tokenizer makes of a text, without loading one; rather too many than too few.

    A word counts one token per started six letters, a number one per digit, any other character one. The exact limit
    is checked where the prompt is rendered for the target.
    """
    words = sum(-(-len(word) // 6) if not word.isdigit() else len(word) for word in _WORDS.findall(text))
    return words + len(_OTHERS.findall(text))


def write_prompts(path: str | Path, prompts: Iterable[Prompt]) -> None:
    """Write prompts as JSON lines, atomically: the file is whole or absent."""
    lines = [json.dumps(asdict(prompt), ensure_ascii=False, sort_keys=True) for prompt in prompts]
    atomic_write_text(path, "".join(line + "\n" for line in lines))


def read_prompts(path: str | Path) -> list[Prompt]:
    """Read prompts written by `write_prompts`, and check that every id still belongs to its text.

    Raises:
        PromptError: on a line that is no prompt record, an id that does not match its messages, or a repeated id.
    """
    path = Path(path)
    prompts: list[Prompt] = []
    seen: set[str] = set()
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            where = f"{path}, line {number}"
            try:
                fields = json.loads(line)
                prompt = Prompt(**{**fields, "messages": tuple(fields["messages"])})
            except (ValueError, TypeError, KeyError) as error:
                raise PromptError(
                    f"{where}: no prompt record ({error}); write it with angelspec.data.prepare"
                ) from error
            if prompt.id != prompt_id(prompt.messages):
                raise PromptError(f"{where}: id {prompt.id} does not belong to this text; the file was edited by hand")
            if prompt.id in seen:
                raise PromptError(f"{where}: id {prompt.id} occurs twice")
            seen.add(prompt.id)
            prompts.append(prompt)
    return prompts
