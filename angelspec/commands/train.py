"""``angelspec train``: one drafter from the target's answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    run: Annotated[Path, typer.Argument(help="JSON file with the fields drafter, mixture and training.")],
    answers: Annotated[Path, typer.Option(help="Folder with the target's answers and features.")],
    out: Annotated[
        Path, typer.Option(help="Folder for the drafter, metrics and checkpoints; an interrupted run goes on.")
    ],
    held_out: Annotated[Path | None, typer.Option(help="Folder with greedy answers, for tau during training.")] = None,
    target: Annotated[
        Path | None, typer.Option(help="JSON file of the target (default: SmolLM2-135M-Instruct).")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Train a drafter: mtp, dflash or dfly."""
    from angelspec.training.train import train

    train(run, target, answers, out, held_out, device)
