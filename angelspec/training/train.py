"""Train one drafter from the command line; also under torchrun.

    python -m angelspec.training.train --run run.json --target target.json --answers results/laptop/answers --out
    results/laptop/dfly

run.json holds the fields of angelspec.training.run.RunConfig, target.json those of angelspec.targets.spec.TargetSpec.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from angelspec.io import read_json, to_plain


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the arguments and train; 1 for an error that a user can act on."""
    options = _parse(arguments)
    try:
        train(options.run, options.target, options.answers, options.out, options.held_out, options.device)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def train(
    run: Path, target: Path | None, answers: Path, out: Path, held_out: Path | None = None, device: str = "auto"
) -> None:
    """Load everything that the files name, train, and print what came out. The default target is
    SmolLM2-135M-Instruct.
    """
    from angelspec.device import choose_policy
    from angelspec.targets.load import load_target
    from angelspec.targets.spec import SMOLLM2, TargetSpec
    from angelspec.training.distributed import join_world
    from angelspec.training.run import RunConfig, train_drafter

    config = RunConfig.from_dict(read_json(run))
    spec = SMOLLM2 if target is None else TargetSpec(**read_json(target))
    # Training multiplies by the target's weights in float32 on CPUs: packed or rounded ones are for serving.
    policy = choose_policy(device, "auto" if device == "cuda" else "float32", compile="off").apply()
    world = join_world(policy.device)
    summary = train_drafter(
        load_target(spec, policy, backend="torch"), config, answers, out, held_out=held_out, world=world, show=True
    )
    if world.leads:
        for name, value in to_plain(summary).items():
            print(f"{name:<14} {value}")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m angelspec.training.train", description="Train one drafter.")
    parser.add_argument("--run", type=Path, required=True, help="JSON: drafter, mixture, training")
    parser.add_argument("--target", type=Path, help="JSON: the target (default: SmolLM2-135M-Instruct)")
    parser.add_argument("--answers", type=Path, required=True, help="folder with the target's answers and features")
    parser.add_argument("--held-out", type=Path, help="folder with greedy answers for tau during training")
    parser.add_argument("--out", type=Path, required=True, help="folder for the drafter, metrics and checkpoints")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or mps")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
