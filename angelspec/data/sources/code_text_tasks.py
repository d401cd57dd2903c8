"""Tasks about the functions of code_text (see code_lists_tasks for the form)."""

from __future__ import annotations

from random import Random

from angelspec.data.sources import code_text
from angelspec.data.sources.code_lists_tasks import Spec

WORDS = (
    "river stone light cloud garden bread window paper tiger music winter orange planet silver travel pepper market "
    "level radar noon civic banana letter summer engine anchor yellow butter kitten rocket"
).split()


def sentence(r: Random, least: int = 3, most: int = 6) -> str:
    """A few words."""
    return " ".join(r.choice(WORDS) for _ in range(r.randint(least, most)))


def _clock(r: Random) -> tuple[str, str]:
    start = r.randint(6, 12)
    return f"{start:02d}:{r.randint(0, 59):02d}", f"{start + r.randint(1, 8):02d}:{r.randint(0, 59):02d}"


def _runs(r: Random) -> list[tuple[str, int]]:
    return [(char, r.randint(1, 4)) for char in r.sample("abcdxyz", r.randint(2, 4))]


def _brackets(r: Random) -> str:
    return r.choice(["()", "(a[b])", "([)]", "{[()]}", "((x)", "f(a)[0]", "][", "{a: (b)}", "(]", ""])


def _people(r: Random) -> list[dict[str, object]]:
    return [{"name": name, "age": r.randint(18, 80)} for name in r.sample(["Ida", "Tom", "Mei", "Raj", "Eva"], 3)]


