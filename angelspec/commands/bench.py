"""``angelspec bench``: output tokens per second of the arms at several concurrencies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from angelspec.commands.common import Compile, Device, DType, TargetFolder, Threads


def command(
    arms: Annotated[str, typer.Option(help="Comma-separated: ar, ngram.")] = "ar",
    concurrency: Annotated[
        str, typer.Option(help="Comma-separated numbers of requests at the same time.")
    ] = "1,4,16,64",
    json_path: Annotated[Path | None, typer.Option("--json", help="Where to write the rows.")] = None,
    prompts: Annotated[
        Path | None, typer.Option(help='JSON lines with a field "prompt"; without it, built-in prompts of ~60 tokens.')
    ] = None,
    new_tokens: Annotated[int, typer.Option(help="Tokens per answer, exactly; end-of-text is ignored.")] = 128,
    repeats: Annotated[int, typer.Option(help="Runs per arm and concurrency, alternating between the arms.")] = 3,
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    seed: Annotated[int, typer.Option()] = 0,
    target: TargetFolder = None,
    device: Device = "auto",
    dtype: DType = "auto",
    threads: Threads = None,
    compile: Compile = "auto",
) -> None:
    """Measure speed: prompts included, compilation reported apart, peak memory, and where each step's time goes."""
    from angelspec import hardware, provenance
    from angelspec.commands.arms import make_drafter
    from angelspec.commands.common import encode_prompts, load, read_prompt_file
    from angelspec.evaluation import throughput
    from angelspec.evaluation.bench_prompts import bench_prompts
    from angelspec.io import write_json

    names = [name.strip() for name in arms.split(",") if name.strip()]
    drafters = {name: (lambda name=name: make_drafter(name)) for name in names}
    for make in drafters.values():
        make()  # a wrong name is reported before the target is loaded
    setting = throughput.Setting(
        concurrency=_numbers(concurrency),
        new_tokens=new_tokens,
        repeats=repeats,
        temperature=temperature,
        seed=seed,
        domain=prompts.stem if prompts else "all",
    )
    loaded, policy = load(target, device, dtype, threads, compile)
    texts = read_prompt_file(prompts) if prompts else bench_prompts()
    ids = encode_prompts(loaded, texts)
    lengths = [len(p) for p in ids]
    print(f"{len(ids)} prompts of {min(lengths)} to {max(lengths)} tokens, mean {sum(lengths) / len(ids):.0f}")
    print(f"compiled in {loaded.compile_seconds:.1f} s (not part of the speeds below)", flush=True)
    machine = hardware.cpu_model() if loaded.device.type == "cpu" else ", ".join(hardware.gpu_names())
    rows = throughput.run(loaded, drafters, ids, setting, machine, say=lambda line: print(line, flush=True))
    if json_path is not None:
        about = {
            "policy": policy.as_dict(),
            "target": loaded.identity,
            "compile_seconds": loaded.compile_seconds,
            "prompt_tokens_mean": sum(lengths) / len(ids),
            "hardware": hardware.describe_hardware(),
            "versions": provenance.versions(),
        }
        write_json(json_path, {"rows": rows, "about": about})
        print(f"wrote {len(rows)} rows to {json_path}")


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"concurrency {text!r} is not a list of whole numbers such as 1,4,16,64") from None
