"""Math prompts: 64 problem kinds with exact answers, in the ways people ask for a solution.

Sixteen whole kinds are held out: evaluation sees no instance of a kind that was trained on. The kinds are word problems
of the grade-school sort (several steps, everyday settings) and some textbook exercises; a third of the prompts is the
bare problem, the others ask for steps and a marked final answer, because both forms occur in evaluation sets.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from fractions import Fraction

from angelspec.data.prompts import Prompt, make_prompt
from angelspec.data.sources import math_money, math_numbers, math_parts, math_people, math_rates
from angelspec.data.sources.story import Draw, Problem

LICENCE = "Apache-2.0"
MODULES = (math_money, math_rates, math_parts, math_people, math_numbers)
KINDS: dict[str, Callable[[Draw], Problem]] = {kind.__name__: kind for module in MODULES for kind in module.KINDS}

# Held out for evaluation: from every module some, and none whose twin is trained on.
EVAL_KINDS = frozenset({
    "ticket_sales", "farm_eggs", "membership_choice", "catching_up", "leaking_tank", "fuel_cost", "class_fractions",
    "scaled_recipe", "price_before_sale", "heads_and_legs", "boxes_needed", "swapping_cards", "tiles_for_a_room",
    "meeting_again", "consecutive_sum", "nested_functions",
})  # fmt: skip

FORMS = (
    "{problem}",
    "{problem}",
    "{problem}",
    "{problem}\n\nLet's think step by step.",
    "{problem}\nReason step by step, and end with the final answer after ####.",
    "Solve this problem step by step. Write the final answer on the last line after ####.\n\n{problem}",
    '{problem}\n\nShow each step of the calculation. Finish with a line of the form "#### <number>".',
    "Question: {problem}\nAnswer:",
    "Work out the following problem and put your final answer in \\boxed{{}}.\n\n{problem}",
    "{problem} Explain how you get the result.",
    "Here is a math problem:\n\n{problem}\n\nWrite the solution in short sentences, then give the answer after ####.",
    "Please help me with my homework. {problem}",
)


def generate(split: str, seed: int) -> Iterator[Prompt]:
    """Endless stream of math prompts of one split, the kinds taking turns in an order shuffled each round.

    A longer stream only appends: the first n prompts do not depend on how many are taken.

    Args:
        split: "train" draws from the trained kinds, "eval" from the held-out ones.
        seed: the seed of the run.
    """
    names = sorted(name for name in KINDS if (name in EVAL_KINDS) == (split == "eval"))
    turn = 0
    while True:
        order = list(names)
        random.Random(f"{seed}:math:{split}:order:{turn}").shuffle(order)
        for name in order:
            rng = random.Random(f"{seed}:math:{split}:{name}:{turn}")
            problem = KINDS[name](Draw(rng))
            text = rng.choice(FORMS).format(problem=problem.text)
            yield make_prompt(
                text,
                domain="math",
                source="math",
                kind=name,
                split=split,
                licence=LICENCE,
                answer=write_answer(problem.answer),
            )
        turn += 1


def write_answer(answer: int | Fraction) -> str:
    """An exact answer as text: 42, 3.5 where the decimal ends after two places, else a fraction such as 2/3."""
    answer = Fraction(answer)
    if answer.denominator == 1:
        return str(answer.numerator)
    if 100 % answer.denominator == 0:
        return f"{float(answer):.2f}".rstrip("0")
    return f"{answer.numerator}/{answer.denominator}"
