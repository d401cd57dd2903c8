"""Math kinds about parts of a whole: fractions, percentages, ratios, mixtures."""

from __future__ import annotations

from fractions import Fraction

from angelspec.data.sources.story import COLLECTED, FOODS, Draw, Problem, per, say

SIMPLE = (
    Fraction(1, 2),
    Fraction(1, 3),
    Fraction(1, 4),
    Fraction(1, 5),
    Fraction(2, 3),
    Fraction(2, 5),
    Fraction(3, 4),
    Fraction(3, 5),
    Fraction(1, 6),
)


def fraction_given_away(d: Draw) -> Problem:
    p, q = d.people(2)
    things = d.pick(*COLLECTED)
    first, second = d.pick(*SIMPLE), d.pick(*SIMPLE[:5])
    base = first.denominator * second.denominator
    total = base * d.int(3, max(4, 120 // base))
    bought = d.int(4, 24)
    rest = total * (1 - first)
    facts = d.pick(
        f"{p} has {total} {things}. {p.He} gives {per(first)} of them to {q}. Of what is left, "
        f"{p.he} sells {per(second)}. "
        f"Later {p.he} gets {bought} new ones as a present.",
        f"Of {p.his} {total} {things}, {p} hands {per(first)} to {q} and then loses {per(second)} "
        "of the remaining ones. At a "
        f"flea market {p.he} finds {bought} more.",
        f"{p} owned {total} {things}. {q} received {per(first)} of them, and {per(second)} of the "
        "others went to the school "
        f"library. After that, {p} bought {bought}.",
    )
    text = d.ask(
        facts,
        f"How many {things} does {p} have now?",
        f"How many {things} does {p.he} own in the end?",
        f"What is the number of {things} that {p} has at the end?",
    )
    return Problem(
        text,
        rest - rest * second + bought,
        dict(
            total=total, a=first.numerator, b=first.denominator, c=second.numerator, e=second.denominator, bought=bought
        ),
    )


def ratio_of_two(d: Draw) -> Problem:
    p, q = d.people(2)
    a, b = d.some((2, 3, 4, 5, 7, 8, 9), 2)
    a, b = min(a, b), max(a, b)
    share = d.int(4, 30)
    things = d.pick(*COLLECTED)
    facts = d.pick(
        f"The ratio of {p}'s {things} to {q}'s is {a}:{b}. Together they have {(a + b) * share} {things}.",
        f"{p} and {q} share {(a + b) * share} {things} in the ratio {a} to {b}.",
        f"For every {say(a)} {things} that {p} has, {q} has {say(b)}. The two of them own "
        f"{(a + b) * share} {things} in total.",
    )
    text = d.ask(
        facts,
        f"How many more {things} does {q} have than {p}?",
        f"How many {things} would {q} have to lose to have as many as {p}?",
    )
    return Problem(text, (b - a) * share, dict(a=a, b=b, total=(a + b) * share))


def growing_club(d: Draw) -> Problem:
    percent, more = d.pick(10, 20, 25, 30, 40, 50, 60, 75), d.int(3, 30)
    start = d.pick(40, 60, 80, 100, 120, 160, 200, 240, 300)
    left = d.int(2, 20)
    club = d.pick("chess club", "gardening group", "choir", "hiking club", "book club", "theater group", "rowing team")
    town = d.pick("Oakville", "Riverton", "Millbrook", "Westfield", "Lakeside", "Stonebridge")
    facts = d.pick(
        f"Last year the {club} of {town} had {start} members. This year the number grew by "
        f"{percent}%. Then {left} people left "
        f"and {more} new people joined.",
        f"The {club} in {town} started the season with {start} members and grew by {percent} "
        "percent during the spring. In the "
        f"summer, {more} more people signed up, while {left} moved away.",
    )
    text = d.ask(
        facts,
        f"How many members does the {club} have now?",
        "How many members are there in the end?",
        "What is the current number of members?",
    )
    return Problem(
        text,
        Fraction(start * (100 + percent), 100) - left + more,
        dict(start=start, percent=percent, left=left, more=more),
    )


def original_amount(d: Draw) -> Problem:
    p, spent = d.person(), d.pick(*SIMPLE)
    cash = spent.denominator * d.int(4, 30)
    kept = cash * (1 - spent)
    second = d.int(2, max(3, int(kept) - 2))
    left = kept - second
    what, other = d.some(
        (
            "a concert ticket",
            "new shoes",
            "a birthday gift",
            "a train ride",
            "groceries",
            "art supplies",
            "a haircut",
            "a pair of jeans",
        ),
        2,
    )
    facts = d.pick(
        f"{p} spent {per(spent)} of {p.his} money on {what}. Then {p.he} spent ${second} on {other} "
        f"and had ${left} left.",
        f"After paying {per(spent)} of {p.his} savings for {what} and ${second} for {other}, {p} has ${left}.",
        f"{what[0].upper() + what[1:]} cost {p} {per(spent)} of the money in {p.his} pocket. "
        f"Another ${second} went to {other}, "
        f"which left {p.him} with ${left}.",
    )
    text = d.ask(
        facts,
        f"How much money did {p} have at first?",
        f"How many dollars did {p.he} start with?",
        f"What amount did {p.he} have before spending anything?",
    )
    return Problem(text, cash, dict(a=spent.numerator, b=spent.denominator, second=second, left=int(left)))


def scaled_recipe(d: Draw) -> Problem:
    p, dish = d.person(), d.pick(*FOODS)
    serves, factor = d.int(2, 8), d.int(2, 6)
    amount, unit, thing = d.pick(
        (3, "cups", "flour"),
        (250, "grams", "butter"),
        (4, "tablespoons", "sugar"),
        (150, "milliliters", "milk"),
        (5, "ounces", "chocolate"),
        (120, "grams", "oats"),
    )
    have = d.int(1, amount * factor - 1) if amount < 20 else 10 * d.int(2, amount * factor // 10 - 1)
    facts = d.pick(
        f"A recipe for {serves * 3} {dish} needs {amount} {unit} of {thing}. {p} wants to make "
        f"{serves * 3 * factor} {dish} and "
        f"has {have} {unit} of {thing} at home.",
        f"With {amount} {unit} of {thing} you can make {serves * 3} {dish}. For a party, {p} needs "
        f"{serves * 3 * factor} of them. "
        f"{p.He} finds {have} {unit} of {thing} in the kitchen.",
    )
    text = d.ask(
        facts,
        f"How many more {unit} of {thing} does {p.he} have to buy?",
        f"How much {thing} is missing, in {unit}?",
        f"How many {unit} must {p} still get?",
    )
    return Problem(
        text, amount * factor - have, dict(amount=amount, batch=serves * 3, wanted=serves * 3 * factor, have=have)
    )


def juice_mixture(d: Draw) -> Problem:
    p = d.person()
    a, b = d.int(2, 9), d.int(2, 9)
    x, y = d.some((10, 20, 30, 40, 50, 60, 80, 100), 2)
    a, b = a * 10, b * 10
    drink, part = d.pick(
        ("punch", "orange juice"),
        ("lemonade", "lemon juice"),
        ("cider", "apple juice"),
        ("sports drink", "fruit juice"),
        ("iced tea", "peach juice"),
    )
    facts = d.pick(
        f"{p} mixes {a} ounces of a drink that is {x}% {part} with {b} ounces of another that is {y}% {part}.",
        f"A bowl of {drink} is made from two bottles. The first holds {a} ounces and consists of "
        f"{x}% {part}; the second holds "
        f"{b} ounces and consists of {y}% {part}. {p} pours both into the bowl.",
        f"{p} pours {a} ounces of {drink} with {x}% {part} into a jug and adds {b} ounces of {drink} with {y}% {part}.",
    )
    text = d.ask(
        facts,
        f"How many ounces of {part} are in the mixture?",
        f"How much {part} is that in total, in ounces?",
        f"How many ounces of the mixture are {part}?",
    )
    return Problem(text, Fraction(a * x + b * y, 100), dict(a=a, x=x, b=b, y=y))


def survey_shares(d: Draw) -> Problem:
    people = d.pick(100, 120, 150, 160, 200, 240, 300, 400, 500)
    x, y = d.some((10, 15, 20, 25, 30, 35, 40), 2)
    people = people // 20 * 20
    one, two, three = d.some(("tea", "coffee", "juice", "water", "milk", "hot chocolate"), 3)
    who = d.pick("students", "office workers", "visitors", "passengers", "club members", "hotel guests")
    facts = d.pick(
        f"{people} {who} were asked what they like to drink in the morning. {x}% said {one}, {y}% "
        f"said {two}, and everyone else "
        f"said {three}.",
        f"In a survey of {people} {who}, {x} percent prefer {one} and {y} percent prefer {two}. The "
        f"rest prefer {three}.",
    )
    text = d.ask(
        facts,
        f"How many of them prefer {three}?",
        f"How many {who} chose {three}?",
        f"What is the number of {who} who named {three}?",
    )
    return Problem(text, Fraction(people * (100 - x - y), 100), dict(people=people, x=x, y=y))


def class_fractions(d: Draw) -> Problem:
    girls, wearing = d.pick(*SIMPLE[:8]), d.pick(Fraction(1, 2), Fraction(1, 3), Fraction(1, 4), Fraction(2, 3))
    base = girls.denominator * wearing.denominator
    n = base * d.int(2, max(3, 90 // base))
    trait = d.pick(
        "wear glasses",
        "play an instrument",
        "have a pet",
        "ride a bike to school",
        "speak two languages",
        "bring lunch from home",
    )
    extra = d.int(2, 9)
    group = d.pick("a summer camp", "a language school", "a music school", "an elementary school", "a sports camp")
    facts = d.pick(
        f"There are {n} children in {group}. {per(girls).capitalize()} of them are girls, and "
        f"{per(wearing)} of the girls "
        f"{trait}. Among the boys, {extra} {trait}.",
        f"At {group}, {per(girls)} of the {n} children are girls. {per(wearing).capitalize()} of "
        f"these girls {trait}, and so do "
        f"{say(extra)} of the boys.",
    )
    text = d.ask(
        facts,
        f"How many children {trait} altogether?",
        f"How many of the children {trait}?",
        f"What is the number of children who {trait}?",
    )
    return Problem(
        text,
        n * girls * wearing + extra,
        dict(n=n, a=girls.numerator, b=girls.denominator, c=wearing.numerator, e=wearing.denominator, extra=extra),
    )


def pizza_left(d: Draw) -> Problem:
    p, pizzas, slices = d.person(), d.int(3, 8), d.pick(6, 8, 10, 12)
    kids, each = d.int(4, 9), d.int(1, 3)
    adults = d.int(2, 5)
    eat = d.int(2, 3)
    while kids * each + adults * eat >= pizzas * slices:
        pizzas += 1
    food = d.pick("pizza", "pie", "cake", "quiche")
    facts = d.pick(
        f"{p} orders {pizzas} {food}s for a party, and each is cut into {slices} slices. {kids} "
        f"children eat {say(each)} "
        f"slice{'s' * (each > 1)} each and {adults} adults eat {say(eat)} slices each.",
        f"For {p}'s birthday there are {pizzas} {food}s with {slices} pieces each. Every one of the "
        f"{kids} children takes "
        f"{each} piece{'s' * (each > 1)}, and every one of the {adults} adults takes {eat} pieces.",
    )
    text = d.ask(
        facts,
        "How many slices are left over?",
        "How many slices remain at the end?",
        "How many pieces have not been eaten?",
    )
    return Problem(
        text,
        pizzas * slices - kids * each - adults * eat,
        dict(pizzas=pizzas, slices=slices, kids=kids, each=each, adults=adults, eat=eat),
    )


def price_changes(d: Draw) -> Problem:
    price, up, down = (
        d.pick(100, 200, 300, 400, 500, 600, 800, 1000),
        d.pick(10, 20, 25, 30, 50),
        d.pick(10, 20, 25, 50),
    )
    thing = d.pick(
        "a share in a company",
        "a flight to Lisbon",
        "an antique clock",
        "a ton of copper",
        "a hotel room",
        "a season ticket",
        "a painting",
    )
    facts = d.pick(
        f"The price of {thing} was ${price}. It went up by {up}% in the spring and fell by {down}% in the fall.",
        f"In January, {thing} cost ${price}. By June the price had risen {up} percent; by December "
        f"it had dropped {down} percent "
        "from its June level.",
        f"{thing[0].upper() + thing[1:]} costs ${price}. First the price is increased by {up}%, and "
        "a month later the new price "
        f"is cut by {down}%.",
    )
    text = d.ask(
        facts,
        "What is the price now, in dollars?",
        "How many dollars does it cost in the end?",
        "What is the final price?",
    )
    return Problem(text, Fraction(price * (100 + up) * (100 - down), 10000), dict(price=price, up=up, down=down))


def price_before_sale(d: Draw) -> Problem:
    off, units = d.pick(10, 20, 25, 30, 40, 50, 60, 75), d.int(1, 12)
    price = 20 * units
    pay = price * (100 - off) // 100
    p, thing = (
        d.person(),
        d.pick("jacket", "pair of boots", "desk", "dress", "suitcase", "blender", "backpack", "watch"),
    )
    facts = d.pick(
        f"{p} pays ${pay} for a {thing} that is marked {off}% off.",
        f"In a clearance sale, everything is reduced by {off} percent. {p} gets a {thing} for ${pay}.",
        f"A {thing} is sold at a discount of {off}%, so that {p} has to pay only ${pay}.",
    )
    if d.int(0, 1):
        text = d.ask(facts, f"How many dollars did {p} save?", f"By how many dollars was the {thing} reduced?")
        return Problem(text, price - pay, dict(pay=pay, off=off, want_saving=1))
    text = d.ask(facts, f"What did the {thing} cost before the sale?", "What was the original price in dollars?")
    return Problem(text, price, dict(pay=pay, off=off, want_saving=0))


def inheritance_ratio(d: Draw) -> Problem:
    a, b, c = d.people(3)
    x, y, z = d.some((1, 2, 3, 4, 5), 3)
    share = d.int(20, 150, 10)
    total = (x + y + z) * share
    source = d.pick(
        "a lottery prize",
        "the money from a yard sale",
        "the profit of their small business",
        "an inheritance",
        "the reward for finding a lost dog",
        "the earnings of a summer job",
    )
    gift = d.int(5, z * share - 1, 5)
    facts = d.pick(
        f"{a}, {b} and {c} divide {source} of ${total} in the ratio {x}:{y}:{z}. Afterwards, {c} "
        f"gives ${gift} to charity.",
        f"Three friends share {source}, ${total}, so that {a}, {b} and {c} get {x}, {y} and {z} "
        f"parts. {c} then spends ${gift}.",
    )
    text = d.ask(
        facts, f"How much money does {c} have left from the share?", f"How many dollars of the share does {c} keep?"
    )
    return Problem(text, z * share - gift, dict(x=x, y=y, z=z, total=total, gift=gift))


KINDS = (
    fraction_given_away,
    ratio_of_two,
    growing_club,
    original_amount,
    scaled_recipe,
    juice_mixture,
    survey_shares,
    class_fractions,
    pizza_left,
    price_changes,
    price_before_sale,
    inheritance_ratio,
)