SPECS = (
    Spec(
        code_text.is_palindrome,
        (
            "Check whether a text reads the same backwards. Only letters and digits count; case is ignored.",
            "Return True if the text is a palindrome, where spaces, punctuation and upper case are ignored.",
        ),
        lambda r: (r.choice(["Level", "never odd or even", "no lemon, no melon", sentence(r, 1, 2), "Radar", "abc"]),),
        ("reads_both_ways", "palindrome"),
    ),
    Spec(
        code_text.count_vowels,
        (
            "Count the vowels (a, e, i, o, u) in a text, in lower or upper case.",
            "How many letters of the text are vowels? Y does not count as one.",
        ),
        lambda r: (sentence(r).title(),),
        ("number_of_vowels", "vowels"),
    ),
    Spec(
        code_text.reverse_words,
        (
            "Return the words of the text in reverse order, separated by single spaces.",
            "Turn around the order of the words in a sentence without changing the words themselves.",
        ),
        lambda r: (sentence(r),),
        ("words_backwards", "flip_sentence"),
    ),
    Spec(
        code_text.capitalize_words,
        (
            "Make the first letter of every word a capital letter and leave the other letters as they are.",
            "Return the text with each word starting in upper case.",
        ),
        lambda r: (sentence(r),),
        ("title_words", "start_with_capitals"),
    ),
    Spec(
        code_text.word_lengths,
        (
            "Return a dictionary that maps every word of the text to its length.",
            "For each word of a text separated by spaces, tell how many characters it has.",
        ),
        lambda r: (sentence(r),),
        ("lengths_of_words", "measure_words"),
    ),
    Spec(
        code_text.longest_word,
        (
            "Return the longest word of the text; if several are equally long, the first of them.",
            "Find the word with the most characters. Ties go to the word that comes first.",
        ),
        lambda r: (sentence(r),),
        ("find_longest", "biggest_word"),
    ),
    Spec(
        code_text.caesar,
        (
            "Shift every lower-case letter by the given number of places in the alphabet, wrapping around after z.",
            "Encode a text with the Caesar cipher. Characters other than a to z stay unchanged.",
        ),
        lambda r: (sentence(r, 1, 2), r.randint(1, 25)),
        ("shift_letters", "encode"),
    ),
    Spec(
        code_text.run_lengths,
        (
            "Describe a text as a list of (character, count) pairs, one for each run of equal characters.",
            "Compress a string by run-length encoding and return the runs in order.",
        ),
        lambda r: ("".join(char * count for char, count in _runs(r)),),
        ("compress", "encode_runs"),
    ),
    Spec(
        code_text.expand_runs,
        (
            "Build the text that a list of (character, count) pairs stands for.",
            "Undo run-length encoding: repeat every character as often as its count says and join the results.",
        ),
        lambda r: (_runs(r),),
        ("decode_runs", "decompress"),
    ),
    Spec(
        code_text.are_anagrams,
        (
            "Check whether two words consist of exactly the same letters. Upper and lower case are equal.",
            "Return True when the letters of one string can be rearranged to give the other, ignoring case.",
        ),
        lambda r: r.choice(
            [("Listen", "silent"), ("stone", "notes"), ("cloud", "loud"), ("Earth", "heart"), ("paper", "pepper")]
        ),
        ("same_letters", "is_anagram"),
    ),
    Spec(
        code_text.brackets_match,
        (
            "Check whether the round, square and curly brackets of a text are closed in the right order.",
            "Return True if every opening bracket has its own closing bracket of the same type, properly nested.",
        ),
        lambda r: (_brackets(r),),
        ("balanced", "is_balanced"),
    ),
    Spec(
        code_text.common_prefix,
        (
            "Return the longest string with which all the words begin. It may be empty.",
            "Find the longest common beginning of a non-empty list of words.",
        ),
        lambda r: (
            r.choice(
                [
                    ["flower", "flow", "flight"],
                    ["train", "trail", "trap"],
                    ["cat", "dog"],
                    ["winter", "window"],
                    ["inter", "internet", "interval"],
                ]
            ),
        ),
        ("shared_start", "longest_prefix"),
    ),
    Spec(
        code_text.to_snake_case,
        (
            "Convert a name such as readFileNow to snake case, such as read_file_now.",
            "Rewrite a camel-case identifier with lower-case letters and underscores.",
        ),
        lambda r: ("".join([r.choice(WORDS), *(r.choice(WORDS).title() for _ in range(r.randint(1, 2)))]),),
        ("camel_to_snake", "snake"),
    ),
    Spec(
        code_text.parse_pairs,
        (
            "Parse a text like 'a=1, b=2' into a dictionary with integer values.",
            "The text consists of name=number parts separated by commas. Return them as a dictionary.",
        ),
        lambda r: (", ".join(f"{name}={r.randint(0, 99)}" for name in r.sample(WORDS, r.randint(2, 3))),),
        ("read_settings", "parse_options"),
    ),
    Spec(
        code_text.minutes_between,
        (
            "Return the number of minutes from start to end, two times of the same day written as HH:MM.",
            "Two clock times are given as strings in 24-hour form. How many minutes lie between them?",
        ),
        _clock,
        ("elapsed_minutes", "time_difference"),
    ),
    Spec(
        code_text.format_duration,
        (
            "Write a number of seconds as hours, minutes and seconds in the form H:MM:SS.",
            "Turn a duration in seconds into text. Minutes and seconds always have two digits.",
        ),
        lambda r: (r.randint(5, 20000),),
        ("show_time", "seconds_to_text"),
    ),
    Spec(
        code_text.first_unique_character,
        (
            "Return the first character that occurs exactly once in the text, or None.",
            "Find the earliest character of a string that is not repeated anywhere in it.",
        ),
        lambda r: (r.choice(["level", "banana", "noon", "teeter", r.choice(WORDS)]),),
        ("first_single", "unrepeated"),
    ),
    Spec(
        code_text.remove_characters,
        (
            "Return the text without any of the unwanted characters.",
            "Delete from text every character that occurs in the second string.",
        ),
        lambda r: (sentence(r, 2, 3), "".join(r.sample("aeioutrn", 3))),
        ("strip_out", "delete_letters"),
    ),
    Spec(
        code_text.count_words,
        (
            "Count how often each word occurs in a text, ignoring case.",
            "Return a dictionary with the frequency of every lower-case word of the text.",
        ),
        lambda r: (" ".join(r.choice(["red", "Blue", "green", "blue"]) for _ in range(5)),),
        ("word_frequency", "tally_words"),
    ),
    Spec(
        code_text.initials,
        (
            "Return the initials of a name, each followed by a period.",
            "Take the first letter of every part of the name, in upper case, with a dot behind each.",
        ),
        lambda r: (
            r.choice(["ada lovelace", "grace brewster hopper", "alan turing", "katherine johnson", "john von neumann"]),
        ),
        ("abbreviate", "name_initials"),
    ),
    Spec(
        code_text.truncate,
        (
            "Shorten a text to the given width, ending in three dots if something was cut off.",
            "If the text is longer than width, cut it so that, with '...' at the end, it is exactly "
            "width characters long.",
        ),
        lambda r: (sentence(r), r.randint(8, 24)),
        ("shorten", "ellipsis"),
    ),
    Spec(
        code_text.swap_case_of_vowels,
        (
            "Make every lower-case vowel of the text a capital letter.",
            "Return the text with a, e, i, o and u in upper case. Other characters stay the same.",
        ),
        lambda r: (sentence(r, 1, 3),),
        ("loud_vowels", "raise_vowels"),
    ),
    Spec(
        code_text.is_valid_password,
        (
            "A password is valid if it has at least eight characters, a digit and an upper-case letter. Check one.",
            "Return True when the password contains a digit and a capital letter and is not shorter than 8 characters.",
        ),
        lambda r: (r.choice(["Sunshine7", "short1A", "alllowercase9", "NoDigitsHere", "Blue4Whale", "12345678"]),),
        ("check_password", "password_ok"),
    ),
    Spec(
        code_text.leap_years,
        (
            "Return the leap years from first to last, both included.",
            "Which years between two given years have 366 days? Years divisible by 100 count only if divisible by 400.",
        ),
        lambda r: (lambda y: (y, y + r.randint(6, 14)))(r.choice([1896, 1995, 2001, 2019, 2096])),
        ("years_with_366_days",),
    ),
    Spec(
        code_text.roman_numeral,
        (
            "Write a number from 1 to 399 as a Roman numeral.",
            "Convert a positive integer below 400 to Roman notation, for example 14 to XIV.",
        ),
        lambda r: (r.randint(1, 399),),
        ("to_roman", "roman"),
    ),
    Spec(
        code_text.group_by_first_letter,
        (
            "Return a dictionary from first letters to the words that begin with them, in their original order.",
            "Sort words into groups by their first character without changing the order inside a group.",
        ),
        lambda r: (r.sample(WORDS, 5),),
        ("index_words", "by_first_letter"),
    ),
    Spec(
        code_text.total_price,
        (
            "Add up price times quantity over all items of a cart and subtract a discount given in percent.",
            "Every item of the cart is a dictionary with 'price' and 'quantity'. Return what has to "
            "be paid after the discount.",
        ),
        lambda r: (
            [{"price": r.randint(1, 20), "quantity": r.randint(1, 5)} for _ in range(2)],
            r.choice([0, 10, 20, 50]),
        ),
        ("cart_total", "amount_due"),
    ),
    Spec(
        code_text.oldest_person,
        (
            "Return the name of the oldest person; the first one if several have the same age.",
            "Each person is a dictionary with 'name' and 'age'. Find the name that belongs to the highest age.",
        ),
        lambda r: (_people(r),),
        ("name_of_oldest", "eldest"),
    ),
    Spec(
        code_text.edit_steps,
        (
            "Return the smallest number of single-character insertions, deletions and replacements that turn a into b.",
            "Compute the Levenshtein distance of two strings.",
        ),
        lambda r: r.choice(
            [("kitten", "sitting"), ("book", "back"), ("paper", "tape"), ("stone", "phone"), ("", "abc")]
        ),
        ("edit_distance", "levenshtein"),
    ),
    Spec(
        code_text.pad_table,
        (
            "Format rows of a name and a number as lines in which the numbers start in the same column.",
            "Pad every name with spaces to the length of the longest one, then add a space and the number.",
        ),
        lambda r: ([(name, r.randint(1, 500)) for name in r.sample(WORDS, 3)],),
        ("align_columns", "table_lines"),
    ),
)
