"""Small functions on strings and records: reference code for code prompts (tasks in code_text_tasks)."""

from __future__ import annotations


def is_palindrome(text: str) -> bool:
    letters = [char.lower() for char in text if char.isalnum()]
    return letters == letters[::-1]


def count_vowels(text: str) -> int:
    return sum(char in "aeiou" for char in text.lower())


def reverse_words(text: str) -> str:
    return " ".join(reversed(text.split()))


def capitalize_words(text: str) -> str:
    return " ".join(word[0].upper() + word[1:] for word in text.split())


def word_lengths(text: str) -> dict[str, int]:
    return {word: len(word) for word in text.split()}


def longest_word(text: str) -> str:
    best = ""
    for word in text.split():
        if len(word) > len(best):
            best = word
    return best


def caesar(text: str, shift: int) -> str:
    result = ""
    for char in text:
        if char.islower():
            result += chr((ord(char) - ord("a") + shift) % 26 + ord("a"))
        else:
            result += char
    return result


def run_lengths(text: str) -> list[tuple[str, int]]:
    runs = []
    for char in text:
        if runs and runs[-1][0] == char:
            runs[-1] = (char, runs[-1][1] + 1)
        else:
            runs.append((char, 1))
    return runs


def expand_runs(runs: list[tuple[str, int]]) -> str:
    return "".join(char * count for char, count in runs)


def are_anagrams(a: str, b: str) -> bool:
    return sorted(a.lower()) == sorted(b.lower())


def brackets_match(text: str) -> bool:
    partner = {")": "(", "]": "[", "}": "{"}
    stack = []
    for char in text:
        if char in "([{":
            stack.append(char)
        elif char in partner:  # noqa: SIM102
            if not stack or stack.pop() != partner[char]:
                return False
    return not stack


def common_prefix(words: list[str]) -> str:
    prefix = words[0]
    for word in words[1:]:
        while not word.startswith(prefix):
            prefix = prefix[:-1]
    return prefix


def to_snake_case(name: str) -> str:
    result = ""
    for index, char in enumerate(name):
        if char.isupper() and index > 0:
            result += "_"
        result += char.lower()
    return result


def parse_pairs(text: str) -> dict[str, int]:
    result = {}
    for part in text.split(","):
        key, value = part.split("=")
        result[key.strip()] = int(value)
    return result


def minutes_between(start: str, end: str) -> int:
    hours, minutes = (int(part) for part in start.split(":"))
    end_hours, end_minutes = (int(part) for part in end.split(":"))
    return 60 * (end_hours - hours) + end_minutes - minutes


def format_duration(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"


def first_unique_character(text: str) -> str | None:
    for char in text:
        if text.count(char) == 1:
            return char
    return None


def remove_characters(text: str, unwanted: str) -> str:
    return "".join(char for char in text if char not in unwanted)


def count_words(text: str) -> dict[str, int]:
    counts = {}
    for word in text.lower().split():
        counts[word] = counts.get(word, 0) + 1
    return counts


def initials(name: str) -> str:
    return "".join(part[0].upper() + "." for part in name.split())


def truncate(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    return text[: width - 3] + "..."


def swap_case_of_vowels(text: str) -> str:
    return "".join(char.upper() if char in "aeiou" else char for char in text)


def is_valid_password(password: str) -> bool:
    if len(password) < 8:
        return False
    has_digit = any(char.isdigit() for char in password)
    has_upper = any(char.isupper() for char in password)
    return has_digit and has_upper


def leap_years(first: int, last: int) -> list[int]:
    return [year for year in range(first, last + 1) if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)]


def roman_numeral(number: int) -> str:
    result = ""
    for value, letters in (
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ):
        while number >= value:
            result += letters
            number -= value
    return result


def group_by_first_letter(words: list[str]) -> dict[str, list[str]]:
    groups = {}
    for word in words:
        groups.setdefault(word[0], []).append(word)
    return groups


def total_price(cart: list[dict[str, int]], discount: int) -> float:
    total = sum(item["price"] * item["quantity"] for item in cart)
    return total * (100 - discount) / 100


def oldest_person(people: list[dict[str, object]]) -> str:
    oldest = people[0]
    for person in people[1:]:
        if person["age"] > oldest["age"]:
            oldest = person
    return oldest["name"]


def edit_steps(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, start=1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
    return row[-1]


def pad_table(rows: list[tuple[str, int]]) -> list[str]:
    width = max(len(name) for name, _ in rows)
    return [f"{name.ljust(width)} {value}" for name, value in rows]
