"""Text of a growing answer: whole characters, exact cuts at stop strings, nothing shown that is taken back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from angelspec.decoding.engine import Engine
from angelspec.decoding.request import Request
from angelspec.decoding.text import TextStream
from tests.unit.decoding.mock_drafters import Right
from tests.unit.decoding.test_engine import make_requests


class Bytes:
    """A byte-level tokenizer: ids are bytes; 0 is special."""

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        return bytes(i for i in ids if i or not skip_special_tokens).decode("utf-8", errors="replace")


def stream_all(text: str, stops: tuple[str, ...] = ()) -> tuple[TextStream, list[str]]:
    stream = TextStream(Bytes(), stops)
    return stream, [stream.push(byte) for byte in text.encode()]


@given(text=st.text(max_size=30))
def test_pieces_add_up_to_the_text_and_never_hold_half_a_character(text: str) -> None:
    text = text.replace("\x00", "").replace("\ufffd", "")
    stream, pieces = stream_all(text)
    assert "".join(pieces) + stream.finish() == text == stream.text
    assert not any("\ufffd" in piece for piece in pieces)


@given(text=st.text("abc", max_size=30), stops=st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=3))
def test_the_cut_is_in_front_of_the_first_stop_string(text: str, stops: list[str]) -> None:
    stream, pieces = stream_all(text, tuple(stops))
    # The token that completes a stop string ends the answer; of several it completes, the one that begins first cuts.
    ends = [text.find(s) + len(s) for s in stops if s in text]
    expected = text
    if ends:
        seen = text[: min(ends)]
        expected = seen[: min(seen.find(s) for s in stops if s in seen)]
    assert stream.stopped == bool(ends)
    assert "".join(pieces) + stream.finish() == expected == stream.text


def test_text_that_may_become_a_stop_string_is_held_back() -> None:
    _, pieces = stream_all("one END, two EN", ("END!",))
    assert pieces[4:7] == ["", "", ""]
    assert pieces[7] == "END,"
    stream, pieces = stream_all("two EN", ("END!",))
    assert "".join(pieces) == "two " and stream.finish() == "EN"


def test_unfinished_bytes_appear_at_the_end_only() -> None:
    stream = TextStream(Bytes())
    assert [stream.push(b) for b in "é".encode()[:1]] == [""]
    assert stream.finish() == "\ufffd"


@pytest.mark.parametrize("slots", [1, 4])
def test_the_engine_ends_at_the_token_that_completes_a_stop_string(tiny_llama: Any, slots: int) -> None:
    requests = make_requests(4, new_tokens=12)
    plain = Engine(tiny_llama, slots=4, max_len=80).run(requests)
    for start in (0, 3, 9):
        stops = [a.text[start : start + 3] for a in plain]
        stopping = [
            Request(r.id, r.prompt_ids, r.params, 12, stop_strings=("\n\n", s))
            for r, s in zip(requests, stops, strict=True)
        ]
        for drafter in (None, Right(plain)):
            answers = Engine(tiny_llama, drafter, slots=slots, max_len=80).run([*stopping, requests[0]])
            assert answers[-1].token_ids == plain[0].token_ids  # others are not touched
            for answer, whole, stop in zip(answers, plain, stops, strict=False):
                at = whole.text.find(stop)
                assert (answer.text, answer.finish_reason) == (whole.text[:at], "stop")
                texts = [tiny_llama.tokenizer.decode(whole.token_ids[:n], True) for n in range(13)]
                assert answer.token_ids == whole.token_ids[: next(n for n in range(13) if stop in texts[n])]
