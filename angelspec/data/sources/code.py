"""Code prompts: what one asks about a Python function, from the standard library or from small functions of our own.

Two sorts take turns. `library:*` prompts come from signatures and docstrings of the standard library (see code_library);
`function:*` prompts from small reference functions whose examples are computed by running them (see code_lists and
code_text). Whole library modules and whole functions are held out for evaluation.
"""

from __future__ import annotations

import ast
import inspect
import random
import re
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice

from angelspec.data.prompts import Prompt, make_prompt
from angelspec.data.sources import code_lists_tasks, code_text_tasks
from angelspec.data.sources.code_library import EVAL_MODULES, Member, members
from angelspec.data.sources.code_lists_tasks import Spec

OWN_LICENCE, LIBRARY_LICENCE = "Apache-2.0", "PSF-2.0"
SPECS = {spec.function.__name__: spec for spec in (*code_lists_tasks.SPECS, *code_text_tasks.SPECS)}
EVAL_SPECS = frozenset({
    "second_largest", "remove_repeats", "collatz_steps", "transpose", "invert_mapping", "largest_gap", "to_base", "split_even_odd",
    "reverse_words", "longest_word", "are_anagrams", "parse_pairs", "format_duration", "group_by_first_letter", "initials",
})  # fmt: skip

ONLY_CODE = (
    "Answer with the complete function in one Python code block and nothing else.",
    "Return only the finished function inside a ```python block, without explanation.",
    "Put the whole function into a single code block.",
    "Reply with code only.",
    "",
    "",
)
BUGS = (  # text to replace in the source, wrong text to put there: the first that fits is planted
    (" < ", " <= "), (" > ", " >= "), (" <= ", " < "), (" + 1", ""), (" - 1", ""), (" += 1", " += 2"), (" == 0", " == 1"),
    (" and ", " or "), ("range(1, ", "range("), ("sorted(", "list("), (".lower()", ""), (" % ", " // "), ("not in", "in"),
    ("[0]", "[-1]"), (" == ", " != "), (".get(word, 0)", ".get(word, 1)"), ("= []", "= [0]"), (" + ", " - "),
)  # fmt: skip


def generate(split: str, seed: int) -> Iterator[Prompt]:
    """Stream of code prompts of one split: two on own functions, one on a library member, and so on.

    The order is a function of the seed; a longer stream only appends.
    """
    own, library = _function_prompts(split, seed), _library_prompts(split, seed)
    for turn, prompt in enumerate(own):
        yield prompt
        if turn % 2:
            yield from islice(library, 1)
    yield from library


# ---- small functions of our own ----

FUNCTION_ROUNDS = 30  # how often every (function, form) pair is drawn, with other examples, names and words


def _function_prompts(split: str, seed: int) -> Iterator[Prompt]:
    names = sorted(name for name in SPECS if (name in EVAL_SPECS) == (split == "eval"))
    for turn in range(FUNCTION_ROUNDS):
        pairs = [(name, form) for name in names for form in FUNCTION_FORMS]
        random.Random(f"{seed}:code:{split}:order:{turn}").shuffle(pairs)
        for name, form in pairs:
            rng = random.Random(f"{seed}:code:{split}:{name}:{form}:{turn}")
            text = FUNCTION_FORMS[form](Shown(SPECS[name], rng), rng)
            if text is not None:
                yield make_prompt(
                    text, domain="code", source="code", kind=f"function:{name}", split=split, licence=OWN_LICENCE
                )


class Shown:
    """A reference function under the name chosen for one prompt, with computed examples."""

    def __init__(self, spec: Spec, rng: random.Random) -> None:
        self.original = spec.function.__name__
        self.name = rng.choice((self.original, *spec.aliases))
        source = re.sub(rf"\b{self.original}\b", self.name, _source_of(spec.function))
        self.source = re.sub(r"  # noqa.*", "", source).rstrip()
        self.header = self.source.partition("\n")[0]
        self.description = rng.choice(spec.describe)
        self.calls: list[tuple[str, str]] = []
        for _ in range(rng.randint(2, 3) * 3):
            arguments = spec.arguments(rng)
            call = f"{self.name}({', '.join(repr(argument) for argument in arguments)})"
            if all(call != known for known, _ in self.calls):
                self.calls.append((call, repr(spec.function(*arguments))))
        self.calls = self.calls[: rng.randint(2, 3)]

    def docstring(self, rng: random.Random) -> str:
        """The description and examples as an indented docstring, in one of the common layouts."""
        style = rng.randrange(4)
        if style == 0:
            examples = "\n".join(f">>> {call}\n{value}" for call, value in self.calls)
        elif style == 1:
            examples = "Examples:\n" + "\n".join(f"    {call} -> {value}" for call, value in self.calls)
        elif style == 2:
            examples = "For example:\n" + "\n".join(f"{call} == {value}" for call, value in self.calls)
        else:
            examples = "\n".join(f"{call} ➞ {value}" for call, value in self.calls)
        body = textwrap.fill(self.description, 76) + ("\n\n" if style else "\n") + examples
        quotes = "'''" if rng.randrange(5) == 0 and "'''" not in body else '"""'
        return textwrap.indent(f"{quotes}{body}\n{quotes}", "    ")

    def asserts(self) -> str:
        """The examples as assert statements."""
        return "\n".join(f"assert {call} == {value}" for call, value in self.calls)


