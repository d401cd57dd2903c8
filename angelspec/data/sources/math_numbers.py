"""Math kinds about shapes and numbers, in the plainer language of contest and textbook exercises (with LaTeX)."""

from __future__ import annotations

from fractions import Fraction
from math import comb, gcd, lcm

from angelspec.data.sources.story import Draw, Problem, ordinal, say


def fence_around_garden(d: Draw) -> Problem:
    long, wide, gate, price = d.int(12, 40), d.int(6, 20), d.int(1, 4), d.int(8, 30)
    p, plot = d.person(), d.pick("garden", "chicken yard", "meadow", "playground", "vineyard", "dog run")
    facts = d.pick(
        f"{p} wants to put a fence around a rectangular {plot} that is {long} meters long and "
        f"{wide} meters wide. A gap of {gate} "
        f"meter{'s' * (gate > 1)} is left for a gate. One meter of fence costs ${price}.",
        f"A rectangular {plot} measures {long} m by {wide} m. {p} fences it in, except for an "
        f"opening of {gate} m, with fencing that "
        f"is sold at ${price} per meter.",
    )
    text = d.ask(facts, "How much does the fence cost, in dollars?", f"How many dollars does {p} pay for the fence?")
    return Problem(text, (2 * (long + wide) - gate) * price, dict(long=long, wide=wide, gate=gate, price=price))


def tiles_for_a_room(d: Draw) -> Problem:
    side = d.pick(20, 25, 40, 50)
    a, b, c, e = d.int(6, 16), d.int(6, 14), d.int(2, 5), d.int(2, 5)
    spare = d.int(3, 12)
    room, thing = d.pick(
        ("kitchen", "cupboard"), ("bathroom", "bathtub"), ("hallway", "staircase"), ("terrace", "flower bed")
    )
    facts = d.pick(
        f"The floor of a {room} is {a * side} cm long and {b * side} cm wide. A built-in {thing} "
        f"covers a rectangle of {c * side} cm "
        f"by {e * side} cm, which gets no tiles. The square tiles have sides of {side} cm, and "
        f"{spare} spare tiles are bought, too.",
        f"A {room} of {a * side} cm by {b * side} cm is laid with square tiles of {side} cm by "
        f"{side} cm. No tiles are needed under a "
        f"{thing} of {c * side} cm by {e * side} cm. In addition, {spare} tiles are kept in reserve.",
    )
    text = d.ask(facts, "How many tiles have to be bought?", "What is the total number of tiles?")
    return Problem(
        text,
        a * b - c * e + spare,
        dict(side=side, long=a * side, wide=b * side, cut_long=c * side, cut_wide=e * side, spare=spare),
    )


def filling_a_box(d: Draw) -> Problem:
    edge = d.int(2, 6)
    a, b, c = d.int(3, 9), d.int(3, 8), d.int(2, 7)
    inside = d.int(5, a * b * c - 3)
    thing = d.pick("wooden cubes", "sugar cubes", "cubes of ice", "toy blocks", "dice")
    facts = d.pick(
        f"A box has the inner dimensions {a * edge} cm, {b * edge} cm and {c * edge} cm. It is to "
        f"be filled with {thing} whose edges "
        f"are {edge} cm long. {inside} of them are already in it.",
        f"{thing.capitalize()} with an edge of {edge} cm are packed into a box that is {a * edge} "
        f"cm long, {b * edge} cm wide and "
        f"{c * edge} cm high. So far, {inside} have been packed.",
    )
    text = d.ask(facts, "How many more fit into the box?", "How many are still needed to fill the box completely?")
    return Problem(text, a * b * c - inside, dict(edge=edge, a=a * edge, b=b * edge, c=c * edge, inside=inside))


