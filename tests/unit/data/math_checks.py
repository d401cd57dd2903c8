"""A second solution of every math kind from its facts alone, by another road than the generator's: counting,
simulating, searching. Each takes the facts as keyword arguments and returns the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, count, product
from typing import Any

F = Fraction


def percent_of(amount: Any, percent: int) -> Fraction:
    return F(percent) / 100 * amount


def saving(price: int, saved: int, earns: int, spends: int) -> int:
    week = 0
    while saved < price:
        saved, week = saved + earns - spends, week + 1
    return week


def bill(bill: int, tip: int, voucher: int, heads: int) -> Fraction:
    return (bill + percent_of(bill, tip) - voucher) / heads


def pursuit(slow: int, fast: int, head: int, want_distance: int) -> int:
    hours = next(h for h in count() if fast * h >= slow * h + head)
    assert fast * hours == slow * hours + head
    return fast * hours if want_distance else hours


def trains(v: int, w: int, apart: int) -> Fraction:
    hours = next(h for h in count() if h * v >= apart - h * w)
    assert hours * (v + w) == apart
    return F(v * hours)


def tank(flow: int, leak: int, start: int, size: int) -> int:
    minutes = 0
    while start < size:
        start, minutes = start + flow - leak, minutes + 1
    assert start == size
    return minutes


def together(x: int, y: int, alone: int, total: int) -> int:
    done, hours = x * alone, 0
    while done < total:
        done, hours = done + x + y, hours + 1
    assert done == total
    return hours


def machine(rate: int, hours: int, pause: int, bad: int) -> Fraction:
    return sum(F(rate, 60) for _ in range(60 * hours - pause)) - bad


def fuel(mpg: int, price: int, way: int, tolls: int) -> Fraction:
    return F(way, mpg) * price + F(way, mpg) * price + tolls


def download(fast: int, slow: int, t: int, size: int) -> int:
    done, minute = 0, 0
    while done < size:
        done, minute = done + (fast if minute < t else slow), minute + 1
    assert done == size
    return minute


def clock(start: int, minute: int, tasks: int, each: int, breaks: int, rest: int) -> int:
    now = 60 * start + minute
    for length in [each] * tasks + [rest] * breaks:
        now += length
    return now


def given_away(total: int, a: int, b: int, c: int, e: int, bought: int) -> Fraction:
    left = F(total) - F(a, b) * total
    left -= F(c, e) * left
    assert left.denominator == 1
    return left + bought


def ratio(a: int, b: int, total: int) -> int:
    p, q = next((p, total - p) for p in range(total + 1) if p * b == (total - p) * a)
    return q - p


def original(a: int, b: int, second: int, left: int) -> int:
    return next(cash for cash in range(1, 1000) if cash - F(a, b) * cash - second == left)


def children(n: int, a: int, b: int, c: int, e: int, extra: int) -> Fraction:
    girls = F(a * n, b)
    assert girls.denominator == 1 and extra <= n - girls, "more boys are counted than there are"
    return F(c, e) * girls + extra


def sale_price(pay: int, off: int, want_saving: int) -> int:
    price = next(price for price in range(1, 2000) if price - percent_of(price, off) == pay)
    return price - pay if want_saving else price


def inheritance(x: int, y: int, z: int, total: int, gift: int) -> int:
    unit = next(u for u in range(total) if (x + y + z) * u == total)
    return z * unit - gift


def bus(start: int, off1: int, on1: int, on2: int, price: int) -> int:
    aboard = start - off1 + on1
    assert aboard % 2 == 0
    aboard -= aboard // 2
    return price * start + price * on1 + price * on2 if price else aboard + on2


def legs(heads: int, legs: int) -> int:
    return next(four for four in range(heads + 1) if 4 * four + 2 * (heads - four) == legs)


def score(scores: tuple[int, ...], goal: int) -> int:
    return next(s for s in range(101) if F(sum(scores) + s, len(scores) + 1) == goal)


def boxes(rows: int, per_row: int, broken: int, box: int) -> int:
    left, used = sum(per_row for _ in range(rows)) - broken, 0
    while left > 0:
        left, used = left - box, used + 1
    return used


def sharing(bags: int, size: int, kept: int, kids: int, want_rest: int) -> int:
    left, each = bags * size - kept, 0
    while left >= kids:
        left, each = left - kids, each + 1
    assert each > 0 and left > 0, "sharing must work, with something left over"
    return left if want_rest else each


def increase(first: int, more: int, days: int) -> int:
    total = 0
    for _ in range(days):
        total, first = total + first, first + more
    return total


def doubling(start: int, period: int, time: int, removed: int) -> int:
    for _ in range(0, time, period):
        start += start
    return start - removed


def stock(start: int, sold: int, weeks: int, days: int, delivery: int) -> int:
    for _ in range(weeks):
        for _ in range(days):
            start -= sold
            assert start >= 0, "the shop sells what it does not have"
    return start + delivery


def fence(long: int, wide: int, gate: int, price: int) -> int:
    border = {(x, y, "h") for x in range(long) for y in (0, wide)} | {
        (x, y, "v") for x in (0, long) for y in range(wide)
    }
    return (len(border) - gate) * price


def tiles(side: int, long: int, wide: int, cut_long: int, cut_wide: int, spare: int) -> Fraction:
    return F(long * wide - cut_long * cut_wide, side * side) + spare


def cubes(edge: int, a: int, b: int, c: int, inside: int) -> Fraction:
    return F(a * b * c, edge**3) - inside


def equation(a: int, b: int, c: int, e: int) -> int:
    solutions = [x for x in range(-50, 51) if a * x + b == c * x + e]
    assert len(solutions) == 1
    return solutions[0]


def consecutive(count: int, step: int, total: int, place: int) -> int:
    rows = ([first + step * i for i in range(count)] for first in range(total + 1))
    return next(row for row in rows if sum(row) == total)[place]


def marble(red: int, blue: int, green: int) -> Fraction:
    bag = ["red"] * red + ["blue"] * blue + ["green"] * green
    return F(sum(color != "green" for color in bag), len(bag))


def sequence(first: int, step: int, n: int) -> int:
    for _ in range(n - 1):
        first += step
    return first


def price_change(price: int, up: int, down: int) -> Fraction:
    higher = price + percent_of(price, up)
    return higher - percent_of(higher, down)


CHECKS: dict[str, Callable[..., Any]] = {
    "change_after_shopping": lambda paid, n, x, m, y: paid - sum([x] * n + [y] * m),
    "saving_for_a_goal": saving,
    "bake_sale_profit": lambda n, m, x, y, left, cost: sum([x] * n) + sum([y] * m) - left * y - cost,
    "discount_then_tax": lambda price, off, tax: (price - percent_of(price, off)) * (1 + F(tax, 100)),
    "shared_bill_with_tip": bill,
    "overtime_pay": lambda rate, normal, extra, weekend: rate * (normal + F(3, 2) * extra + 2 * weekend),
    "ticket_sales": lambda adult, adults, child, children, rent: sum([adult] * adults + [child] * children) - rent,
    "cheaper_shop": lambda n, price, pack, deal: sum([price] * n) - sum(deal for _ in range(0, n, pack)),
    "farm_eggs": lambda hens, eggs, eaten, given, cents: (
        F(cents, 100) * (sum([eggs] * hens) - sum([eaten] * 7) - given)
    ),
    "membership_choice": lambda months, joining, monthly, visit, visits: (
        sum(visit for _ in range(months) for _ in range(visits)) - sum([monthly] * months, joining)
    ),
    "coins_in_a_jar": lambda quarters, dimes, nickels, pennies: (
        sum([25] * quarters + [10] * dimes + [5] * nickels) + pennies
    ),
    "repaired_and_sold": lambda bought, repair, rise: bought + percent_of(bought, rise) - bought - repair,
    "trip_in_parts": lambda total, v, t, w, u: total - sum([v] * t + [w] * u),
    "catching_up": pursuit,
    "trains_meeting": trains,
    "leaking_tank": tank,
    "working_together": together,
    "reading_plan": lambda pages, first, left: next(r for r in range(1, 100) if first + 2 * first + r * left == pages),
    "machine_output": machine,
    "fuel_cost": fuel,
    "round_trip_speed": lambda v, w, way: 2 * F(way) / (F(way, v) + F(way, w)),
    "finishing_time": clock,
    "laps_and_distance": lambda lap, laps, days, extra: sum([lap * laps] * days) + sum([lap] * extra),
    "slow_download": download,
    "fraction_given_away": given_away,
    "ratio_of_two": ratio,
    "growing_club": lambda start, percent, left, more: start + percent_of(start, percent) - left + more,
    "original_amount": original,
    "scaled_recipe": lambda amount, batch, wanted, have: F(amount, batch) * wanted - have,
    "juice_mixture": lambda a, x, b, y: percent_of(a, x) + percent_of(b, y),
    "survey_shares": lambda people, x, y: people - percent_of(people, x) - percent_of(people, y),
    "class_fractions": children,
    "pizza_left": lambda pizzas, slices, kids, each, adults, eat: (
        sum([slices] * pizzas) - sum([each] * kids + [eat] * adults)
    ),
    "price_changes": price_change,
    "price_before_sale": sale_price,
    "inheritance_ratio": inheritance,
    "ages_in_future": lambda age, factor, gap, years: sum(a + years for a in (age, factor * age, age + gap)),
    "chain_of_comparisons": lambda n, factor, less: sum([n, *[n] * factor, n, -less]),
    "bus_passengers": bus,
    "heads_and_legs": legs,
    "average_needed": score,
    "boxes_needed": boxes,
    "sharing_with_leftovers": sharing,
    "daily_increase": increase,
    "doubling_growth": doubling,
    "wheels_and_seats": lambda bikes, trikes, cars, flat: sum([2] * bikes + [3] * trikes + [4] * cars) - flat,
    "swapping_cards": lambda y, give, get, lost: sum([y, give, -get, -lost]),
    "stock_of_a_shop": stock,
    "fence_around_garden": fence,
    "tiles_for_a_room": tiles,
    "filling_a_box": cubes,
    "linear_equation": equation,
    "equal_groups": lambda a, b: max(k for k in range(1, a + 1) if a % k == 0 and b % k == 0),
    "meeting_again": lambda a, b, c: next(t for t in count(1) if t % a == t % b == t % c == 0),
    "day_after_many": lambda size, many, back: (
        len([0] * (many + back * (size + 1))) - size * ((many + back * (size + 1)) // size)
    ),
    "consecutive_sum": consecutive,
    "triangle_angle": lambda a, more: next(c for c in range(1, 180) if a + (a + more) + c == 180),
    "drawing_a_marble": marble,
    "choosing_outfits": lambda a, b, c, bad: len(list(product(range(a), range(b), range(c)))) - bad,
    "games_in_a_league": lambda n, rounds, off: rounds * len(list(combinations(range(n), 2))) - off,
    "missing_number": lambda numbers, mean: next(
        x for x in range(-500, 501) if F(sum(numbers) + x, len(numbers) + 1) == mean
    ),
    "counting_divisors": lambda n: len({(a, b) for a in range(1, n + 1) for b in [n // a] if a * b == n}),
    "arithmetic_sequence": sequence,
    "nested_functions": lambda a, b, c, x: sum([a] * (x**2 + c)) + b,
}
