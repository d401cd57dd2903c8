"""Math kinds about rates: distance, time, work, flow."""

from __future__ import annotations

from fractions import Fraction

from angelspec.data.sources.story import DAYS, FOODS, Draw, Problem, say


def trip_in_parts(d: Draw) -> Problem:
    p = d.person()
    v, t, w, u = d.int(30, 70, 5), d.int(2, 5), d.int(40, 80, 5), d.int(2, 4)
    total = v * t + w * u + d.int(20, 140, 10)
    goal = d.pick(
        "the coast", "a mountain village", "the airport", "a national park", "the capital", "a music festival"
    )
    facts = d.pick(
        f"{p} is driving {total} miles to {goal}. For the first {say(t)} hours {p.he} drives at {v} "
        "miles per hour. After "
        f"a break, {p.he} continues for {say(u)} more hours at {w} miles per hour.",
        f"The road from {p}'s home to {goal} is {total} miles long. {p} travels {t} hours at an "
        f"average of {v} mph, stops "
        f"for lunch, and travels another {u} hours at {w} mph.",
        f"On the way to {goal}, {total} miles from home, {p} covers {v} miles every hour for {t} hours. Then traffic "
        f"changes, and for the next {u} hours {p.he} covers {w} miles an hour.",
    )
    text = d.ask(
        facts,
        f"How many miles does {p.he} still have to go?",
        "How far is it from there to the destination?",
        f"What distance is left for {p}?",
    )
    return Problem(text, total - v * t - w * u, dict(total=total, v=v, t=t, w=w, u=u))


def catching_up(d: Draw) -> Problem:
    a, b = d.people(2)
    slow, gap = d.int(4, 14), d.int(2, 8)
    hours = d.int(1, 4)
    head = gap * hours
    fast = slow + gap
    unit = d.pick("miles", "kilometers")
    facts = d.pick(
        f"{a} rides a bicycle at {slow} {unit} per hour and is already {head} {unit} ahead of {b}. "
        f"{b} follows on the same "
        f"road at {fast} {unit} per hour.",
        f"Two cyclists follow the same trail. {a}, who goes {slow} {unit} an hour, has a head start "
        f"of {head} {unit}. {b} "
        f"goes {fast} {unit} an hour.",
        f"{b} notices that {a} is {head} {unit} down the road and sets off to catch up. {b}'s speed "
        f"is {fast} {unit} per "
        f"hour, while {a} keeps going at {slow} {unit} per hour.",
    )
    if d.int(0, 1):
        text = d.ask(facts, f"How many hours does {b} need to reach {a}?", f"After how many hours do {a} and {b} meet?")
        return Problem(text, hours, dict(slow=slow, fast=fast, head=head, want_distance=0))
    text = d.ask(
        facts,
        f"How many {unit} has {b} ridden when {b.he} catches up with {a}?",
        f"What distance does {b} cover before reaching {a}, in {unit}?",
    )
    return Problem(text, fast * hours, dict(slow=slow, fast=fast, head=head, want_distance=1))


def trains_meeting(d: Draw) -> Problem:
    v, w, hours = d.int(40, 90, 5), d.int(45, 95, 5), d.int(2, 5)
    x, y = d.some(("Ashford", "Brookdale", "Carlton", "Dunmore", "Easton", "Fairview", "Glenwood", "Harwick"), 2)
    what = d.pick("train", "bus", "truck")
    start = d.int(6, 11)
    facts = d.pick(
        f"A {what} leaves {x} for {y} at {v} kilometers per hour. At the same moment another {what} "
        f"leaves {y} for {x} at "
        f"{w} kilometers per hour. The two towns are {(v + w) * hours} kilometers apart.",
        f"{x} and {y} are {(v + w) * hours} kilometers apart. At {start} a.m., one {what} starts in "
        "each town and heads for "
        f"the other. The first one averages {v} km/h and the second one {w} km/h.",
    )
    text = d.ask(
        facts,
        f"How far from {x} do they meet, in kilometers?",
        f"How many kilometers has the {what} from {x} gone when they meet?",
    )
    return Problem(text, v * hours, dict(v=v, w=w, apart=(v + w) * hours))


def leaking_tank(d: Draw) -> Problem:
    flow, leak, minutes = d.int(8, 24), d.int(2, 6), d.int(10, 45, 5)
    start = d.int(20, 120, 10)
    size = start + (flow - leak) * minutes
    tank = d.pick("water tank", "pool", "fish pond", "rain barrel", "fountain", "bathtub", "trough")
    facts = d.pick(
        f"A {tank} that can hold {size} liters already contains {start} liters. A hose adds {flow} "
        "liters every minute, "
        f"but {leak} liters a minute leak out through a crack.",
        f"Water runs into a {tank} at {flow} liters per minute. Because of a small hole, {leak} "
        "liters per minute are lost. "
        f"At the beginning there are {start} liters in it, and it is full at {size} liters.",
        f"The capacity of a {tank} is {size} liters. It is filled at a rate of {flow} liters a "
        f"minute while it loses {leak} "
        f"liters a minute, and {start} liters were in it before the tap was opened.",
    )
    text = d.ask(
        facts,
        f"How many minutes does it take until the {tank} is full?",
        "After how many minutes is it full?",
        "How long does filling it take, in minutes?",
    )
    return Problem(text, minutes, dict(flow=flow, leak=leak, start=start, size=size))


