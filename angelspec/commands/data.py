"""``angelspec data``: the manifest, a mixture, or a record with its supervised tokens in colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from rich.text import Text

    from angelspec.config import Config
    from angelspec.data.records import AnswerRecord

SHADES = ("black on pale_green3", "black on dark_sea_green2")  # two, so that neighbouring tokens can be told apart


def command(
    what: Annotated[Literal["manifest", "mixture", "record"], typer.Argument(help="What to show.")],
    config: Annotated[Path, typer.Option(help="Configuration: target, mixtures, budgets.")] = Path(
        "config/config.yaml"
    ),
    scale: Annotated[str | None, typer.Option(help="Scale; without it, that of the configuration.")] = None,
    results: Annotated[Path | None, typer.Option(help="Folder of the run; without it, results/<scale>.")] = None,
    split: Annotated[Literal["train", "eval"], typer.Option(help="Answers of which split.")] = "train",
    name: Annotated[str | None, typer.Option(help="Mixture to show; without it, all.")] = None,
    number: Annotated[int, typer.Option(help="Record to show, counted from 0.")] = 0,
) -> None:
    """Show where the prompts come from, what a mixture holds, or one record as it is trained on."""
    from rich.console import Console

    from angelspec.config import load_config

    console = Console(highlight=False)
    settings = load_config(config, scale)
    folder = results or Path("results") / settings.scale
    if what == "manifest":
        show_manifest(console, folder / "prompts")
    elif what == "mixture":
        show_mixtures(console, settings, folder / "answers" / split, name)
    else:
        show_record(console, settings, folder / "answers" / split, number)


def show_manifest(console: Any, folder: Path) -> None:
    """Every prompt source with revision, licence, counts and digest."""
    from angelspec.data.manifest import read_manifest, table

    path = folder / "manifest.json"
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; `snakemake --cores all prompts` makes it")
    manifest = read_manifest(path)
    print_table(console, f"Prompts in {folder} (digest {manifest.digest[:12]})", table(manifest))
    for entry in manifest.sources:
        for reason, count in entry.skipped.items():
            console.print(f"{entry.name}: {count} skipped, {reason}")


def show_mixtures(console: Any, settings: Config, folder: Path, name: str | None) -> None:
    """Domain weights and token budgets of the mixtures, and what the answers that exist give to them."""
    from angelspec.data.mixtures import Item, select
    from angelspec.data.records import AnswerStore

    if name is not None and name not in settings.mixtures:
        raise ValueError(f"mixture {name!r} is not in the configuration; there is {', '.join(settings.mixtures)}")
    records = AnswerStore(folder, features=False).records if any(folder.glob("answers-*.parquet")) else []
    items = [Item(f"{record.id}/{record.turn}", record.domain, len(record.response_ids)) for record in records]
    rows = []
    for mixture in [name] if name is not None else settings.mixtures:
        weights = settings.mixtures[mixture]
        _, shares = select(items, weights, settings.budget.mixtures.tokens, settings.seed)
        for share in shares:
            row = {"mixture": mixture, "domain": share.domain, "weight": weights[share.domain], "budget": share.wanted}
            rows.append({**row, "answers": share.items, "tokens": share.tokens} if records else row)
    where = f"answers in {folder}" if records else f"no answers in {folder} yet"
    print_table(console, f"Mixtures at scale {settings.scale} ({where})", rows)


def show_record(console: Any, settings: Config, folder: Path, number: int) -> None:
    """One answer with its prompt; supervised tokens on green, one shade per token, in brackets where there is no
    colour."""
    from angelspec.data.masks import mask_answer
    from angelspec.data.records import AnswerStore

    store = AnswerStore(folder, features=False)
    if not 0 <= number < len(store):
        raise ValueError(
            f"{folder} holds {len(store)} records, numbered 0 to {len(store) - 1}; there is no record {number}"
        )
    record = store.records[number]
    tokenizer = tokenizer_of(settings, store.run_keys[0]["target"])
    masked = mask_answer(record)
    console.print(describe(record), style="bold")
    console.print(coloured(tokenizer, masked.ids, masked.supervised, console.is_terminal), soft_wrap=True)


def describe(record: AnswerRecord) -> str:
    """One line about a record."""
    return (
        f"{record.id} turn {record.turn}  {record.domain}/{record.source}  prompt {len(record.prompt_ids)} tokens, "
        f"answer {len(record.response_ids)} (supervised), ends by {record.finish_reason}, seed {record.seed}"
    )


def coloured(tokenizer: Any, ids: Sequence[int], supervised: Sequence[bool], colour: bool = True) -> Text:
    """Tokens as text: supervised ones on green in alternating shades, the others dim. Without colour: in brackets."""
    from rich.text import Text

    from angelspec.data.templates import token_pieces

    text, place, open_bracket = Text(), 0, False
    for number, (piece, count) in enumerate(token_pieces(tokenizer, ids)):
        on = supervised[place]
        if not colour and on != open_bracket:
            text.append("⟦" if on else "⟧")
            open_bracket = on
        shown = piece.replace("\n", "↵\n") if on and colour else piece
        text.append(shown, style=SHADES[number % 2] if on else "dim")
        place += count
    if open_bracket:
        text.append("⟧")
    return text


def tokenizer_of(settings: Config, identity: Mapping[str, str]) -> Any:
    """The tokenizer of the configured target, which must be the one that answered."""
    import dataclasses

    from transformers import AutoTokenizer

    from angelspec.targets.fetch import fetch_target, target_identity
    from angelspec.targets.spec import TargetSpec

    spec = TargetSpec(**dataclasses.asdict(settings.target))
    folder = fetch_target(spec)
    if target_identity(spec, folder) != dict(identity):
        raise ValueError(
            f"These answers are of {identity.get('name')} {identity.get('revision')}, the configuration names "
            f"{spec.name} {spec.revision}: give the configuration that the answers were made with (--config)."
        )
    return AutoTokenizer.from_pretrained(folder, local_files_only=True)


def print_table(console: Any, title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows of equal keys; numbers to the right, nothing cut off."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in rows[0] if rows else ():
        numeric = all(isinstance(row[column], int | float) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in row.values()))
    console.print(table)
