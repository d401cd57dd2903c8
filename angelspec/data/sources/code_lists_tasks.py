"""Tasks about the functions of code_lists: descriptions in several words, a draw of arguments, other names.

The examples in a prompt are computed by calling the function, so they are true by construction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from angelspec.data.sources import code_lists


@dataclass(frozen=True)
class Spec:
    """One function task: the reference, ways to describe it, a draw of arguments, and other names it may go by."""

    function: Callable[..., Any]
    describe: tuple[str, ...]
    arguments: Callable[[Random], tuple[Any, ...]]
    aliases: tuple[str, ...] = ()


def ints(r: Random, low: int = -9, high: int = 30, least: int = 4, most: int = 7) -> list[int]:
    """A short list of whole numbers."""
    return [r.randint(low, high) for _ in range(r.randint(least, most))]


def _matrix(r: Random, square: bool) -> list[list[int]]:
    rows = r.randint(2, 3)
    columns = rows if square else r.randint(2, 4)
    return [[r.randint(0, 12) for _ in range(columns)] for _ in range(rows)]


def _scores(r: Random) -> dict[str, int]:
    names = r.sample(["ann", "bo", "cy", "dee", "eli", "flo", "gus", "hal"], r.randint(3, 4))
    return {name: r.randint(1, 9) for name in names}


SPECS = (
    Spec(
        code_lists.count_above,
        (
            "Count how many numbers in the list are greater than limit.",
            "Return the number of elements that are strictly larger than the given limit.",
            "You are given a list of integers and a limit. Find out how many of the integers exceed the limit.",
        ),
        lambda r: (ints(r), r.randint(2, 15)),
        ("how_many_exceed", "number_over_limit"),
    ),
    Spec(
        code_lists.running_maximum,
        (
            "For every position, return the largest value seen up to and including that position.",
            "Given a list of integers, build a list whose i-th element is the maximum of the first i+1 values.",
        ),
        lambda r: (ints(r),),
        ("rolling_peak", "max_so_far"),
    ),
    Spec(
        code_lists.second_largest,
        (
            "Return the second largest distinct number of the list, or None if there is none.",
            "Find the biggest value that is smaller than the maximum. If all values are equal, the result is None.",
        ),
        lambda r: (ints(r, 1, 12),),
        ("runner_up", "next_to_biggest"),
    ),
    Spec(
        code_lists.pair_with_sum,
        (
            "Find two different positions whose numbers add up to target and return them in order; "
            "None if there are none.",
            "Return the indices of the first pair of elements with the given sum, or None when no pair exists.",
        ),
        lambda r: (lambda xs: (xs, xs[0] + xs[-1]))(ints(r, 1, 20)),
        ("two_sum", "find_pair"),
    ),
    Spec(
        code_lists.chunk,
        (
            "Split the list into consecutive parts of the given size; the last part may be shorter.",
            "Cut items into pieces of length size, in order. Whatever is left at the end forms a smaller piece.",
        ),
        lambda r: (ints(r, 0, 9, 5, 8), r.randint(2, 4)),
        ("split_into_parts", "batches"),
    ),
    Spec(
        code_lists.rotate_left,
        (
            "Move the first steps elements of the list to its end.",
            "Rotate a list to the left by a number of places. Steps may be larger than the list is long.",
        ),
        lambda r: (ints(r, 0, 9), r.randint(1, 9)),
        ("shift_to_end", "rotate"),
    ),
    Spec(
        code_lists.remove_repeats,
        (
            "Return the elements of the list without repetitions, keeping the order in which they first appear.",
            "Drop every element that has already occurred earlier in the list.",
        ),
        lambda r: (ints(r, 1, 5, 5, 9),),
        ("unique_in_order", "without_duplicates"),
    ),
    Spec(
        code_lists.longest_increasing_run,
        (
            "Return the length of the longest stretch of neighboring values that keep getting larger.",
            "How long is the longest consecutive part of the list in which each value is greater than the one before?",
        ),
        lambda r: (ints(r, 0, 15, 6, 9),),
        ("longest_climb", "longest_rise"),
    ),
    Spec(
        code_lists.digit_sum,
        (
            "Add up the decimal digits of an integer; the sign does not matter.",
            "Return the sum of the digits of number. Negative numbers are treated like positive ones.",
        ),
        lambda r: (r.randint(-9999, 99999),),
        ("sum_of_digits", "add_digits"),
    ),
    Spec(
        code_lists.is_prime,
        (
            "Return True if n is a prime number, and False otherwise.",
            "Check whether an integer has exactly two positive divisors.",
        ),
        lambda r: (r.randint(0, 60),),
        ("check_prime", "prime"),
    ),
    Spec(
        code_lists.prime_factors,
        (
            "Return the prime factors of n in ascending order, repeated as often as they divide n.",
            "Write n, an integer greater than 1, as a product of primes and return these primes from small to large.",
        ),
        lambda r: (r.randint(2, 200),),
        ("factorize", "prime_decomposition"),
    ),
    Spec(
        code_lists.collatz_steps,
        (
            "Count the steps until n becomes 1, where an even n is halved and an odd n becomes 3n + 1.",
            "Apply the Collatz rule to n again and again. Return how many steps it takes to arrive at 1.",
        ),
        lambda r: (r.randint(1, 30),),
        ("steps_to_one", "collatz_length"),
    ),
    Spec(
        code_lists.fibonacci_below,
        (
            "Return all Fibonacci numbers smaller than limit, starting with 0 and 1.",
            "List the Fibonacci sequence 0, 1, 1, 2, ... as long as its members stay below the limit.",
        ),
        lambda r: (r.randint(2, 90),),
        ("fib_until", "small_fibonacci_numbers"),
    ),
    Spec(
        code_lists.moving_sums,
        (
            "Return the sum of every group of window neighboring numbers.",
            "Slide a window of the given length over the list and return the sum at each place.",
        ),
        lambda r: (ints(r, 0, 9, 5, 7), r.randint(2, 3)),
        ("window_sums", "sliding_totals"),
    ),
    Spec(
        code_lists.transpose,
        (
            "Turn the rows of a matrix into columns.",
            "Given a matrix as a list of rows of equal length, return the matrix in which rows and "
            "columns are exchanged.",
        ),
        lambda r: (_matrix(r, False),),
        ("swap_rows_and_columns", "flip_matrix"),
    ),
    Spec(
        code_lists.diagonal_difference,
        (
            "Return the absolute difference between the sums of the two diagonals of a square matrix.",
            "For a square matrix, add up each diagonal and return how far apart the two sums are.",
        ),
        lambda r: (_matrix(r, True),),
        ("compare_diagonals", "diagonal_gap"),
    ),
    Spec(
        code_lists.most_common,
        (
            "Return the element that occurs most often; among equally frequent ones, the smallest.",
            "Find the mode of a list of integers. If there are several, return the smallest of them.",
        ),
        lambda r: (ints(r, 1, 4, 5, 9),),
        ("mode_of", "most_frequent"),
    ),
    Spec(
        code_lists.merge_sorted,
        (
            "Merge two sorted lists into one sorted list without calling a sorting function.",
            "Both lists are in ascending order. Return one list in ascending order with the elements of both.",
        ),
        lambda r: (sorted(ints(r, 0, 20, 2, 4)), sorted(ints(r, 0, 20, 2, 4))),
        ("merge", "combine_ordered"),
    ),
    Spec(
        code_lists.invert_mapping,
        (
            "Return a dictionary that maps each value to the sorted list of keys that had it.",
            "Swap keys and values of a dictionary. Keys that share a value are collected in a sorted list.",
        ),
        lambda r: (_scores(r),),
        ("group_by_value", "reverse_dict"),
    ),
    Spec(
        code_lists.add_counts,
        (
            "Add up two dictionaries of counts, key by key; a missing key counts as 0.",
            "Combine two dictionaries with integer values. Where a key is in both, its values are added.",
        ),
        lambda r: (_scores(r), _scores(r)),
        ("merge_counts", "sum_dicts"),
    ),
    Spec(
        code_lists.best_scores,
        (
            "Return the names whose score is at least the given value, in alphabetical order.",
            "From a dictionary of names and points, list in sorted order everybody who reached the required points.",
        ),
        lambda r: (_scores(r), r.randint(3, 7)),
        ("who_passed", "names_reaching"),
    ),
    Spec(
        code_lists.balance_after,
        (
            "Starting from an amount, return the balance after each of the changes.",
            "You are given the opening balance of an account and a list of deposits (positive) and withdrawals "
            "(negative). Return the balance after every one of them.",
        ),
        lambda r: (r.randint(10, 90), ints(r, -20, 20)),
        ("account_history", "running_balance"),
    ),
    Spec(
        code_lists.missing_numbers,
        (
            "Return the numbers from 1 to highest that are not in the list, in ascending order.",
            "Which of the integers 1, 2, ..., highest are missing from the given list?",
        ),
        lambda r: (r.sample(range(1, 10), r.randint(4, 7)), r.randint(8, 10)),
        ("find_missing", "absent_numbers"),
    ),
    Spec(
        code_lists.split_even_odd,
        (
            "Return two lists: the even numbers and the odd numbers, both in their original order.",
            "Separate a list of integers by parity. The even ones come first in the resulting pair.",
        ),
        lambda r: (ints(r, 0, 30),),
        ("by_parity", "evens_and_odds"),
    ),
    Spec(
        code_lists.largest_gap,
        (
            "Return the largest difference between two numbers that are neighbors once the list is sorted.",
            "Sort the numbers and find the widest gap between one and the next. The list has at least two numbers.",
        ),
        lambda r: (ints(r, 0, 60),),
        ("widest_gap", "max_gap"),
    ),
    Spec(
        code_lists.flatten,
        (
            "Join the inner lists into one list.",
            "Given a list of lists of integers, return a single list with all the integers in order.",
        ),
        lambda r: (_matrix(r, False),),
        ("join_lists", "concat_all"),
    ),
    Spec(
        code_lists.common_items,
        (
            "Return the values that occur in both lists, sorted and without repetitions.",
            "Find the intersection of two lists of integers as a sorted list of distinct values.",
        ),
        lambda r: (ints(r, 1, 9), ints(r, 1, 9)),
        ("intersection", "shared_values"),
    ),
    Spec(
        code_lists.binary_search,
        (
            "Return a position of wanted in an ascending list of distinct numbers, or -1 if it is not there.",
            "Search a sorted list by halving the range again and again. The result is the index, or "
            "-1 when nothing is found.",
        ),
        lambda r: (lambda xs: (xs, r.choice([*xs, 50])))(sorted(r.sample(range(40), 6))),
        ("find_sorted", "locate"),
    ),
    Spec(
        code_lists.greatest_common_divisor,
        (
            "Return the greatest common divisor of two positive integers.",
            "Find the largest integer that divides both a and b, for example with Euclid's algorithm.",
        ),
        lambda r: (6 * r.randint(2, 20), 4 * r.randint(2, 20)),
        ("gcd", "common_divisor"),
    ),
    Spec(
        code_lists.to_base,
        (
            "Write a non-negative integer in the given base (2 to 10) and return the digits as a string.",
            "Convert number to its representation in another base, where the base is at most 10.",
        ),
        lambda r: (r.randint(0, 200), r.randint(2, 9)),
        ("convert_base", "in_base"),
    ),
)
