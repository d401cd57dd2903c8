"""Math kinds about money: shopping, saving, selling, wages. Amounts are whole dollars unless a kind says cents."""

from __future__ import annotations

from fractions import Fraction

from angelspec.data.sources.story import BIG_GOODS, FOODS, GOODS, Draw, Problem, dollars, say


def change_after_shopping(d: Draw) -> Problem:
    (a, many_a, lo_a, hi_a), (b, many_b, lo_b, hi_b) = d.some(GOODS, 2)
    p, n, m = d.person(), d.int(2, 7), d.int(2, 5)
    x, y = d.int(lo_a, hi_a), d.int(lo_b, hi_b)
    paid = (n * x + m * y) // 20 * 20 + d.pick(20, 40)
    shop = d.pick("the corner shop", "a street market", "the mall", "a gift shop", "the supermarket", "a flea market")
    facts = d.pick(
        f"{p} went to {shop} with ${paid}. {p.He} bought {n} {many_a} at ${x} each and {m} {many_b} at ${y} each.",
        f"At {shop}, a {a} costs ${x} and a {b} costs ${y}. {p} picks up {say(n)} {many_a} and {say(m)} {many_b} and "
        f"hands the cashier ${paid}.",
        f"{p} has ${paid} to spend at {shop}. {p.He} takes {n} {many_a}, priced at ${x} apiece, and then adds {m} "
        f"{many_b} for ${y} each.",
        f"With ${paid} in {p.his} wallet, {p} buys {m} {many_b} that cost ${y} each. {p.He} also buys {n} {many_a} "
        f"for ${x} each.",
    )
    text = d.ask(
        facts,
        f"How much money does {p.he} have left?",
        f"How much change should {p} get back?",
        f"How many dollars remain after {p} pays?",
        f"What is left of {p.his} money?",
    )
    return Problem(text, paid - n * x - m * y, dict(paid=paid, n=n, x=x, m=m, y=y))