_source_of = cache(inspect.getsource)  # reads and parses the file each time otherwise


def _block(code: str) -> str:
    return f"```python\n{code}\n```"


def _join(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _complete(shown: Shown, rng: random.Random) -> str:
    ask = rng.choice(
        (
            "Complete the body of this Python function.",
            "Here is the beginning of a Python function. Finish it.",
            "Write the code that belongs into this function.",
            "Fill in the missing body of the function below.",
            f"Please implement `{shown.name}` so that it does what its docstring says.",
        )
    )
    return _join(ask + " " + rng.choice(ONLY_CODE), _block(shown.header + "\n" + shown.docstring(rng))).replace(
        " \n", "\n"
    )


def _bare(shown: Shown, rng: random.Random) -> str:
    return shown.header + "\n" + shown.docstring(rng)


def _from_tests(shown: Shown, rng: random.Random) -> str:
    ask = rng.choice(
        (
            "Write a Python function for the following task.",
            "Solve this task with one Python function.",
            "Your task is to write a function in Python.",
            "I need a Python function.",
        )
    )
    tests = rng.choice(
        ("It has to pass these tests:", "Your code should satisfy:", "Tests:", "These assertions must hold:")
    )
    return _join(
        f"{ask} {rng.choice(ONLY_CODE)}".strip(),
        f"{rng.choice(('Task: ', ''))}{shown.description}",
        tests,
        _block(shown.asserts()),
    )


def _from_words(shown: Shown, rng: random.Random) -> str:
    call, value = shown.calls[0]
    example = f"For example, `{call}` should give `{value}`."
    ask = rng.choice(
        (
            f"Write a Python function `{shown.name}`.",
            f"Can you write a function called `{shown.name}` in Python?",
            f"Define `{shown.name}` in Python.",
            f"Implement the Python function `{shown.name}`.",
        )
    )
    return rng.choice(
        (
            f"{ask} {shown.description} {example}",
            f"{ask} {shown.description}\n\n{example}",
            f"{ask}\n\n{shown.description} {example} Add a short docstring.",
        )
    )


def _explain(shown: Shown, rng: random.Random) -> str:
    return _join(
        rng.choice(
            (
                "Explain line by line what this code does.",
                "What does this function do? Describe it in plain words.",
                "I found this function. What is it good for, and how does it work?",
                "Walk me through this function with a small example.",
            )
        ),
        _block(shown.source),
    )


def _tests(shown: Shown, rng: random.Random) -> str:
    return _join(
        rng.choice(
            (
                "Write unit tests with pytest for the function below. Cover edge cases.",
                "Which tests would you write for this function? Give them as code.",
                "Write five assert statements that check this function.",
            )
        ),
        _block(shown.source),
    )


def _hints(shown: Shown, rng: random.Random) -> str:
    function = ast.parse(shown.source).body[0]
    assert isinstance(function, ast.FunctionDef)
    bare = f"def {shown.name}({', '.join(argument.arg for argument in function.args.args)}):"
    source = "\n".join([bare, *shown.source.split("\n")[1:]])
    return _join(
        rng.choice(
            (
                "Add type hints and a docstring to this function.",
                "Rewrite this function with type annotations and a Google-style docstring.",
                "Document this function: add annotations, a docstring and one usage example.",
            )
        ),
        _block(source),
    )


def _find_bug(shown: Shown, rng: random.Random) -> str | None:
    header, _, body = shown.source.partition("\n")
    fitting = [(right, wrong) for right, wrong in BUGS if right in body]
    if not fitting:
        return None
    right, wrong = rng.choice(fitting[:4])
    broken = header + "\n" + body.replace(right, wrong, 1)
    call, value = shown.calls[0]
    return _join(
        rng.choice(
            (
                "This function has a bug. Find it and correct it.",
                "Fix the mistake in the following code.",
                "Something is wrong with this function. What is it? Show the corrected version.",
            )
        ),
        f"{shown.description}",
        _block(broken),
        rng.choice((f"Expected: `{call}` returns `{value}`.", "")),
    )


def _rewrite(shown: Shown, rng: random.Random) -> str:
    return _join(
        rng.choice(
            (
                "Rewrite this function so that it is easier to read.",
                "Can this code be made shorter? Show how.",
                "How would you improve this function? Give the improved code.",
                "What is the time complexity of this function? Could it be faster?",
            )
        ),
        _block(shown.source),
    )


FUNCTION_FORMS: dict[str, Callable[[Shown, random.Random], str | None]] = {
    "complete": _complete, "bare": _bare, "from_tests": _from_tests, "from_words": _from_words, "explain": _explain,
    "tests": _tests, "hints": _hints, "find_bug": _find_bug, "rewrite": _rewrite, "complete_again": _complete,
    "from_tests_again": _from_tests,
}  # fmt: skip


# ---- the standard library ----


def _library_prompts(split: str, seed: int) -> Iterator[Prompt]:
    offered = [member for member in members() if (member.module in EVAL_MODULES) == (split == "eval")]
    pairs = [(member, form) for member in offered for form in LIBRARY_FORMS]
    random.Random(f"{seed}:library:{split}:order").shuffle(pairs)
    for member, form in pairs:
        rng = random.Random(f"{seed}:library:{split}:{member.path}:{form}")
        text = rng.choice(LIBRARY_FORMS[form]).format(
            path=member.path,
            name=member.name,
            module=member.module,
            code=_block(_stub(member)),
            first=_first_sentence(member),
            signature=f"{member.name}{_without_self(member.signature)}",
            what="method" if member.is_method else "function",
        )
        yield make_prompt(
            text,
            domain="code",
            source="code",
            kind=f"library:{member.module}:{form}",
            split=split,
            licence=LIBRARY_LICENCE,
        )


def _stub(member: Member) -> str:
    body = textwrap.indent(f'"""{member.doc}\n"""', "    ", lambda line: bool(line.strip()))
    if "\n" not in member.doc:
        body = f'    """{member.doc}"""'
    return f"def {member.name}{member.signature}:\n{body}"


def _first_sentence(member: Member) -> str:
    paragraph = " ".join(member.doc.partition("\n\n")[0].split())
    sentence = re.split(r"(?<=[.!?])\s", paragraph)[0]
    return sentence if sentence.endswith((".", "!", "?")) else sentence.rstrip(":;,") + "."


def _without_self(signature: str) -> str:
    return re.sub(r"\((?:self|cls)(?:, )?", "(", signature, count=1)


LIBRARY_FORMS: dict[str, tuple[str, ...]] = {
    "implement": (
        "Write your own version of this {what}, without importing `{module}`.\n\n{code}",
        "Implement the following Python {what} according to its docstring.\n\n{code}",
        "Complete this {what}. Return the full code in one ```python block.\n\n{code}",
        "{code}\n\nFinish the implementation.",
    ),
    "explain": (
        "Explain what `{path}` does, what its parameters mean and when you would use it.\n\n{code}",
        "What does `{signature}` from the module `{module}` do? Give a short example.",
        "I read this in the documentation of `{module}` and do not understand it. Can you explain it simply?\n\n{code}",
    ),
    "example": (
        "Show two short, complete examples of `{path}`.\n\nSignature: `{signature}`",
        "Write a small Python script that uses `{path}`. Its documentation says: {first}",
        "How do I use `{path}` in Python? Please show code.",
    ),
    "tests": (
        "Write pytest tests for this {what}.\n\n{code}",
        "Which edge cases should be tested for `{path}`? Write a test for each.\n\n{code}",
    ),
    "hints": (
        "Add type hints to this signature and explain your choice.\n\n{code}",
        "Which types do the parameters and the result of this {what} have? Rewrite the first line "
        "with annotations.\n\n{code}",
    ),
    "docstring": (
        "Rewrite this docstring in Google style, with Args and Returns sections.\n\n{code}",
        "Improve the documentation of this {what}: shorter sentences and one example.\n\n{code}",
    ),
    "from_words": (
        "Write a Python {what} `{signature}` for this purpose: {first}",
        "How would you write `{signature}` in plain Python? {first}",
        "Write a {what} named `{name}` in Python. Description: {first} Include a docstring and one example of its use.",
    ),
    "review": (
        "A colleague proposes to add this {what} to our code. Write a short review: naming, "
        "parameters, possible errors.\n\n{code}",
        "List the mistakes people often make with `{path}` and show the correct code.\n\nDocumentation: {first}",
    ),
}
