"""Compare the installed packages with ``requirements.lock``: ``python -m angelspec.environment requirements.lock``.

Needs nothing but ``packaging``, so that it can say what is missing in an environment where almost everything is.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
from dataclasses import dataclass
from pathlib import Path

LOCK_NAME = "requirements.lock"


@dataclass(frozen=True)
class Pin:
    """One line of the lock: ``name==version ; marker``. ``name`` is normalised (PEP 503)."""

    name: str
    version: str
    marker: str | None

    def applies(self, environment: dict[str, str] | None = None) -> bool:
        """Whether this line counts on this machine, or on the one that ``environment`` describes (PEP 508 names)."""
        from packaging.markers import Marker

        return self.marker is None or Marker(self.marker).evaluate(environment)


def normalised(name: str) -> str:
    """The one spelling of a distribution's name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_lock(path: str | Path) -> list[Pin]:
    """The pins of a lock file.

    Raises:
        ValueError: for a line that is not ``name==version``, optionally with a marker.
    """
    pins = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"([A-Za-z0-9._-]+)==([^\s;]+)(?:\s*;\s*(.+))?", line.strip())
        if match is None:
            raise ValueError(
                f"{Path(path).name}, line {number}: {line!r} is not 'name==version' with an optional marker"
            )
        pins.append(Pin(normalised(match[1]), match[2], match[3]))
    return pins


def differences(pins: list[Pin]) -> list[str]:
    """One line for each pin that applies here and is not installed in that version; empty when all is well.

    A local build tag does not count: ``2.13.0+cpu`` satisfies ``==2.13.0``, as for pip.
    """
    lines = []
    for pin in pins:
        if not pin.applies():
            continue
        try:
            installed = importlib.metadata.version(pin.name)
        except importlib.metadata.PackageNotFoundError:
            lines.append(f"{pin.name}: {pin.version} is locked, none is installed")
            continue
        if installed.partition("+")[0] != pin.version:
            lines.append(f"{pin.name}: {pin.version} is locked, {installed} is installed")
    return lines


def main(arguments: list[str]) -> int:
    """Print the differences; 0 when there are none."""
    try:
        found = differences(read_lock(arguments[0] if arguments else LOCK_NAME))
    except ModuleNotFoundError as error:
        found = [f"{error.name}: not installed"]
    print(*found[:10], sep="\n", file=sys.stderr)
    if len(found) > 10:
        print(f"and {len(found) - 10} more", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