def working_together(d: Draw) -> Problem:
    a, b = d.people(2)
    x, y, hours = d.int(6, 18), d.int(5, 16), d.int(2, 6)
    alone = d.int(1, 3)
    total = x * alone + (x + y) * hours
    verb, things = d.pick(
        ("fold", "paper cranes"),
        ("paint", "fence boards"),
        ("pack", "gift boxes"),
        ("fill", "baskets"),
        ("assemble", "toy robots"),
        ("sew", "pillow cases"),
        ("address", "envelopes"),
        ("plant", "trees"),
    )
    facts = d.pick(
        f"{a} can {verb} {x} {things} an hour and {b} can {verb} {y} {things} an hour. They have to "
        f"{verb} {total} {things}. "
        f"{a} works alone for the first {say(alone)} hour{'s' * (alone > 1)}, and then {b} joins "
        "until the job is done.",
        f"There are {total} {things} to {verb}. {a} starts and manages {x} per hour. After {alone} "
        f"hour{'s' * (alone > 1)}, "
        f"{b} begins to help at a pace of {y} per hour, and {a} keeps going at the same speed.",
    )
    text = d.ask(
        facts,
        "How many hours do they work together?",
        f"For how many hours does {b} have to help?",
        "How many hours after the helper arrives is the job finished?",
    )
    return Problem(text, hours, dict(x=x, y=y, alone=alone, total=total))


def reading_plan(d: Draw) -> Problem:
    p = d.person()
    first, left = d.int(15, 45), d.int(3, 8)
    rate = d.int(12, 40)
    pages = first + 2 * first + rate * left
    facts = d.pick(
        f"{p} has to finish a book of {pages} pages. On {d.pick(*DAYS)} {p.he} read {first} pages, "
        f"and the day after {p.he} read twice as "
        f"many. {say(left).capitalize()} days are left, and {p.he} wants to read the same number of "
        "pages on each of them.",
        f"A novel has {pages} pages. {p} read {first} pages on the first day and double that on the "
        "second day. The book must "
        f"go back to the library in {left} days.",
        f"For a book club, {p} is reading a story of {pages} pages. {p.He} managed {first} pages "
        f"yesterday and {2 * first} "
        f"pages today. The club meets in {left} days.",
    )
    text = d.ask(
        facts,
        f"How many pages a day does {p.he} have to read from now on?",
        f"How many pages must {p} read on each remaining day?",
    )
    return Problem(text, rate, dict(pages=pages, first=first, left=left))


def machine_output(d: Draw) -> Problem:
    rate, hours = d.int(20, 90, 5), d.int(5, 10)
    pause, bad = d.pick(15, 20, 30, 45), d.int(2, 9)
    rate = rate // 4 * 12  # divisible by 12, so that every pause costs a whole number
    made = Fraction(rate * (60 * hours - pause), 60)
    thing = d.pick("bottles", "light bulbs", "tiles", "screws", "pencils", "cans", "batteries", "brushes", *FOODS[:3])
    facts = d.pick(
        f"A machine makes {rate} {thing} an hour. During a shift of {hours} hours it has to be "
        f"stopped for {pause} minutes. Out "
        f"of everything it made, {bad} {thing} were faulty.",
        f"In a factory, {rate} {thing} leave the line every hour. The line runs for {hours} hours, "
        "apart from a break of "
        f"{pause} minutes for cleaning. At the end, {bad} of the {thing} do not pass inspection.",
    )
    text = d.ask(
        facts,
        f"How many good {thing} were produced?",
        f"How many {thing} can be sold?",
        f"What is the number of {thing} without a fault?",
    )
    return Problem(text, made - bad, dict(rate=rate, hours=hours, pause=pause, bad=bad))


def fuel_cost(d: Draw) -> Problem:
    p = d.person()
    mpg, gallons = d.int(20, 40, 5), d.int(4, 12)
    price, tolls = d.int(3, 5), d.int(4, 30)
    way = mpg * gallons
    facts = d.pick(
        f"{p}'s car goes {mpg} miles on one gallon of gas, which costs ${price}. {p.He} visits "
        f"{p.his} parents, who live {way} "
        f"miles away, and drives back. Tolls come to ${tolls} for the whole trip.",
        f"A round trip takes {p} to a town {way} miles away and home again. The van uses one gallon "
        f"every {mpg} miles, gas is "
        f"${price} a gallon, and {p} pays ${tolls} in tolls altogether.",
        f"Gas costs ${price} per gallon, and {p}'s truck gets {mpg} miles per gallon. One way to "
        f"the lake is {way} miles. On top "
        f"of the gas for going there and returning, {p.he} pays ${tolls} for parking.",
    )
    text = d.ask(
        facts,
        "How much does the whole trip cost, in dollars?",
        f"How many dollars does {p} spend on the trip?",
        "What are the total costs?",
    )
    return Problem(text, 2 * gallons * price + tolls, dict(mpg=mpg, price=price, way=way, tolls=tolls))


