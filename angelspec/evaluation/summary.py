"""summary.json: every number that a figure, a table or a page shows, as one row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from angelspec.evaluation.bootstrap import Interval
from angelspec.io import read_json, write_json

KEYS = ("claim", "arm", "drafter", "mixture", "domain", "concurrency", "temperature", "metric")
FIELDS = (*KEYS, "value", "lo", "hi", "n", "unit", "seed", "scale", "hardware")
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("claim", "arm", "domain", "metric", "unit", "scale", "hardware"), (str,)),
    **dict.fromkeys(("drafter", "mixture"), (str, type(None))),
    **dict.fromkeys(("concurrency", "seed"), (int, type(None))),
    **dict.fromkeys(("temperature", "lo", "hi"), (int, float, type(None))),
    "value": (int, float),
    "n": (int,),
}

Row = dict[str, Any]


def make_row(result: Interval | float, **fields: Any) -> Row:
    """A row from a value or an interval; fields that are not given are None (n is 1 for a plain value).

    Raises ValueError like `check_row`.
    """
    if isinstance(result, Interval):
        lo, hi = (None if math.isnan(x) else x for x in (result.lo, result.hi))
        fields = {"value": result.value, "lo": lo, "hi": hi, "n": result.n} | fields
    else:
        fields = {"value": float(result), "n": 1} | fields
    unknown = sorted(fields.keys() - set(FIELDS))
    if unknown:
        raise ValueError(f"unknown fields {', '.join(unknown)}; a row has {', '.join(FIELDS)}")
    row = {name: fields.get(name) for name in FIELDS}
    check_row(row)
    return row


def check_row(row: Mapping[str, Any], where: str = "row") -> None:
    """Raise ValueError unless the row has exactly the fields, each of its type, finite and with its value inside."""
    if set(row) != set(FIELDS):
        odd = ", ".join(sorted(set(row) ^ set(FIELDS)))
        raise ValueError(f"{where}: missing or unknown fields ({odd}); expected {', '.join(FIELDS)}")
    for name, kinds in _KINDS.items():
        value = row[name]
        if not isinstance(value, kinds) or isinstance(value, bool):
            expected = " or ".join("null" if k is type(None) else k.__name__ for k in kinds)
            raise ValueError(f"{where}: {name} is {value!r}; expected {expected}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{where}: {name} is {value!r}; leave a row out rather than store a number that is none")
    if (row["lo"] is None) != (row["hi"] is None):
        raise ValueError(f"{where}: an interval needs both lo and hi, got {row['lo']!r} and {row['hi']!r}")
    if row["lo"] is not None and row["lo"] > row["hi"]:
        raise ValueError(f"{where}: lo {row['lo']} is above hi {row['hi']}")


def merge(groups: Mapping[str, Iterable[Mapping[str, Any]]]) -> list[Row]:
    """Rows of several origins (name -> rows), checked and in the order of their keys.

    Raises ValueError, naming the origin, for a row that is none and for two rows with the same key.
    """
    rows: dict[tuple[str, ...], Row] = {}
    for origin, group in groups.items():
        for row in group:
            check_row(row, origin)
            key = tuple(str(row[name]) for name in KEYS)
            if key in rows:
                raise ValueError(f"{origin}: two rows for {' '.join(key)}; a number has one source")
            rows[key] = {name: row[name] for name in FIELDS}
    return [rows[key] for key in sorted(rows)]


def write_summary(path: str | Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Check, sort and write rows."""
    write_json(path, merge({Path(path).name: rows}))


def read_summary(path: str | Path) -> list[Row]:
    """The rows of a file, checked."""
    rows = read_json(path)
    if not isinstance(rows, list):
        raise ValueError(f"{path} holds a {type(rows).__name__}; expected a list of rows")
    return merge({str(path): rows})


def select(rows: Iterable[Mapping[str, Any]], **wanted: Any) -> list[Row]:
    """Rows whose fields have these values."""
    return [dict(row) for row in rows if all(row[name] == value for name, value in wanted.items())]
