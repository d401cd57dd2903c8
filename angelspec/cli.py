"""The ``angelspec`` program. Each command is a module of :mod:`angelspec.commands` and one line here."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import angelspec
from angelspec.commands import bench, data, doctor, generate, train

app = typer.Typer(
    name="angelspec",
    help="Speculative decoding with co-specialised drafters and adaptive verification.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"angelspec {angelspec.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the full traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options that stand before the command. ``debug`` is read by :func:`main`."""


# A command module imports torch and transformers inside its functions, so that --help stays quick.
app.command("doctor")(doctor.command)
app.command("generate")(generate.command)
app.command("bench")(bench.command)
app.command("data")(data.command)
app.command("train")(train.command)


def main() -> None:
    """Entry point: an error that a user can act on is one line and exit code 1, not a traceback."""
    try:
        app()
    except (ValueError, OSError) as error:
        if "--debug" in sys.argv[1:]:
            raise
        print(f"error: {error}\n(angelspec --debug ... shows where)", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
