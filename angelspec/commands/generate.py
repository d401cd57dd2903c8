"""``angelspec generate``: answer prompts, one of them streamed with its accepted draft tokens in colour."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from angelspec.commands.common import Compile, Device, DType, TargetFolder, Threads

if TYPE_CHECKING:
    from angelspec.decoding.request import Answer, Chunk

GREEN, PLAIN = "\033[32m", "\033[0m"


def command(
    prompts: Annotated[list[str] | None, typer.Argument(help="One or more user messages.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help='JSON lines with a field "prompt", besides the arguments.')
    ] = None,
    json_path: Annotated[Path | None, typer.Option("--json", help="Also write the answers as JSON lines.")] = None,
    drafter: Annotated[str, typer.Option(help="ar, ngram, or the folder of a trained drafter.")] = "ar",
    rule: Annotated[str, typer.Option(help="Acceptance: A (exact match) or B (rejection sampling).")] = "A",
    max_new: Annotated[int, typer.Option(help="Tokens per answer at most.")] = 256,
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    top_k: Annotated[int, typer.Option(help="0 is off.")] = 0,
    top_p: Annotated[float, typer.Option(help="1 is off.")] = 1.0,
    min_p: Annotated[float, typer.Option(help="0 is off.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of the first prompt; the others count up from it.")] = 0,
    stop: Annotated[list[str] | None, typer.Option(help="A text that ends the answer; may be given again.")] = None,
    raw: Annotated[bool, typer.Option(help="Take the prompts as they are, without the chat template.")] = False,
    concurrency: Annotated[int, typer.Option(help="Prompts answered at the same time.")] = 16,
    target: TargetFolder = None,
    device: Device = "auto",
    dtype: DType = "auto",
    threads: Threads = None,
    compile: Compile = "auto",
) -> None:
    """Answer prompts with the target. Accepted draft tokens are green on a terminal; the speed follows at the end."""
    from angelspec.commands.arms import parse_arm
    from angelspec.commands.common import encode_prompts, load, read_prompt_file
    from angelspec.decoding.categorical import SamplingParams
    from angelspec.decoding.engine import Engine
    from angelspec.decoding.request import Request
    from angelspec.io import atomic_write_text

    texts = [*(prompts or []), *(read_prompt_file(file) if file else [])]
    if not texts:
        raise ValueError(
            'no prompt given: pass one as an argument, angelspec generate "Why is the sky blue?", or --file'
        )
    choice = parse_arm(drafter)  # a wrong name is reported before the target is loaded
    params = [SamplingParams(temperature, top_k, top_p, min_p, seed + i) for i in range(len(texts))]
    loaded, _ = load(target, device, dtype, threads, compile)
    requests = [
        Request(str(i), ids, params[i], max_new, loaded.eos_ids, tuple(stop or ()))
        for i, ids in enumerate(encode_prompts(loaded, texts, raw))
    ]
    longest = max(len(r.prompt_ids) for r in requests) + max_new
    limit = int(getattr(loaded.config, "max_position_embeddings", longest))
    engine = Engine(
        loaded,
        choice.drafter(loaded, sample=rule == "B"),
        slots=min(concurrency, len(requests)),
        max_len=min(longest, limit),
        rule=rule,  # type: ignore[arg-type]  # checked by the engine
    )
    show = _Stream(loaded.tokenizer, requests[0].stop_strings) if len(requests) == 1 else None
    began = time.perf_counter()
    answers = engine.run(requests, on_token=show)
    seconds = time.perf_counter() - began
    if show is not None:
        show.finish()
    else:
        for text, answer in zip(texts, answers, strict=True):
            print(f"> {text}\n{answer.text}\n")
    if json_path is not None:
        atomic_write_text(json_path, "".join(json.dumps(_record(a)) + "\n" for a in answers))
    made = sum(len(a.token_ids) for a in answers)
    print(
        f"{made} tokens in {seconds:.2f} s, {made / seconds:.1f} tok/s, tau {engine.stats.tau:.2f}, {choice.name}",
        file=sys.stderr,
    )
    if engine.interrupted:
        raise typer.Exit(130)  # the shell's code for SIGINT


class _Stream:
    """Prints one answer as it grows. Plain when standard output is no terminal."""

    def __init__(self, tokenizer: Any, stop_strings: tuple[str, ...] | Any) -> None:
        from angelspec.decoding.text import TextStream

        self._text = TextStream(tokenizer, tuple(stop_strings))
        self._colour = sys.stdout.isatty()

    def __call__(self, chunk: Chunk) -> None:
        for place, token in enumerate(chunk.token_ids):
            self._print(self._text.push(token), drafted=place < chunk.accepted)

    def finish(self) -> None:
        self._print(self._text.finish(), drafted=False)
        print()

    def _print(self, piece: str, drafted: bool) -> None:
        if piece:
            print(f"{GREEN}{piece}{PLAIN}" if drafted and self._colour else piece, end="", flush=True)


def _record(answer: Answer) -> dict[str, Any]:
    return {
        "id": answer.id,
        "text": answer.text,
        "finish_reason": answer.finish_reason,
        "prompt_ids": answer.prompt_ids,
        "response_ids": answer.token_ids,
        "seed": answer.params.seed,
        "rounds": answer.rounds,
        "drafted": answer.drafted,
        "accepted": answer.accepted,
    }
