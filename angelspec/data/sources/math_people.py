"""Math kinds about counting and comparing: ages, groups, queues, collections, growth."""

from __future__ import annotations

from angelspec.data.sources.story import COLLECTED, DAYS, RELATIVES, Draw, Problem, say, times


def ages_in_future(d: Draw) -> Problem:
    p, q = d.people(2)
    age, years, gap = d.int(5, 16), d.int(3, 15), d.int(2, 12)
    relative = d.pick(*RELATIVES)
    factor = d.int(2, 4)
    parent = age * factor
    facts = d.pick(
        f"{p} is {age} years old. {p.His} mother is {times(factor)} as old, and {p.his} {relative} "
        f"{q} is {gap} years older than "
        f"{p}.",
        f"{q} is {gap} years older than {p}, who is {age}. {p}'s father is {times(factor)} as old as {p}.",
    )
    parent_word = "mother" if "mother" in facts else "father"
    text = d.ask(
        facts,
        f"What will the sum of all three ages be in {years} years?",
        f"In {say(years)} years, how old will {p}, {q} and the {parent_word} be when their ages are added?",
    )
    return Problem(text, age + parent + age + gap + 3 * years, dict(age=age, factor=factor, gap=gap, years=years))


def chain_of_comparisons(d: Draw) -> Problem:
    a, b, c = d.people(3)
    things, n, factor, less = d.pick(*COLLECTED), d.int(8, 40), d.int(2, 4), d.int(2, 7)
    facts = d.mix(
        d.pick(f"{a} has {n} {things}.", f"{a} owns {n} {things}.", f"There are {n} {things} in {a}'s collection."),
        d.pick(
            f"{b} has {times(factor)} as many {things} as {a}.",
            f"The number of {things} {b} has is {times(factor)} that of {a}.",
        ),
        d.pick(
            f"{c} has {less} fewer {things} than {a}.", f"{c} would need {less} more {things} to have as many as {a}."
        ),
    )
    text = d.ask(
        facts,
        f"How many {things} do they have altogether?",
        f"What is the total number of {things}?",
        f"How many {things} do {a}, {b} and {c} own in all?",
    )
    return Problem(text, n + factor * n + n - less, dict(n=n, factor=factor, less=less))


def bus_passengers(d: Draw) -> Problem:
    start = d.int(12, 40)
    off1, on1, on2 = d.int(2, 9), d.int(3, 12), d.int(2, 10)
    half = d.int(0, 1)
    if (start - off1 + on1) % 2:
        on1 += 1
    middle = (start - off1 + on1) // 2
    vehicle = d.pick("bus", "tram", "train car", "ferry", "shuttle")
    facts = d.pick(
        f"A {vehicle} leaves the first stop with {start} passengers. At the second stop, {off1} "
        f"people get off and {on1} get on. "
        f"At the third stop, half of the passengers get off and {on2} get on.",
        f"{start} people are on a {vehicle}. At the next stop {say(off1)} leave and {say(on1)} come "
        "aboard. At the stop after "
        f"that, half of all passengers leave and {say(on2)} come aboard.",
    )
    if half:
        price = d.int(2, 4)
        text = d.ask(
            f"{facts} Everyone who boards pays ${price}, and the first {start} passengers paid as well.",
            "How many dollars were collected in total?",
            "How much money was paid in fares altogether?",
        )
        return Problem(text, price * (start + on1 + on2), dict(start=start, off1=off1, on1=on1, on2=on2, price=price))
    text = d.ask(facts, f"How many passengers are on the {vehicle} now?", f"How many people are now on the {vehicle}?")
    return Problem(text, middle + on2, dict(start=start, off1=off1, on1=on1, on2=on2, price=0))


def heads_and_legs(d: Draw) -> Problem:
    x, y = d.int(5, 30), d.int(4, 25)
    two, four = d.pick(
        ("chickens", "goats"), ("ducks", "cows"), ("turkeys", "sheep"), ("ostriches", "zebras"), ("geese", "pigs")
    )
    p = d.person()
    facts = d.pick(
        f"On {p}'s farm there are only {two} and {four}. {p} counts {x + y} heads and {2 * x + 4 * y} legs.",
        f"A field holds {two} and {four}, {x + y} animals in all. Together they have {2 * x + 4 * y} legs.",
        f"{p} sees {2 * x + 4 * y} legs under a fence. They belong to {x + y} animals, all of them {two} or {four}.",
    )
    text = d.ask(facts, f"How many {four} are there?", f"How many of the animals are {four}?")
    return Problem(text, y, dict(heads=x + y, legs=2 * x + 4 * y))