def round_trip_speed(d: Draw) -> Problem:
    p, v, w = d.person(), *d.pick((30, 60), (40, 60), (20, 30), (60, 90), (12, 24), (10, 15), (45, 90), (48, 72))
    hours = d.int(1, 3)
    way = v * w // (w - v) * hours if v * w % (w - v) == 0 else v * w * hours
    facts = d.pick(
        f"{p} travels {way} kilometers to a city at {v} kilometers per hour and returns by the same "
        f"road at {w} kilometers per "
        "hour.",
        f"Going to work, {p} averages {v} km/h because of traffic; going home {p.he} averages {w} "
        f"km/h. The way is {way} km long.",
        f"A delivery van drives {way} km at {v} km/h, unloads, and drives the same way back at {w} "
        f"km/h. The driver is {p}.",
    )
    text = d.ask(
        facts,
        "What is the average speed for the round trip, without the stop, in kilometers per hour?",
        "What is the average speed over the whole distance there and back, in kilometers per hour?",
    )
    return Problem(text, Fraction(2 * v * w, v + w), dict(v=v, w=w, way=way))


def finishing_time(d: Draw) -> Problem:
    p, start, minute = d.person(), d.int(1, 6), d.int(0, 55, 5)
    tasks, each, breaks, rest = d.int(4, 9), d.int(12, 28), d.int(2, 4), d.int(5, 15, 5)
    what, verb = d.pick(
        ("shirts", "iron"),
        ("essays", "grade"),
        ("portraits", "sketch"),
        ("bicycles", "check"),
        ("cakes", "decorate"),
        ("windows", "clean"),
        ("patients", "see"),
        ("chapters", "review"),
    )
    total = tasks * each + breaks * rest
    facts = d.pick(
        f"{p} has {tasks} {what} to {verb}, and each takes {each} minutes. {p.He} starts at "
        f"{start}:{minute:02d} p.m. and takes "
        f"{say(breaks)} breaks of {rest} minutes in between.",
        f"At {start}:{minute:02d} p.m., {p} begins to {verb} {tasks} {what}. One of them takes "
        f"{each} minutes. In between, "
        f"{p.he} rests {breaks} times, {rest} minutes each time.",
    )
    text = d.ask(
        facts,
        f"How many minutes after noon is {p.he} done?",
        "Counted in minutes after 12:00 noon, when is the work finished?",
    )
    return Problem(
        text,
        60 * start + minute + total,
        dict(start=start, minute=minute, tasks=tasks, each=each, breaks=breaks, rest=rest),
    )


def laps_and_distance(d: Draw) -> Problem:
    p, lap = d.person(), d.int(200, 800, 50)
    laps, days, extra = d.int(3, 9), d.int(3, 6), d.int(1, 4)
    place = d.pick("around a lake", "in the stadium", "around the block", "through the park", "on the school track")
    goal = d.pick("a charity run", "a marathon", "the summer games", "a school race")
    move = d.pick("runs", "walks", "jogs")
    facts = d.pick(
        f"To get ready for {goal}, {p} {move} {laps} laps {place} on each of {days} days a week. "
        f"One lap is {lap} meters. On "
        f"Sundays {p.he} adds {extra} more lap{'s' * (extra > 1)}.",
        f"One lap {place} measures {lap} meters. {p} {move} {say(laps)} laps a day, {say(days)} "
        f"days a week, and {say(extra)} "
        f"extra lap{'s' * (extra > 1)} every Sunday.",
    )
    text = d.ask(
        facts,
        "How many meters is that in one week?",
        f"How many meters does {p} cover per week?",
        "What is the weekly distance in meters?",
    )
    return Problem(text, lap * (laps * days + extra), dict(lap=lap, laps=laps, days=days, extra=extra))


def slow_download(d: Draw) -> Problem:
    p, fast, slow = d.person(), d.int(8, 30, 2), d.int(2, 7)
    t, u = d.int(10, 40, 5), d.int(12, 60, 4)
    size = fast * t + slow * u
    what = d.pick("game", "film", "map collection", "photo archive", "music library", "backup")
    facts = d.pick(
        f"{p} downloads a {what} of {size} megabytes. For the first {t} minutes the connection "
        f"delivers {fast} megabytes a "
        f"minute. Then it drops to {slow} megabytes a minute until the download is finished.",
        f"A {what} has a size of {size} MB. {p}'s connection manages {fast} MB per minute for {t} "
        "minutes; after that it slows "
        f"down to {slow} MB per minute.",
    )
    text = d.ask(
        facts,
        "How many minutes does the whole download take?",
        "How long does it take in total, in minutes?",
        f"After how many minutes does {p} have the complete {what}?",
    )
    return Problem(text, t + u, dict(fast=fast, slow=slow, t=t, size=size))


KINDS = (
    trip_in_parts,
    catching_up,
    trains_meeting,
    leaking_tank,
    working_together,
    reading_plan,
    machine_output,
    fuel_cost,
    round_trip_speed,
    finishing_time,
    laps_and_distance,
    slow_download,
)
