"""Words and draws shared by the math kinds: people, things, and one object that makes every random choice.

A kind is a function `kind(d: Draw) -> Problem`. All chance comes from the generator inside `Draw`, so a problem is a
function of its seed. Phrasings are picked sentence by sentence, which multiplies the few that are written down.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

Choice = TypeVar("Choice")
Count = int  # inside Draw, `int` is the method that draws one


@dataclass(frozen=True)
class Problem:
    """A word problem, its exact answer, and the numbers it was made from (for the independent check in the tests)."""

    text: str
    answer: int | Fraction
    facts: dict[str, int | tuple[int, ...]]


@dataclass(frozen=True)
class Person:
    """A name with its pronouns: "Nadia" with he = "she", him = "her", his = "her"."""

    name: str
    he: str
    him: str
    his: str

    def __str__(self) -> str:
        return self.name

    @property
    def He(self) -> str:
        return self.he.capitalize()

    @property
    def His(self) -> str:
        return self.his.capitalize()


WOMEN = (
    "Amara Beatriz Chloe Dalia Elena Farah Greta Hana Imani Jia Kavya Leila Maren Nadia Olivia Priya Quinn Rosa Samira "
    "Tessa Uma Valentina Wren Ximena Yuki Zofia Alice Bonnie Carmen Dorothy Edith Fiona Grace Helen Ines June Kate "
    "Lucy Mabel Nora Paula Ruth Sophie Tina Vera Wendy Ayesha Brigitte Colette Daniela Emily Jessica Megan Hannah"
).split()
MEN = (
    "Ahmed Bruno Caleb Diego Emil Felix Gustavo Hassan Ivan Jonas Kofi Liam Mateo Nikhil Oscar Pedro Rafael Stefan "
    "Tomas Ugo Victor Wei Xavier Yusuf Zane Arthur Ben Carl David Ernest Frank George Harold Isaac Jack Kevin Leon "
    "Martin Neil Owen Paul Ray Simon Theo Vincent Walter Adam Boris Chen Dimitri Ethan Jason Marcus Henry"
).split()

# Things that are bought and counted: singular, plural, and a sensible price range in whole dollars.
GOODS = (
    ("notebook", "notebooks", 2, 6),
    ("pen", "pens", 1, 4),
    ("T-shirt", "T-shirts", 8, 25),
    ("mug", "mugs", 5, 14),
    ("paperback", "paperbacks", 6, 15),
    ("candle", "candles", 3, 12),
    ("puzzle", "puzzles", 9, 24),
    ("box of crayons", "boxes of crayons", 2, 7),
    ("bag of apples", "bags of apples", 3, 8),
    ("loaf of bread", "loaves of bread", 2, 6),
    ("jar of honey", "jars of honey", 5, 13),
    ("carton of eggs", "cartons of eggs", 3, 6),
    ("bottle of juice", "bottles of juice", 2, 5),
    ("scarf", "scarves", 9, 30),
    ("pair of socks", "pairs of socks", 3, 9),
    ("toy car", "toy cars", 4, 12),
    ("plant pot", "plant pots", 4, 16),
    ("poster", "posters", 5, 18),
    ("frisbee", "frisbees", 3, 9),
    ("bag of rice", "bags of rice", 4, 11),
    ("water bottle", "water bottles", 6, 20),
    ("lamp", "lamps", 12, 45),
    ("tennis racket", "tennis rackets", 25, 80),
    ("paint brush", "paint brushes", 2, 8),
    ("cushion", "cushions", 7, 22),
    ("block of cheese", "blocks of cheese", 4, 12),
    ("packet of seeds", "packets of seeds", 1, 5),
    ("card game", "card games", 6, 18),
    ("cap", "caps", 6, 17),
    ("umbrella", "umbrellas", 8, 26),
)
BIG_GOODS = (
    ("bicycle", 180, 480),
    ("guitar", 120, 360),
    ("telescope", 150, 420),
    ("sewing machine", 140, 380),
    ("tablet", 200, 450),
    ("kayak", 260, 600),
    ("camera", 220, 560),
    ("drum kit", 240, 620),
    ("skateboard", 60, 150),
    ("microscope", 90, 260),
    ("winter coat", 80, 220),
    ("game console", 200, 480),
    ("keyboard", 70, 240),
)
COLLECTED = (
    "marbles",
    "stamps",
    "stickers",
    "trading cards",
    "seashells",
    "coins",
    "postcards",
    "comic books",
    "buttons",
    "toy dinosaurs",
    "bottle caps",
    "keychains",
    "badges",
    "fridge magnets",
    "crystals",
    "feathers",
)
FOODS = (
    "muffins",
    "cookies",
    "cupcakes",
    "brownies",
    "sandwiches",
    "pancakes",
    "scones",
    "dumplings",
    "pretzels",
    "empanadas",
    "doughnuts",
    "spring rolls",
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
NUMBER_WORDS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
RELATIVES = ("brother", "sister", "cousin", "neighbor", "best friend", "classmate", "uncle", "aunt", "roommate")


class Draw:
    """Every random choice of a problem, made by one generator.

    Args:
        rng: the generator; two draws with equally seeded generators make the same problem.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def int(self, low: int, high: int, step: int = 1) -> int:
        """A whole number in low..high (both included) of the form low + k * step."""
        return self.rng.randrange(low, high + 1, step)

    def pick(self, *options: Choice) -> Choice:
        """One of the options."""
        return self.rng.choice(options)

    def some(self, options: tuple[Choice, ...], count: Count) -> list[Choice]:
        """Different options, in random order."""
        return self.rng.sample(options, count)

    def person(self) -> Person:
        """One person."""
        return self.people(1)[0]

    def people(self, count: Count) -> list[Person]:
        """Different people, in random order."""
        crowd = [Person(name, "she", "her", "her") for name in WOMEN]
        crowd += [Person(name, "he", "him", "his") for name in MEN]
        return self.rng.sample(crowd, count)

    def mix(self, *sentences: str) -> str:
        """Sentences in random order: only for facts that do not build on each other."""
        return " ".join(self.rng.sample(sentences, len(sentences)))

    def ask(self, facts: str, *questions: str) -> str:
        """The facts followed by one of the questions."""
        return f"{facts} {self.pick(*questions)}"


def say(number: int) -> str:
    """Small numbers as words, as people write them ("seven"); larger ones as digits."""
    return NUMBER_WORDS[number] if 0 <= number < len(NUMBER_WORDS) else str(number)


def dollars(cents: int) -> str:
    """An amount of money as written: $7 or $7.50."""
    whole, rest = divmod(cents, 100)
    return f"${whole:,}.{rest:02d}" if rest else f"${whole:,}"


def per(fraction: Fraction) -> str:
    """A fraction as written in a sentence: 2/3, with words for the common ones."""
    words = {(1, 2): "half", (1, 3): "a third", (1, 4): "a quarter", (2, 3): "two thirds", (3, 4): "three quarters"}
    return words.get((fraction.numerator, fraction.denominator), f"{fraction.numerator}/{fraction.denominator}")


def times(factor: int) -> str:
    """A multiple as written in a comparison: "twice", "three times"."""
    return "twice" if factor == 2 else f"{say(factor)} times"


def ordinal(number: int) -> str:
    """A place in a row: 21st, 22nd, 23rd, 24th; 11th to 13th are the exceptions."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"