def linear_equation(d: Draw) -> Problem:
    x, a, c = d.int(-9, 15), d.int(3, 12), d.int(-8, 8)
    while c in (a, 0):
        c = d.int(-8, 8)
    b = d.int(-30, 30)
    e = (a - c) * x + b
    var = d.pick("x", "y", "n", "t", "k")
    left = f"{a}{var}" + (f" {'+' if b > 0 else '-'} {abs(b)}" if b else "")
    factor = {1: "", -1: "-"}.get(c, str(c))
    right = f"{factor}{var}" + (f" {'+' if e > 0 else '-'} {abs(e)}" if e else "")
    text = d.pick(
        f"Solve the equation ${left} = {right}$ for ${var}$.",
        f"If ${left} = {right}$, what is the value of ${var}$?",
        f"Find the number ${var}$ for which ${left} = {right}$.",
        f"What is ${var}$ if ${left}$ equals ${right}$?",
    )
    return Problem(text, x, dict(a=a, b=b, c=c, e=e))


def equal_groups(d: Draw) -> Problem:
    g, (x, y) = d.int(4, 15), d.pick((2, 3), (3, 4), (3, 5), (4, 5), (5, 7), (4, 7), (5, 6), (7, 9))
    a, b = g * x, g * y
    p = d.person()
    one, two, group = d.pick(
        ("roses", "lilies", "bouquets"),
        ("boys", "girls", "teams"),
        ("pencils", "erasers", "gift bags"),
        ("apples", "oranges", "baskets"),
        ("red beads", "blue beads", "bracelets"),
    )
    text = d.pick(
        f"{p} has {a} {one} and {b} {two} and forms {group} that are all alike, using everything. "
        "What is the largest possible "
        f"number of {group}?",
        f"From {a} {one} and {b} {two}, as many equal {group} as possible are to be made, with "
        f"nothing left over. How many {group} "
        "are there?",
        f"There are {a} {one} and {b} {two}. They are divided into identical {group} with no "
        f"remainder. At most how many {group} can "
        "there be?",
    )
    return Problem(text, gcd(a, b), dict(a=a, b=b))


def meeting_again(d: Draw) -> Problem:
    a, b, c = d.some((4, 5, 6, 8, 9, 10, 12, 15, 18, 20), 3)
    text = d.pick(
        f"Three buses leave a station at the same moment. They come back every {a}, {b} and {c} "
        "minutes. After how many minutes do all "
        "three leave together again?",
        f"One light blinks every {a} seconds, another every {b} seconds and a third every {c} "
        "seconds. They have just blinked "
        "together. In how many seconds will this happen the next time?",
        f"What is the smallest positive whole number that is divisible by ${a}$, ${b}$ and ${c}$?",
        f"Find the least common multiple of ${a}$, ${b}$ and ${c}$.",
        f"One neighbor waters a tree every {a} days, a second one every {b} days and a third one "
        f"every {c} days. Today all of them did. "
        "In how many days will they do so together again?",
        f"Tickets are sold in books of {a}, {b} or {c}. What is the smallest number of tickets that "
        "can be bought in books of any one "
        "of these sizes, with none left over?",
    )
    return Problem(text, lcm(a, b, c), dict(a=a, b=b, c=c))


def day_after_many(d: Draw) -> Problem:
    size, many, back = d.pick(5, 6, 7, 8, 9, 11, 12), d.int(40, 400), d.int(2, 30)
    what = d.pick("beads", "lamps", "flags", "seats", "tiles")
    p = d.person()
    text = d.pick(
        f"What is the remainder when ${many} + {back} \\cdot {size + 1}$ is divided by ${size}$?",
        f"{p} arranges {many + back * (size + 1)} {what} in rows of {size} and starts a new row "
        "only when the last is full. How many "
        f"{what} are in the last row if it is not full? (Answer 0 if every row is full.)",
        f"A machine packs {many} red and {back * (size + 1)} blue {what} into bags of {size}. How "
        f"many {what} are left when no more "
        "bag can be filled?",
    )
    return Problem(text, (many + back * (size + 1)) % size, dict(size=size, many=many, back=back))