def average_needed(d: Draw) -> Problem:
    p, count = d.person(), d.int(3, 5)
    scores = [d.int(65, 95) for _ in range(count)]
    goal = d.int(75, 90)
    while not 50 <= goal * (count + 1) - sum(scores) <= 100:
        goal += 1 if goal * (count + 1) - sum(scores) < 50 else -1
    subject = d.pick(
        "math tests", "spelling quizzes", "history exams", "piano exams", "archery rounds", "bowling games"
    )
    listed = ", ".join(str(score) for score in scores[:-1]) + f" and {scores[-1]}"
    facts = d.pick(
        f"{p} scored {listed} points in {p.his} first {say(count)} {subject}. {p.He} wants an "
        f"average of {goal} after the next one.",
        f"So far, {p}'s results in {count} {subject} are {listed}. The goal is a mean of exactly "
        f"{goal} over {count + 1} results.",
    )
    text = d.ask(facts, f"What score does {p.he} need next?", f"How many points must {p} get the next time?")
    return Problem(text, goal * (count + 1) - sum(scores), dict(scores=tuple(scores), goal=goal))


def boxes_needed(d: Draw) -> Problem:
    rows, per_row, broken, box = d.int(6, 20), d.int(7, 18), d.int(2, 9), d.pick(6, 8, 10, 12, 24)
    total = rows * per_row - broken
    p, thing = d.person(), d.pick("jam jars", "ornaments", "tomato plants", "glasses", "candles", "eggs", "tulip bulbs")
    facts = d.pick(
        f"{p} has {rows} shelves with {per_row} {thing} on each. {say(broken).capitalize()} of them "
        "turn out to be damaged and are "
        f"thrown away. The rest have to be packed into boxes that hold {box} each.",
        f"There are {per_row} {thing} in each of {rows} rows. {p} removes {broken} that are not "
        "good enough and packs all the "
        f"others, {box} to a box.",
    )
    text = d.ask(
        facts,
        "How many boxes are needed so that everything is packed?",
        f"How many boxes does {p} need?",
        "What is the smallest number of boxes that is enough?",
    )
    return Problem(text, -(-total // box), dict(rows=rows, per_row=per_row, broken=broken, box=box))


def sharing_with_leftovers(d: Draw) -> Problem:
    p, kids, each, rest = d.person(), d.int(4, 14), d.int(5, 15), d.int(1, 3)
    bags = d.int(2, 6)
    total = kids * each + rest
    kept = d.int(1, 8)
    size, over = divmod(total + kept, bags)
    kept -= over
    if kept < 1:
        kept, size = kept + bags, size + 1
    sweet = d.pick("candies", "stickers", "balloons", "marbles", "walnuts", "crackers", "strawberries")
    facts = d.pick(
        f"{p} opens {bags} bags with {size} {sweet} each and keeps {kept} for {p.him}self. The "
        "others are shared equally among "
        f"{kids} children, who get as many as possible.",
        f"Each of {say(bags)} bags contains {size} {sweet}. {p} takes out {kept} and divides the "
        f"rest evenly between {kids} "
        "children.",
    )
    if d.int(0, 1):
        text = d.ask(facts, f"How many {sweet} does each child get?", "How many does every child receive?")
        return Problem(text, each, dict(bags=bags, size=size, kept=kept, kids=kids, want_rest=0))
    text = d.ask(facts, f"How many {sweet} are left over after sharing?", "How many cannot be shared equally?")
    return Problem(text, rest, dict(bags=bags, size=size, kept=kept, kids=kids, want_rest=1))


def daily_increase(d: Draw) -> Problem:
    p, first, more, days = d.person(), d.int(5, 40), d.int(2, 9), d.int(4, 7)
    verb, past, thing = d.pick(
        ("does", "did", "push-ups"),
        ("writes", "wrote", "lines of code"),
        ("learns", "learned", "new words"),
        ("swims", "swam", "lengths"),
        ("practices", "practiced", "minutes of cello"),
        ("picks", "picked", "pounds of cherries"),
    )
    facts = d.pick(
        f"On {d.pick(*DAYS)}, {p} {past} {first} {thing}. Every day after that {p.he} {past} {more} "
        "more than on the day before.",
        f"{p} {verb} {first} {thing} on the first day of a challenge and raises the number by {more} each day.",
    )
    text = d.ask(
        facts,
        f"How many {thing} is that over the first {say(days)} days together?",
        f"What is the total number of {thing} after {days} days?",
    )
    return Problem(text, sum(first + more * day for day in range(days)), dict(first=first, more=more, days=days))


def doubling_growth(d: Draw) -> Problem:
    start, period, doublings = d.int(3, 12), d.pick(2, 3, 4, 5, 20), d.int(3, 6)
    unit = d.pick("hours", "days") if period < 10 else "minutes"
    what, where = d.pick(
        ("bacteria", "in a dish"),
        ("water lilies", "on a pond"),
        ("yeast cells", "in a drop of dough"),
        ("duckweed plants", "in a tank"),
        ("algae cells", "in a sample"),
    )
    removed = d.int(1, start)
    facts = d.pick(
        f"There are {start} {what} {where}, and their number doubles every {period} {unit}. After "
        f"{period * doublings} {unit}, "
        f"{removed * 2} are taken away.",
        f"Every {period} {unit} the number of {what} {where} doubles. At the beginning there are {start}. After "
        f"{period * doublings} {unit}, somebody removes {removed * 2} of them.",
    )
    text = d.ask(facts, "How many remain?", f"How many {what} are left?", f"What is the number of {what} then?")
    return Problem(
        text,
        start * 2**doublings - 2 * removed,
        dict(start=start, period=period, time=period * doublings, removed=2 * removed),
    )


def wheels_and_seats(d: Draw) -> Problem:
    bikes, trikes, cars = d.int(5, 30), d.int(2, 15), d.int(4, 25)
    place = d.pick("a campsite", "a fairground", "a school yard", "a parking lot", "a beach")
    first, *others = d.some(((bikes, "bicycles"), (trikes, "tricycles"), (cars, "cars")), 3)
    more = " and ".join(f"{number} {name}" for number, name in others)
    facts = d.pick(
        f"At {place} there are {first[0]} {first[1]}, {more}.",
        f"Somebody counts {first[0]} {first[1]} at {place}. There are also {more}.",
        f"{place[0].upper() + place[1:]} is full of vehicles: {first[0]} {first[1]}, {more}.",
    )
    flat = d.int(1, 6)
    text = d.ask(
        f"{facts} {say(flat).capitalize()} of all the tires {'is' if flat == 1 else 'are'} flat.",
        "How many tires are not flat? (Spare tires do not count.)",
        "Not counting spare tires, how many tires are in order?",
    )
    return Problem(
        text, 2 * bikes + 3 * trikes + 4 * cars - flat, dict(bikes=bikes, trikes=trikes, cars=cars, flat=flat)
    )


def swapping_cards(d: Draw) -> Problem:
    a, b = d.people(2)
    x, y, give, get, lost = d.int(20, 60), d.int(15, 50), d.int(3, 10), d.int(2, 9), d.int(1, 6)
    things = d.pick(*COLLECTED)
    facts = d.pick(
        f"{a} has {x} {things} and {b} has {y}. {a} gives {b} {give} {things} and gets {get} of "
        f"{b}'s in return. Then {b} loses "
        f"{lost}.",
        f"At the start, {a} owns {x} {things} and {b} owns {y}. They trade: {give} of {a}'s "
        f"{things} for {get} of {b}'s. On the way "
        f"home, {b} drops {lost} of them into a drain.",
    )
    text = d.ask(
        facts, f"How many {things} does {b} have in the end?", f"How many {things} are left in {b}'s collection?"
    )
    return Problem(text, y + give - get - lost, dict(y=y, give=give, get=get, lost=lost))


def stock_of_a_shop(d: Draw) -> Problem:
    sold, weeks, days, delivery = d.int(4, 15), d.int(2, 5), d.int(5, 7), d.int(20, 90, 5)
    start = sold * days * weeks + d.int(5, 60, 5)
    things = d.pick(
        "bicycle helmets", "bags of cement", "desk fans", "cookbooks", "yoga mats", "garden chairs", "flashlights"
    )
    p, shop = d.person(), d.pick("shop", "store", "warehouse", "market hall")
    facts = d.pick(
        f"{p}'s {shop} has {start} {things} in stock and sells {sold} of them on each of the {days} "
        "days it is open per week. "
        f"After {weeks} weeks, {delivery} new ones are delivered.",
        f"A {shop} starts with {start} {things}. It is open {days} days a week and sells {sold} a "
        f"day. {p} orders {delivery} "
        f"more, which arrive after {say(weeks)} weeks.",
    )
    text = d.ask(
        facts, f"How many {things} are in stock then?", f"How many {things} does the {shop} have after the delivery?"
    )
    return Problem(
        text,
        start - sold * days * weeks + delivery,
        dict(start=start, sold=sold, weeks=weeks, days=days, delivery=delivery),
    )


KINDS = (
    ages_in_future,
    chain_of_comparisons,
    bus_passengers,
    heads_and_legs,
    average_needed,
    boxes_needed,
    sharing_with_leftovers,
    daily_increase,
    doubling_growth,
    wheels_and_seats,
    swapping_cards,
    stock_of_a_shop,
)
