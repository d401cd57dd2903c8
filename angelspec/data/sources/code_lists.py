"""Small functions on numbers, lists and dictionaries: reference code for code prompts.

Plain functions without docstrings, as people write them; what is asked about them stands in code_lists_tasks.
"""

from __future__ import annotations


def count_above(numbers: list[int], limit: int) -> int:
    return sum(1 for number in numbers if number > limit)


def running_maximum(values: list[int]) -> list[int]:
    result = []
    for value in values:
        if result and result[-1] > value:
            result.append(result[-1])
        else:
            result.append(value)
    return result


def second_largest(numbers: list[int]) -> int | None:
    distinct = sorted(set(numbers))
    if len(distinct) < 2:
        return None
    return distinct[-2]


def pair_with_sum(numbers: list[int], target: int) -> tuple[int, int] | None:
    seen = {}
    for index, number in enumerate(numbers):
        if target - number in seen:
            return seen[target - number], index
        seen[number] = index
    return None


def chunk(items: list[int], size: int) -> list[list[int]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def rotate_left(items: list[int], steps: int) -> list[int]:
    if not items:
        return []
    steps = steps % len(items)
    return items[steps:] + items[:steps]


def remove_repeats(items: list[int]) -> list[int]:
    seen = set()
    result = []
    for item in items:
        if item not in seen:
            seen.add(item)
            result.append(item)
    return result


def longest_increasing_run(values: list[int]) -> int:
    best = 0
    length = 0
    for index, value in enumerate(values):
        if index > 0 and value > values[index - 1]:
            length += 1
        else:
            length = 1
        best = max(best, length)
    return best


def digit_sum(number: int) -> int:
    return sum(int(digit) for digit in str(abs(number)))


def is_prime(n: int) -> bool:
    if n < 2:
        return False
    for divisor in range(2, int(n**0.5) + 1):  # noqa: SIM110
        if n % divisor == 0:
            return False
    return True


def prime_factors(n: int) -> list[int]:
    factors = []
    divisor = 2
    while n > 1:
        while n % divisor == 0:
            factors.append(divisor)
            n //= divisor
        divisor += 1
    return factors


def collatz_steps(n: int) -> int:
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def fibonacci_below(limit: int) -> list[int]:
    result = []
    a, b = 0, 1
    while a < limit:
        result.append(a)
        a, b = b, a + b
    return result


def moving_sums(numbers: list[int], window: int) -> list[int]:
    return [sum(numbers[i : i + window]) for i in range(len(numbers) - window + 1)]


def transpose(matrix: list[list[int]]) -> list[list[int]]:
    return [list(column) for column in zip(*matrix)]  # noqa: B905 - shown to readers as people write it


def diagonal_difference(matrix: list[list[int]]) -> int:
    size = len(matrix)
    main = sum(matrix[i][i] for i in range(size))
    other = sum(matrix[i][size - 1 - i] for i in range(size))
    return abs(main - other)


def most_common(items: list[int]) -> int:
    counts = {}
    for item in items:
        counts[item] = counts.get(item, 0) + 1
    return max(sorted(counts), key=lambda item: counts[item])


def merge_sorted(a: list[int], b: list[int]) -> list[int]:
    result = []
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i] <= b[j]:
            result.append(a[i])
            i += 1
        else:
            result.append(b[j])
            j += 1
    return result + a[i:] + b[j:]


def invert_mapping(mapping: dict[str, int]) -> dict[int, list[str]]:
    result = {}
    for key in sorted(mapping):
        result.setdefault(mapping[key], []).append(key)
    return result


def add_counts(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    result = dict(first)
    for key, value in second.items():
        result[key] = result.get(key, 0) + value
    return result


def best_scores(scores: dict[str, int], least: int) -> list[str]:
    return sorted(name for name, score in scores.items() if score >= least)


def balance_after(start: int, changes: list[int]) -> list[int]:
    balances = []
    for change in changes:
        start += change
        balances.append(start)
    return balances


def missing_numbers(numbers: list[int], highest: int) -> list[int]:
    present = set(numbers)
    return [number for number in range(1, highest + 1) if number not in present]


def split_even_odd(numbers: list[int]) -> tuple[list[int], list[int]]:
    even = [number for number in numbers if number % 2 == 0]
    odd = [number for number in numbers if number % 2 != 0]
    return even, odd


def largest_gap(numbers: list[int]) -> int:
    ordered = sorted(numbers)
    return max(ordered[i + 1] - ordered[i] for i in range(len(ordered) - 1))


def flatten(nested: list[list[int]]) -> list[int]:
    return [item for inner in nested for item in inner]


def common_items(a: list[int], b: list[int]) -> list[int]:
    return sorted(set(a) & set(b))


def binary_search(ordered: list[int], wanted: int) -> int:
    low, high = 0, len(ordered) - 1
    while low <= high:
        middle = (low + high) // 2
        if ordered[middle] == wanted:
            return middle
        if ordered[middle] < wanted:
            low = middle + 1
        else:
            high = middle - 1
    return -1


def greatest_common_divisor(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


def to_base(number: int, base: int) -> str:
    digits = ""
    while number > 0:
        digits = str(number % base) + digits
        number //= base
    return digits or "0"
