"""Merge the rows that notebooks wrote into ``summary.json``, sorted, each with all its fields.

A number that a figure, table or page shows is a row: claim, arm, drafter, mixture, domain, concurrency, temperature,
metric, value with interval and n, unit, seed, scale, hardware. No number is typed by hand.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # a bare checkout has nothing installed

from angelspec.evaluation.summary import merge
from angelspec.io import read_json, write_json


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Merge rows into summary.json.")
    parser.add_argument("--out", required=True)
    parser.add_argument("paths", nargs="+")
    options = parser.parse_args(arguments)
    try:
        write_json(options.out, merge({path: read_json(path) for path in options.paths}))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
