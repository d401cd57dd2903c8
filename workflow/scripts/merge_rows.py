"""Merge the rows that notebooks wrote into ``summary.json``, sorted, each with all its fields.

A number that a figure, table or page shows is a row: claim, arm, drafter, mixture, domain, concurrency, temperature,
metric, value with interval and n, unit, seed, scale, hardware. No number is typed by hand.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # a bare checkout has nothing installed

from angelspec.io import read_json, write_json

KEYS = ("claim", "arm", "drafter", "mixture", "domain", "concurrency", "temperature", "metric")
FIELDS = (*KEYS, "value", "lo", "hi", "n", "unit", "seed", "scale", "hardware")


def merge(paths: Sequence[str]) -> list[dict[str, Any]]:
    """All rows of the files, checked, in the order of their keys.

    Raises:
        ValueError: a row with a missing or unknown field, or two rows with the same key.
    """
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for path in paths:
        for row in read_json(path):
            if set(row) != set(FIELDS):
                odd = ", ".join(sorted(set(row) ^ set(FIELDS)))
                raise ValueError(f"{path}: a row has a missing or unknown field ({odd}); expected {', '.join(FIELDS)}")
            key = tuple(str(row[name]) for name in KEYS)
            if key in rows:
                raise ValueError(f"{path}: two rows for {' '.join(key)}; a number has one source")
            rows[key] = {name: row[name] for name in FIELDS}
    return [rows[key] for key in sorted(rows)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Merge rows into summary.json.")
    parser.add_argument("--out", required=True)
    parser.add_argument("paths", nargs="+")
    options = parser.parse_args(arguments)
    try:
        write_json(options.out, merge(options.paths))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
