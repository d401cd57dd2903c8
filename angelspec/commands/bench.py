"""``angelspec bench``: output tokens per second of the arms at several concurrencies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from angelspec.commands.common import Compile, Device, DType, TargetFolder, Threads

if TYPE_CHECKING:
    from angelspec.commands.arms import ArmChoice
    from angelspec.evaluation.throughput import Arm, Result
    from angelspec.targets.model import Target


def command(
    arms: Annotated[
        str, typer.Option(help="Comma-separated: ar, ngram, dfly=FOLDER, dfly-fixed3=FOLDER (drafts 3 tokens).")
    ] = "ar",
    concurrency: Annotated[
        str, typer.Option(help="Comma-separated numbers of requests at the same time.")
    ] = "1,4,16,64",
    json_path: Annotated[Path | None, typer.Option("--json", help="Where to write rows and blocks.")] = None,
    trace: Annotated[Path | None, typer.Option(help="Folder for one parquet trace per arm and cell.")] = None,
    prompts: Annotated[
        list[Path] | None,
        typer.Option(help='JSON lines with a field "prompt"; a file is a domain. Without it, built-in prompts.'),
    ] = None,
    traffic: Annotated[
        str, typer.Option(help='Comma-separated domains to serve, "all" is their mix; without it, each and the mix.')
    ] = "",
    new_tokens: Annotated[int, typer.Option(help="Tokens per answer at most.")] = 128,
    ignore_eos: Annotated[bool, typer.Option(help="Write exactly that many, past the end of the text.")] = False,
    blocks: Annotated[int, typer.Option(help="Repeats, alternating between the arms; 10 to decide a claim.")] = 3,
    waves: Annotated[int, typer.Option(help="Requests that each client sends in a block.")] = 1,
    temperatures: Annotated[str, typer.Option("--temperature", help="Comma-separated; 0 is greedy.")] = "0",
    rates: Annotated[str, typer.Option(help="Comma-separated requests per second: open loops besides.")] = "",
    rule: Annotated[str, typer.Option(help="Acceptance: A (exact match) or B (rejection sampling).")] = "A",
    seed: Annotated[int, typer.Option()] = 0,
    target: TargetFolder = None,
    device: Device = "auto",
    dtype: DType = "auto",
    threads: Threads = None,
    compile: Compile = "auto",
) -> None:
    """Measure speed: prompts included, compilation reported apart, peak memory, and where each step's time goes."""
    from angelspec import hardware, provenance
    from angelspec.commands.arms import parse_arm
    from angelspec.commands.common import encode_prompts, load, read_prompt_file
    from angelspec.evaluation import throughput
    from angelspec.evaluation.bench_prompts import bench_prompts
    from angelspec.io import write_json

    chosen = [parse_arm(part) for part in arms.split(",") if part.strip()]  # before the target is loaded
    setting = throughput.Setting(
        concurrency=tuple(int(x) for x in _numbers("concurrency", concurrency, int)),
        new_tokens=new_tokens,
        blocks=blocks,
        waves=waves,
        temperatures=_numbers("temperature", temperatures, float),
        traffic=tuple(part.strip() for part in traffic.split(",") if part.strip()),
        rates=_numbers("rates", rates, float) if rates else (),
        ignore_eos=ignore_eos,
        seed=seed,
    )
    texts = {path.stem: read_prompt_file(path) for path in prompts} if prompts else {"all": bench_prompts()}
    loaded, policy = load(target, device, dtype, threads, compile)
    ids = {domain: encode_prompts(loaded, some) for domain, some in texts.items()}
    lengths = [len(p) for some in ids.values() for p in some]
    print(f"{len(lengths)} prompts of {min(lengths)} to {max(lengths)} tokens, mean {sum(lengths) / len(lengths):.0f}")
    print(f"compiled in {loaded.compile_seconds:.1f} s (not part of the speeds below)", flush=True)
    machine = hardware.cpu_model() if loaded.device.type == "cpu" else ", ".join(hardware.gpu_names())
    result = throughput.run(
        loaded,
        [_arm(choice, loaded, rule) for choice in chosen],
        ids,
        setting,
        machine,
        say=lambda line: print(line, flush=True),
    )
    about = {
        "setting": setting,
        "policy": policy.as_dict(),
        "target": loaded.identity,
        "rule": rule,
        "compile_seconds": loaded.compile_seconds,
        "prompt_tokens_mean": sum(lengths) / len(lengths),
        "hardware": hardware.describe_hardware(),
        "versions": provenance.versions(),
    }
    if json_path is not None:
        write_json(json_path, {"rows": result.rows, "blocks": result.blocks, "about": about})
        print(f"wrote {len(result.rows)} rows to {json_path}")
    if trace is not None:
        _write_traces(trace, result, loaded, machine)


def _arm(choice: ArmChoice, target: Target, rule: str) -> Arm:
    from angelspec.evaluation.throughput import Arm

    return Arm(
        choice.name,
        lambda: choice.drafter(target, sample=rule == "B"),
        rule=rule,  # type: ignore[arg-type]  # checked by the engine
        drafter=None if choice.source in ("ar", "ngram") else Path(choice.source).name,
    )


def _write_traces(folder: Path, result: Result, target: Target, machine: str) -> None:
    from angelspec.evaluation.trace import write_trace

    for (arm, cell), frame in result.traces.items():
        rate = "" if cell.rate is None else f"-{cell.rate:g}rps"
        name = f"{arm}-{cell.domain}-T{cell.temperature:g}-x{cell.concurrency}{rate}.parquet"
        about = {"arm": arm, **vars(cell), "target": target.identity, "hardware": machine}
        write_trace(folder / name, frame, about)
    print(f"wrote {len(result.traces)} traces to {folder}")


def _numbers(what: str, text: str, kind: type[int] | type[float]) -> tuple[float, ...]:
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{what} {text!r} is not a list of {'whole ' * (kind is int)}numbers such as 1,4,16") from None