def saving_for_a_goal(d: Draw) -> Problem:
    (thing, low, high), p = d.pick(*BIG_GOODS), d.person()
    price, saved = d.int(low, high), d.int(10, 55)
    earns = d.int(20, 45)
    spends = d.int(3, 14)
    weeks = -(-(price - saved) // (earns - spends))
    job = d.pick(
        "walking dogs",
        "mowing lawns",
        "babysitting",
        "delivering newspapers",
        "washing cars",
        "helping in a bakery",
        "tutoring",
        "raking leaves",
    )
    goal = d.pick(
        f"{p} wants to buy a {thing} that costs ${price}.",
        f"A {thing} costs ${price}, and {p} wants one.",
        f"{p} is saving up for a {thing}. The price is ${price}.",
    )
    rest = d.mix(
        d.pick(
            f"{p.He} already has ${saved}.", f"So far {p.he} has put aside ${saved}.", f"{p.He} starts with ${saved}."
        ),
        d.pick(
            f"Every week {p.he} earns ${earns} by {job}, but {p.he} spends ${spends} of it.",
            f"From {job}, {p.he} makes ${earns} a week and spends ${spends} a week on snacks.",
        ),
    )
    text = d.ask(
        f"{goal} {rest}",
        f"After how many weeks can {p} afford the {thing}?",
        f"How many full weeks does {p} need to work before {p.he} can pay for it?",
        f"What is the smallest number of weeks {p.he} must save?",
    )
    return Problem(text, weeks, dict(price=price, saved=saved, earns=earns, spends=spends))


def bake_sale_profit(d: Draw) -> Problem:
    first, second = d.some(FOODS, 2)
    n, m, x, y = d.int(18, 60), d.int(15, 48), d.int(2, 5), d.int(2, 6)
    cost, left = d.int(12, 40), d.int(2, 9)
    group = d.pick("The school choir", "A scout troop", "The drama club", "The swim team", "A group of neighbors")
    facts = d.pick(
        f"{group} baked {n} {first} and {m} {second} for a sale. Ingredients cost ${cost} in total. The {first} were "
        f"sold for ${x} each and the {second} for ${y} each, but {left} {second} were not sold.",
        f"{group} held a bake sale. They sold every one of their {n} {first} at ${x} apiece. They also brought {m} "
        f"{second} at ${y} apiece and sold all but {say(left)} of them. They had spent ${cost} on "
        "flour, butter and sugar.",
        f"For a fundraiser, {group[0].lower() + group[1:]} spends ${cost} on ingredients and makes {n} {first} and {m} "
        f"{second}. All the {first} sell at ${x} each. {say(left).capitalize()} of the {second} are left over, and the "
        f"others sell at ${y} each.",
    )
    text = d.ask(
        facts,
        "How much profit did they make?",
        "How many dollars did they earn after paying for the ingredients?",
        "What was their profit in dollars?",
    )
    return Problem(text, n * x + (m - left) * y - cost, dict(n=n, x=x, m=m, y=y, left=left, cost=cost))


def discount_then_tax(d: Draw) -> Problem:
    (thing, low, high), p = d.pick(*BIG_GOODS), d.person()
    price, off, tax = d.int(low // 20 * 20 + 20, high, 20), d.pick(10, 15, 20, 25, 30, 40, 50), d.pick(5, 10)
    answer = Fraction(price * (100 - off) * (100 + tax), 10000)
    facts = d.pick(
        f"A {thing} normally costs ${price}. This week it is on sale for {off}% off. A sales tax of {tax}% is added to "
        "the reduced price.",
        f"{p} finds a {thing} with a price tag of ${price}. The shop takes {off}% off at the "
        f"register, and then {tax}% tax "
        "is charged on what remains.",
        f"During a sale, every item is reduced by {off}%. {p} buys a {thing} whose original price "
        f"was ${price}, and pays "
        f"{tax}% tax on the sale price.",
    )
    text = d.ask(
        facts,
        f"How much does {p} pay in total, in dollars?",
        f"What is the final price of the {thing}?",
        f"How many dollars does {p} need to buy the {thing}?",
    )
    return Problem(text, answer, dict(price=price, off=off, tax=tax))


def shared_bill_with_tip(d: Draw) -> Problem:
    p, friends, tip = d.person(), d.int(2, 6), d.pick(10, 15, 20, 25)
    each = d.int(12, 33)
    heads = friends + 1
    bill = 100 * d.int(max(1, heads * each // 100), heads * each // 100 + 2)
    with_tip = bill * (100 + tip) // 100
    voucher = d.int(4, 20)
    voucher += (with_tip - voucher) % heads  # what is left can be shared in whole dollars
    facts = d.pick(
        f"{p} and {say(friends)} friends eat at a restaurant. The bill comes to ${bill}, and they "
        f"add a tip of {tip}% of "
        f"the bill. {p} uses a voucher that takes ${voucher} off the total, and they split the rest evenly.",
        f"A dinner for {heads} people costs ${bill} before the tip. The group leaves a {tip}% tip, "
        "subtracts a gift card "
        f"worth ${voucher}, and shares what is left equally.",
        f"The restaurant bill of {p} and {p.his} {friends} friends is ${bill}. They want to give "
        f"{tip}% as a tip. A coupon "
        f"reduces the total (tip included) by ${voucher}. Everyone pays the same amount.",
    )
    text = d.ask(
        facts, "How much does each person pay?", "How many dollars does each person owe?", "What is each share?"
    )
    return Problem(text, (with_tip - voucher) // heads, dict(bill=bill, tip=tip, voucher=voucher, heads=heads))


def overtime_pay(d: Draw) -> Problem:
    p, rate, normal = d.person(), d.int(12, 34, 2), d.pick(35, 38, 40)
    extra, weekend = d.int(2, 9), d.int(2, 6)
    place = d.pick("a warehouse", "a hospital", "a hotel", "a garage", "a call center", "a bakery", "a theater")
    facts = d.pick(
        f"{p} works at {place} and earns ${rate} an hour for the first {normal} hours of a week. "
        "Every hour beyond that "
        f"is paid at one and a half times the normal rate, and Sunday hours are paid double. Last week {p.he} worked "
        f"{normal} normal hours, {extra} overtime hours and {weekend} hours on Sunday.",
        f"At {place}, the normal wage is ${rate} per hour. Overtime pays 1.5 times as much and "
        "Sundays pay twice as much. "
        f"{p} worked {normal} hours at the normal wage, {say(extra)} hours of overtime and "
        f"{say(weekend)} hours on Sunday.",
    )
    text = d.ask(
        facts,
        f"How much did {p} earn that week?",
        f"What was {p.his} pay for the week, in dollars?",
        f"How many dollars did {p.he} make altogether?",
    )
    answer = rate * normal + rate // 2 * 3 * extra + 2 * rate * weekend
    return Problem(text, answer, dict(rate=rate, normal=normal, extra=extra, weekend=weekend))


def ticket_sales(d: Draw) -> Problem:
    event = d.pick(
        "a puppet show",
        "a school play",
        "an open-air concert",
        "a magic show",
        "a museum night",
        "a circus",
        "a football match",
        "a science fair",
    )
    adult, child = d.int(9, 24), d.int(3, 8)
    adults, children = d.int(30, 140), d.int(25, 160)
    rent = d.int(100, 400, 50)
    facts = d.mix(
        d.pick(
            f"Tickets for {event} cost ${adult} for adults and ${child} for children.",
            f"An adult pays ${adult} for {event}, and a child pays ${child}.",
        ),
        d.pick(f"Renting the place costs the organizers ${rent}.", f"The organizers pay ${rent} for the hall."),
        d.pick(
            f"In the end, {adults} adults and {children} children came.",
            f"There were {adults + children} visitors, of whom {children} were children.",
            f"{adults} adult tickets were sold, and {children} child tickets.",
        ),
    )
    text = d.ask(
        facts,
        "How much money was left after paying the rent?",
        "What profit did the organizers make?",
        "How many dollars did the organizers keep once the rent was paid?",
    )
    return Problem(
        text,
        adult * adults + child * children - rent,
        dict(adult=adult, adults=adults, child=child, children=children, rent=rent),
    )


def cheaper_shop(d: Draw) -> Problem:
    (_, many, low, high), p = d.pick(*GOODS), d.person()
    pack, price = d.int(3, 6), d.int(low + 1, high + 2)
    deal = pack * price - d.int(1, pack)
    packs = d.int(2, 6)
    n = pack * packs
    facts = d.pick(
        f"{p} needs {n} {many}. One shop sells them for ${price} each. Another shop sells packs of {pack} for ${deal}.",
        f"Shop A charges ${price} for each of its {many}. Shop B offers them only in packs of "
        f"{say(pack)}, at ${deal} a "
        f"pack. {p} has to buy {n} of them.",
        f"The {many} that {p} likes cost ${price} apiece, or ${deal} for a set of {pack}. {p.He} wants {n} in all.",
    )
    text = d.ask(
        facts,
        f"How much does {p} save by buying them in packs instead of one by one?",
        "How many dollars cheaper is the bundle offer for this purchase?",
        "What is the difference in cost between the two ways of buying?",
    )
    return Problem(text, n * price - packs * deal, dict(n=n, price=price, pack=pack, deal=deal))


def farm_eggs(d: Draw) -> Problem:
    p, hens, eggs = d.person(), d.int(12, 24), d.int(4, 6)
    eaten, given = d.int(2, 4), d.int(3, 10)
    cents = d.pick(25, 50, 75, 100)
    weekly = hens * eggs - 7 * eaten - given
    bird = d.pick("hens", "ducks", "chickens")
    facts = d.pick(
        f"{p} keeps {hens} {bird}, and each of them lays {eggs} eggs a week. The family eats {eaten} eggs a day, and "
        f"every week {p.he} gives {given} eggs to a neighbor. {p.He} sells the rest for {dollars(cents)} each.",
        f"Each of {p}'s {hens} {bird} lays {say(eggs)} eggs per week. {p.He} cooks {say(eaten)} eggs every morning for "
        f"breakfast and bakes {given} into cakes for the weekend. What remains goes to the market "
        f"at {dollars(cents)} an egg.",
    )
    text = d.ask(
        facts,
        f"How much does {p.he} earn from the eggs in a week, in dollars?",
        f"How many dollars does {p} make every week?",
        f"What are {p.his} weekly earnings, in dollars?",
    )
    return Problem(
        text, Fraction(weekly * cents, 100), dict(hens=hens, eggs=eggs, eaten=eaten, given=given, cents=cents)
    )


def membership_choice(d: Draw) -> Problem:
    p, months = d.person(), d.int(6, 18)
    joining, monthly, visit = d.int(15, 60, 5), d.int(18, 45), d.int(5, 12)
    visits = -(-(joining + monthly * months) // (visit * months)) + d.int(1, 4)
    club = d.pick("gym", "climbing hall", "swimming pool", "yoga studio", "dance school", "tennis club")
    facts = d.pick(
        f"A {club} charges ${visit} per visit. Members pay a joining fee of ${joining} and "
        f"${monthly} a month instead, and "
        f"can come as often as they like. {p} plans to go {visits} times a month for {months} months.",
        f"{p} wants to use a {club} for {months} months, {visits} times each month. Single visits cost ${visit}. A "
        f"membership costs ${joining} once, plus ${monthly} every month.",
    )
    text = d.ask(
        facts,
        f"How much does {p} save by becoming a member?",
        "By how many dollars is the membership cheaper than paying for each visit?",
        f"How much less does {p} pay in total with the membership?",
    )
    return Problem(
        text,
        visits * visit * months - joining - monthly * months,
        dict(months=months, joining=joining, monthly=monthly, visit=visit, visits=visits),
    )


def coins_in_a_jar(d: Draw) -> Problem:
    p = d.person()
    quarters, dimes, nickels, pennies = d.int(8, 40), d.int(8, 40), d.int(6, 40), d.int(5, 60, 5)
    facts = d.pick(
        f"{p} empties {p.his} piggy bank and counts {quarters} quarters, {dimes} dimes, {nickels} "
        f"nickels and {pennies} "
        "pennies.",
        f"A jar holds {pennies} pennies, {nickels} nickels, {dimes} dimes and {quarters} quarters. It belongs to {p}.",
        f"While cleaning, {p} finds {dimes} dimes, {quarters} quarters, {pennies} pennies and "
        f"{nickels} nickels in old coats.",
    )
    text = d.ask(
        facts,
        "How many cents is that in total?",
        f"How much money does {p} have, in cents?",
        "What are the coins worth together, in cents?",
    )
    return Problem(
        text,
        25 * quarters + 10 * dimes + 5 * nickels + pennies,
        dict(quarters=quarters, dimes=dimes, nickels=nickels, pennies=pennies),
    )


def repaired_and_sold(d: Draw) -> Problem:
    p = d.person()
    thing = d.pick("motorbike", "rowing boat", "piano", "caravan", "tractor", "cottage", "vintage car", "food truck")
    bought, repair, rise = d.int(2000, 9000, 100), d.int(300, 1900, 100), d.pick(20, 30, 40, 50, 60, 80, 110, 120, 150)
    facts = d.pick(
        f"{p} buys an old {thing} for ${bought:,} and spends ${repair:,} on repairs. The repairs "
        f"raise its value to {rise}% "
        "more than what was paid for it, and it is sold at that value.",
        f"After paying ${bought:,} for a run-down {thing}, {p} puts ${repair:,} into fixing it. That increases the "
        f"purchase price by {rise}%, and {p.he} finds a buyer at the new price.",
        f"An old {thing} costs {p} ${bought:,}. New parts cost ${repair:,}. Later {p.he} sells it "
        f"for {rise}% more than the "
        "purchase price.",
    )
    text = d.ask(
        facts,
        f"How much profit does {p.he} make?",
        f"What is {p}'s profit in dollars?",
        f"How many dollars does {p} gain or lose in the end? (Give a loss as a negative number.)",
    )
    return Problem(text, bought * rise // 100 - repair, dict(bought=bought, repair=repair, rise=rise))


KINDS = (
    change_after_shopping,
    saving_for_a_goal,
    bake_sale_profit,
    discount_then_tax,
    shared_bill_with_tip,
    overtime_pay,
    ticket_sales,
    cheaper_shop,
    farm_eggs,
    membership_choice,
    coins_in_a_jar,
    repaired_and_sold,
)
