"""Code and chat prompts: true examples, held-out modules, functions and topics, clean texts, stable streams."""

from __future__ import annotations

import ast
import json
import random
import re
import shutil
import subprocess
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from angelspec.data.sources import chat, code, code_library

ROOT = Path(code.__file__).parents[3]
TRAIN_CODE = list(islice(code.generate("train", 3), 900))
EVAL_CODE = list(islice(code.generate("eval", 3), 400))
TRAIN_CHAT = list(islice(chat.generate("train", 3), 1440))
EVAL_CHAT = list(islice(chat.generate("eval", 3), 360))


def blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)\n```", text, flags=re.DOTALL)


@pytest.mark.parametrize("name", sorted(code.SPECS))
def test_examples_are_what_the_function_returns(name: str) -> None:
    spec = code.SPECS[name]
    assert len(spec.describe) >= 2 and len(set(spec.describe)) == len(spec.describe)
    for seed in range(10):
        shown = code.Shown(spec, random.Random(seed))
        assert 1 <= len(shown.calls) <= 3
        for call, value in shown.calls:
            called = ast.parse(call, mode="eval").body
            assert isinstance(called, ast.Call) and ast.unparse(called.func) == shown.name
            arguments = [ast.literal_eval(argument) for argument in called.args]
            assert repr(spec.function(*arguments)) == value


def test_reference_functions_do_what_they_say() -> None:
    """A few by hand: examples computed by a wrong function would still agree with themselves."""
    f = {name: spec.function for name, spec in code.SPECS.items()}
    assert f["running_maximum"]([2, 1, 5]) == [2, 2, 5] and f["second_largest"]([4, 4]) is None
    assert f["rotate_left"]([1, 2, 3], 4) == [2, 3, 1] and f["longest_increasing_run"]([3, 1, 2, 2]) == 2
    assert f["collatz_steps"](6) == 8 and f["to_base"](10, 2) == "1010" and f["prime_factors"](12) == [2, 2, 3]
    assert [n for n in range(20) if f["is_prime"](n)] == [2, 3, 5, 7, 11, 13, 17, 19]
    assert f["binary_search"]([1, 4, 9], 9) == 2 and f["binary_search"]([1, 4, 9], 5) == -1
    assert f["diagonal_difference"]([[1, 2], [3, 5]]) == 1 and f["fibonacci_below"](10) == [0, 1, 1, 2, 3, 5, 8]
    assert f["caesar"]("xyz!", 3) == "abc!" and f["edit_steps"]("kitten", "sitting") == 3
    assert f["roman_numeral"](394) == "CCCXCIV" and f["format_duration"](3661) == "1:01:01"
    assert f["leap_years"](1896, 1908) == [1896, 1904, 1908] and f["brackets_match"]("([)]") is False
    assert f["common_prefix"](["cat", "dog"]) == "" and f["truncate"]("abcdefgh", 6) == "abc..."
    assert f["minutes_between"]("09:50", "10:05") == 15 and f["run_lengths"]("aab") == [("a", 2), ("b", 1)]


def test_code_blocks_parse() -> None:
    """Stubs end after their docstring, which Python accepts; a planted bug must not break the syntax either."""
    seen = 0
    for prompt in TRAIN_CODE + EVAL_CODE:
        for block in blocks(prompt.text):
            if prompt.kind.startswith("function:"):
                ast.parse(block)
                seen += 1
    assert seen > 500


def test_planted_bugs_change_the_code() -> None:
    for name, spec in code.SPECS.items():
        for seed in range(5):
            shown = code.Shown(spec, random.Random(seed))
            text = code._find_bug(shown, random.Random(seed))
            if text is not None:
                assert blocks(text)[0] != shown.source and shown.header in text, name


def test_whole_modules_and_functions_are_held_out() -> None:
    for prompts, inside in ((TRAIN_CODE, False), (EVAL_CODE, True)):
        for prompt in prompts:
            sort, name = prompt.kind.split(":")[:2]
            assert ((name in code.EVAL_SPECS) if sort == "function" else (name in code_library.EVAL_MODULES)) is inside
    assert {p.kind for p in TRAIN_CODE}.isdisjoint(p.kind for p in EVAL_CODE)
    assert set(code.SPECS) > code.EVAL_SPECS and set(code_library.MODULES) > code_library.EVAL_MODULES


def test_every_task_form_occurs_and_functions_dominate() -> None:
    forms = Counter(p.kind.split(":")[2] for p in TRAIN_CODE if p.kind.startswith("library:"))
    assert set(forms) == set(code.LIBRARY_FORMS)
    share = sum(p.kind.startswith("function:") for p in TRAIN_CODE) / len(TRAIN_CODE)
    assert share == pytest.approx(2 / 3, abs=0.02)
    assert {p.licence for p in TRAIN_CODE} == {"Apache-2.0", "PSF-2.0"}


def test_library_members_are_documented_and_printable() -> None:
    members = code_library.members()
    assert len(members) > 400 and len({m.path for m in members}) == len(members)
    for member in members:
        assert code_library.SHORTEST <= len(member.doc) <= code_library.LONGEST
        assert " at 0x" not in member.signature and member.path not in code_library.CHANGING
    stub = code._stub(next(m for m in members if m.path == "textwrap.shorten"))
    assert stub.startswith('def shorten(text, width, **kwargs):\n    """Collapse and truncate')
    assert isinstance(ast.parse(stub).body[0], ast.FunctionDef)


def test_library_texts_are_the_same_under_other_pythons() -> None:
    """Runs every supported Python that is installed, without the libraries that are loaded here."""
    script = "from angelspec.data.sources import code_library as c; print(len(c.members()), c.library_digest())"
    here = f"{len(code_library.members())} {code_library.library_digest()}"
    installed = [shutil.which(f"python3.{minor}") for minor in (11, 12, 13)]
    compared = 0
    for python in filter(None, installed):
        done = subprocess.run(
            [python, "-B", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode == 0:
            assert done.stdout.strip() == here, python
            compared += 1
    if not compared:
        pytest.skip("no other Python starts here")


def test_streams_only_append_and_depend_on_the_seed() -> None:
    assert list(islice(code.generate("train", 3), 100)) == TRAIN_CODE[:100]
    assert list(islice(chat.generate("eval", 3), 100)) == EVAL_CHAT[:100]
    assert [p.id for p in islice(chat.generate("train", 4), 50)] != [p.id for p in TRAIN_CHAT[:50]]


def test_a_hundred_and_fifty_topics_a_fifth_held_out() -> None:
    subjects = [topic.subject for topic in chat.topics()]
    assert len(subjects) == len(set(subjects)) >= 150 and len(chat.TASKS) == 12
    assert set(subjects) > chat.EVAL_TOPICS and len(chat.EVAL_TOPICS) == 30
    assert {p.kind for p in TRAIN_CHAT} == set(subjects) - chat.EVAL_TOPICS
    assert {p.kind for p in EVAL_CHAT} == chat.EVAL_TOPICS


def test_topics_fit_their_sentences() -> None:
    for topic in chat.topics():
        assert topic.situation[0].isupper() and topic.situation.endswith((".", "?")), topic
        assert not topic.goal.startswith("to ") and topic.goal[0].islower(), topic
        assert re.search(r"\b(I|I'm|me|my|our|us|we)\b", topic.situation, re.IGNORECASE) or not topic.practical, topic
        assert topic.one != topic.other and topic.area, topic


def test_chat_prompts_have_no_leftovers_and_some_have_two_turns() -> None:
    for prompt in TRAIN_CHAT + EVAL_CHAT:
        for message in prompt.messages:
            assert message["role"] == "user" and message["content"][0].isupper(), message
            assert not re.search(r"[{}]|  |\.\.|\?\.", message["content"]), message
            assert message["content"][-1] in ".?!", message
    turns = Counter(prompt.turns for prompt in TRAIN_CHAT)
    assert turns[2] == len(TRAIN_CHAT) // 12 and set(turns) == {1, 2}


def test_chat_wordings_vary() -> None:
    starts = Counter(" ".join(p.text.split()[:3]) for p in TRAIN_CHAT)
    assert len(starts) > 250 and starts.most_common(1)[0][1] < len(TRAIN_CHAT) / 12
    assert len({p.id for p in TRAIN_CHAT}) > 0.97 * len(TRAIN_CHAT)


def test_prompts_are_json() -> None:
    for prompt in TRAIN_CODE[:50] + TRAIN_CHAT[:50]:
        assert json.loads(json.dumps(prompt.messages)) == list(prompt.messages)
