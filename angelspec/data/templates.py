"""The chat template: the one way in which messages become text and token ids.

Training, regeneration and serving must show the target the same bytes: a thinking flag or a system prompt that differs
between them costs a third of the acceptance (AngelSpec, arXiv 2607.25852, measures 4.79 against 3.29 tokens a round).
So the flag and the system prompt live in one frozen object, whose `identity` is part of the run key of every answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Message = dict[str, str]
ROLES = ("system", "user", "assistant")


class TemplateError(ValueError):
    """The chat template is missing, failed, or rendered something that cannot be used."""


@dataclass(frozen=True)
class ChatTemplate:
    """A tokenizer's chat template together with the mode in which the target is served.

    thinking: True or False is handed to the template as `enable_thinking`; None leaves the template's own default.
    system: a system prompt put in front of conversations that have none; None leaves the template's default.
    """

    tokenizer: Any
    thinking: bool | None = None
    system: str | None = None

    def __post_init__(self) -> None:
        if not getattr(self.tokenizer, "chat_template", None):
            raise TemplateError(
                f"The tokenizer {type(self.tokenizer).__name__} has no chat template, so its target cannot be asked "
                "anything. Use an instruction-tuned target, or set `tokenizer.chat_template`."
            )

    @property
    def identity(self) -> dict[str, Any]:
        """What decides the rendered bytes: digest of the template, thinking flag, system prompt (JSON-ready)."""
        source = str(self.tokenizer.chat_template)
        digest = hashlib.sha256(source.encode()).hexdigest()[:16]
        return {"template": digest, "thinking": self.thinking, "system": self.system}

    def render(self, messages: Sequence[Message], *, generation: bool) -> str:
        """Text of `messages`; with `generation` the opening of the next assistant message follows.

        Raises TemplateError for messages that are not a conversation, and where the template itself fails.
        """
        conversation = self._with_system(check_messages(messages))
        options: dict[str, Any] = {} if self.thinking is None else {"enable_thinking": self.thinking}
        try:
            text = self.tokenizer.apply_chat_template(
                conversation, tokenize=False, add_generation_prompt=generation, **options
            )
        except Exception as error:  # Jinja's own errors, and whatever a template raises by raise_exception()
            roles = " ".join(message["role"] for message in conversation)
            raise TemplateError(
                f"The chat template does not render a conversation of roles [{roles}]: {error}"
            ) from error
        if not isinstance(text, str) or not text.strip():
            raise TemplateError(f"The chat template rendered nothing from {len(conversation)} messages: {text!r}")
        return text

    def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of the conversation up to and including the generation prompt: what the target is given.

        Raises TemplateError when a message carries a control token of this tokenizer as text: tokenised, it would end
        the message early and let the user speak as somebody else.
        """
        for message in messages:
            self._refuse_control_tokens(message)
        return self.encode(self.render(messages, generation=True))

    def encode(self, text: str) -> list[int]:
        """Token ids of rendered text. No special tokens are added: the template has already written them."""
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        """Plain text of an answer, control tokens left out, bytes untouched otherwise."""
        return self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def _with_system(self, messages: Sequence[Message]) -> list[Message]:
        has_own = bool(messages) and messages[0]["role"] == "system"
        if self.system is None or has_own:
            return list(messages)
        return [{"role": "system", "content": self.system}, *messages]

    def _refuse_control_tokens(self, message: Message) -> None:
        content = message.get("content")
        if not isinstance(content, str):
            return  # check_messages() has the better words for it
        for token in self.tokenizer.all_special_tokens:
            if token and token in content:
                raise TemplateError(f"A {message['role']} message contains the control token {token!r} as text.")


def check_messages(messages: Sequence[Message]) -> Sequence[Message]:
    """Return `messages` if they are a conversation: an optional system message, then user and assistant in turn."""
    if not messages:
        raise TemplateError("A conversation needs at least one message; it has none.")
    for place, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("content"), str) or "role" not in message:
            raise TemplateError(f"Message {place} must be a mapping with text under 'role' and 'content': {message!r}")
        if message["role"] not in ROLES:
            raise TemplateError(f"Message {place} has role {message['role']!r}; expected one of {', '.join(ROLES)}.")
        if not message["content"].strip() and message["role"] != "assistant":
            raise TemplateError(f"Message {place} ({message['role']}) is empty.")
    spoken = [message["role"] for message in messages]
    if spoken[0] == "system":
        spoken = spoken[1:]
    expected = ["user" if i % 2 == 0 else "assistant" for i in range(len(spoken))]
    if not spoken or spoken != expected:
        raise TemplateError(
            f"Roles must be an optional system message, then user and assistant in turn; found [{' '.join(spoken)}]."
        )
    return messages


def token_pieces(tokenizer: Any, ids: Sequence[int]) -> list[tuple[str, int]]:
    """The text of ids as (piece, number of tokens), control tokens shown: to print tokens one by one.

    Most pieces are one token; the tokens of a character of several bytes stay together, for none of them is text alone.
    """
    pieces: list[tuple[str, int]] = []
    waiting: list[int] = []
    for token in ids:
        waiting.append(int(token))
        text = tokenizer.decode(waiting, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        if not text.endswith("\ufffd") or len(waiting) == 4:  # a character has four bytes at most
            pieces.append((text, len(waiting)))
            waiting = []
    if waiting:
        pieces.append((tokenizer.decode(waiting, skip_special_tokens=False), len(waiting)))
    return pieces
