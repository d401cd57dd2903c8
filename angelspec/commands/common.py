"""Options and steps that the commands share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from angelspec.device import DevicePolicy
    from angelspec.targets.model import Target

TargetFolder = Annotated[
    Path | None, typer.Option("--target", help="Folder of a transformers causal LM; without it, SmolLM2-135M-Instruct.")
]
Device = Annotated[str, typer.Option(help="auto, cpu, mps, cuda or cuda:<index>.")]
DType = Annotated[str, typer.Option(help="auto, bfloat16, float32, float64 or float16.")]
Threads = Annotated[int | None, typer.Option(help="CPU threads; without it, physical cores.")]
Compile = Annotated[str, typer.Option(help="auto, true or false.")]


def load(
    folder: Path | None, device: str, dtype: str, threads: int | None, compile: str
) -> tuple[Target, DevicePolicy]:
    """The target by the options of a command; the policy is applied and printed."""
    from angelspec.device import announce, choose_policy
    from angelspec.targets.load import load_target
    from angelspec.targets.spec import SMOLLM2, TargetSpec

    policy = choose_policy(device, dtype, threads, compile).apply()
    announce(policy)
    spec = SMOLLM2 if folder is None else TargetSpec("folder", str(folder))
    return load_target(spec, policy), policy


def encode_prompts(target: Target, texts: Sequence[str], raw: bool = False) -> list[list[int]]:
    """Token ids of user messages in the target's chat template; raw: of the texts as they are."""
    from angelspec.data.templates import ChatTemplate

    if raw:
        return [list(target.tokenizer(text)["input_ids"]) for text in texts]
    template = ChatTemplate(target.tokenizer)
    return [template.prompt_ids([{"role": "user", "content": text}]) for text in texts]


def read_prompt_file(path: Path) -> list[str]:
    """The field `prompt` of every line of a JSON lines file. Raises ValueError naming the first line without one."""
    prompts = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}, line {number} is not JSON: {error}") from None
        text = record.get("prompt") if isinstance(record, dict) else None
        if not isinstance(text, str) or not text:
            raise ValueError(f'{path}, line {number} has no text under "prompt"')
        prompts.append(text)
    if not prompts:
        raise ValueError(f'{path} holds no prompts; expected JSON lines such as {{"prompt": "..."}}')
    return prompts