def consecutive_sum(d: Draw) -> Problem:
    first, count, step = d.int(3, 60), d.pick(3, 5), d.pick(1, 2)
    if step == 2 and d.int(0, 1):
        first |= 1
    elif step == 2:
        first += first % 2
    word = "" if step == 1 else ("odd " if first % 2 else "even ")
    total = sum(first + step * i for i in range(count))
    which, value = d.pick(
        ("largest", first + step * (count - 1)), ("smallest", first), ("middle", first + step * (count // 2))
    )
    kind = f"{word}numbers" if word else "whole numbers"
    text = d.pick(
        f"The sum of {say(count)} consecutive {kind} is {total}. What is the {which} of them?",
        f"{say(count).capitalize()} consecutive {kind} add up to ${total}$. Find the {which} one.",
        f"When {count} consecutive {kind} are added, the result is {total}. Which is the {which} of these numbers?",
    )
    return Problem(
        text,
        value,
        dict(count=count, step=step, total=total, place={"smallest": 0, "largest": count - 1}.get(which, count // 2)),
    )


def triangle_angle(d: Draw) -> Problem:
    a = d.int(25, 80)
    more = d.int(5, 40)
    while 180 - 2 * a - more < 10:
        a -= 5
    names = d.pick("ABC", "PQR", "XYZ", "DEF")
    x, y, z = (f"\\angle {letter}" for letter in names)
    text = d.pick(
        f"In triangle ${names}$, ${x} = {a}^\\circ$, and ${y}$ is ${more}^\\circ$ larger than "
        f"${x}$. How many degrees is ${z}$?",
        f"Two angles of a triangle differ by ${more}$ degrees, and the smaller of the two measures "
        f"${a}$ degrees. What is the third "
        "angle, in degrees?",
        f"One angle of a triangle is ${a}^\\circ$. A second one is ${a + more}^\\circ$. Find the "
        "measure of the third angle in degrees.",
    )
    return Problem(text, 180 - 2 * a - more, dict(a=a, more=more))


def drawing_a_marble(d: Draw) -> Problem:
    red, blue, green = d.int(2, 9), d.int(2, 9), d.int(2, 8)
    thing = d.pick("marbles", "balls", "tickets", "beads", "cards")
    facts = d.pick(
        f"A bag contains {red} red, {blue} blue and {green} green {thing}.",
        f"There are {red} red, {green} green and {blue} blue {thing} in a box.",
    )
    text = d.ask(
        facts,
        "One is drawn at random. What is the probability that it is not green? Give a common fraction.",
        "If one of them is taken without looking, what is the probability that it is red or blue? "
        "Answer as a fraction in "
        "lowest terms.",
    )
    return Problem(text, Fraction(red + blue, red + blue + green), dict(red=red, blue=blue, green=green))


def choosing_outfits(d: Draw) -> Problem:
    p, a, b, c = d.person(), d.int(3, 9), d.int(2, 7), d.int(2, 5)
    one, two, three = d.pick(
        ("shirts", "pairs of trousers", "hats"),
        ("starters", "main dishes", "desserts"),
        ("colors", "fabrics", "patterns"),
        ("kinds of bread", "cheeses", "sauces"),
    )
    bad = d.int(1, 4)
    facts = d.pick(
        f"{p} can choose from {a} {one}, {b} {two} and {c} {three} and takes one of each. "
        f"{say(bad).capitalize()} of the possible "
        f"combinations {'is' if bad == 1 else 'are'} out of the question.",
        f"There are {a} {one}, {b} {two} and {c} {three}. {p} picks exactly one of each sort, but {say(bad)} "
        f"combination{'s' * (bad > 1)} {'is' if bad == 1 else 'are'} not allowed.",
    )
    text = d.ask(facts, "How many combinations remain?", "How many different choices are possible?")
    return Problem(text, a * b * c - bad, dict(a=a, b=b, c=c, bad=bad))


def games_in_a_league(d: Draw) -> Problem:
    n, rounds, off = d.int(5, 14), d.pick(1, 2), d.int(2, 5)
    sport = d.pick("chess", "volleyball", "table tennis", "handball", "hockey", "curling")
    often = "once" if rounds == 1 else "twice"
    facts = d.pick(
        f"In a {sport} league of {n} teams, every team plays every other team {often}. So far, "
        f"{off} games have been canceled.",
        f"{n} teams take part in a {sport} tournament in which each pair of teams meets {often}. "
        f"Because of a storm, {off} of the "
        "games are canceled.",
    )
    text = d.ask(facts, "How many games are played?", "How many games remain?")
    return Problem(text, comb(n, 2) * rounds - off, dict(n=n, rounds=rounds, off=off))


def missing_number(d: Draw) -> Problem:
    count = d.int(4, 6)
    numbers = [d.int(2, 40) for _ in range(count)]
    mean = sum(numbers) // count + d.int(1, 5)
    missing = mean * (count + 1) - sum(numbers)
    listed = ", ".join(f"{n}" for n in numbers)
    text = d.pick(
        f"The mean of the numbers ${listed}$ and $x$ is ${mean}$. What is $x$?",
        f"Which number has to be added to the list {listed} so that the average of all {count + 1} numbers is {mean}?",
        f"{say(count + 1).capitalize()} numbers have an average of {mean}. "
        f"{say(count).capitalize()} of them are {listed}. Find the "
        "other one.",
    )
    return Problem(text, missing, dict(numbers=tuple(numbers), mean=mean))


def counting_divisors(d: Draw) -> Problem:
    n = d.pick(2, 3, 4, 6, 8, 9, 12) * d.pick(5, 6, 7, 10, 11, 14, 15, 18, 20, 25, 30)
    divisors = sum(n % k == 0 for k in range(1, n + 1))
    p, thing = d.person(), d.pick("chairs", "square tiles", "photos", "cabbages", "stamps")
    text = d.pick(
        f"How many positive divisors does ${n}$ have?",
        f"How many positive integers are factors of ${n}$?",
        f"{p} wants to arrange {n} {thing} in a rectangle with equal rows. How many different "
        "numbers of rows are possible?",
        f"In how many ways can ${n}$ be written as a product $a \\cdot b$ of two positive integers, "
        "if the order matters?",
    )
    return Problem(text, divisors, dict(n=n))


def arithmetic_sequence(d: Draw) -> Problem:
    first, step, n = d.int(-10, 20), d.pick(-7, -4, -3, 2, 3, 4, 5, 6, 8, 9, 11), d.int(12, 60)
    shown = ", ".join(str(first + step * i) for i in range(4))
    text = d.pick(
        f"What is the {ordinal(n)} term of the arithmetic sequence ${shown}, \\dots$?",
        f"An arithmetic sequence begins with ${shown}, \\ldots$. Find term number {n}.",
        f"The first term of an arithmetic sequence is ${first}$ and the second is ${first + step}$. "
        "What is the value of term number "
        f"{n}?",
    )
    return Problem(text, first + step * (n - 1), dict(first=first, step=step, n=n))


def nested_functions(d: Draw) -> Problem:
    a, b, c, x = d.int(2, 7), d.int(-9, 9), d.int(1, 8), d.int(-4, 6)
    b = b or 3
    f = f"{a}x {'+' if b > 0 else '-'} {abs(b)}"
    g = d.pick(f"x^2 + {c}", f"{c} + x^2")
    text = d.pick(
        f"Let $f(x) = {f}$ and $g(x) = {g}$. What is $f(g({x}))$?",
        f"If $f(x) = {f}$ and $g(x) = {g}$, evaluate $f(g({x}))$.",
        f"Two functions are given by $f(x) = {f}$ and $g(x) = {g}$. Find the value of $f(g({x}))$.",
    )
    return Problem(text, a * (x * x + c) + b, dict(a=a, b=b, c=c, x=x))


KINDS = (
    fence_around_garden,
    tiles_for_a_room,
    filling_a_box,
    linear_equation,
    equal_groups,
    meeting_again,
    day_after_many,
    consecutive_sum,
    triangle_angle,
    drawing_a_marble,
    choosing_outfits,
    games_in_a_league,
    missing_number,
    counting_divisors,
    arithmetic_sequence,
    nested_functions,
)
