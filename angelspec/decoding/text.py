"""Tokens to text one step at a time: no half characters, no half stop strings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_INCOMPLETE = "\ufffd"  # what a decoder shows for bytes that do not make a whole character yet


class TextStream:
    """The text of a growing answer, cut in front of the first stop string.

    `push` returns the text that is certain: characters whose bytes are complete, and that can no longer turn out to be
    the beginning of a stop string. `text` is everything decoded so far, without the stop string once `stopped`.
    """

    def __init__(self, tokenizer: Any, stop_strings: Sequence[str] = ()) -> None:
        self._tokenizer = tokenizer
        self._stops = tuple(stop_strings)
        self._ids: list[int] = []
        self._from, self._read = 0, 0  # decode from here; what lies before _read is already in the text
        self._shown = 0
        self.text = ""
        self.stopped = False

    def push(self, token: int) -> str:
        """Add one token; the newly certain text. Tokens after the stop are ignored."""
        if self.stopped:
            return ""
        self._ids.append(token)
        # Decoding starts a few tokens back: some tokenizers write a word's leading space only after another token.
        before = self._decode(self._ids[self._from : self._read])
        after = self._decode(self._ids[self._from :])
        if len(after) <= len(before) or after.endswith(_INCOMPLETE):
            return ""
        self._from, self._read = self._read, len(self._ids)
        return self._extend(after[len(before) :])

    def finish(self) -> str:
        """The text still held back: an unfinished character, or a stop string that never came whole."""
        if not self.stopped:
            before = self._decode(self._ids[self._from : self._read])
            self.text += self._decode(self._ids[self._from :])[len(before) :]
        return self._show(len(self.text))

    def _extend(self, piece: str) -> str:
        searched = max(0, len(self.text) - max((len(s) for s in self._stops), default=1) + 1)
        self.text += piece
        hits = [at for at in (self.text.find(s, searched) for s in self._stops) if at >= 0]
        if hits:
            self.stopped = True
            self.text = self.text[: min(hits)]
        return self._show(len(self.text) - (0 if self.stopped else self._held()))

    def _held(self) -> int:
        """Length of the longest end of the text that begins a stop string."""
        longest = max((len(s) for s in self._stops), default=1) - 1
        for size in range(min(longest, len(self.text)), 0, -1):
            if any(s.startswith(self.text[-size:]) for s in self._stops):
                return size
        return 0

    def _show(self, end: int) -> str:
        piece = self.text[self._shown : end]
        self._shown = max(self._shown, end)
        return piece

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True) if ids else ""
