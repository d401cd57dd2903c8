"""SIGKILL to Snakemake, to the runner and to the kernel at random moments; then the plain command again.

A miniature workflow: the real runner, the real rule helpers and the real default profile; its notebook writes the first
half of its output under the final name, waits, and writes the rest, so that a half-written file is the rule when it is
killed. Every start and end of a notebook is a line in a ledger.
"""

from __future__ import annotations

import os
import random
import re
import signal
import time
from pathlib import Path

import pytest

from .conftest import Run, nobody_left, processes, role

SHARDS = 3
SNAKEFILE = f"""
include: "workflow/rules/common.smk"


rule all:
    input:
        "out/joined.txt",


rule shard:
    input:
        notebook="notebooks/shard.py",
    output:
        data="out/shard-{{shard}}.txt",
        html="out/shard-{{shard}}.html",
        provenance="out/shard-{{shard}}.json",
    log:
        notebook="logs/shard-{{shard}}.ipynb",
    params:
        code=code("notebooks/shard.py"),
        parameters=parameters(shard="{{wildcards.shard}}", data="{{output.data}}"),
    shell:
        RUN_NOTEBOOK


rule join:
    input:
        expand("out/shard-{{shard}}.txt", shard=range({SHARDS})),
    output:
        "out/joined.txt",
    shell:
        "cat {{input}} > {{output}}"
"""
NOTEBOOK = """\
# %% tags=["parameters"]
shard = "0"
data = "out/shard-0.txt"
# %%
import time


def note(word):
    with open("ledger.txt", "a") as ledger:
        ledger.write(f"{word} {shard}\\n")


note("start")
# %%
with open(data, "w") as file:
    file.write(f"first half of {shard}, ")
    file.flush()
    time.sleep(1.0)
    file.write("second half\\n")
note("end")
"""


def finished_shards(run: Run) -> set[str]:
    """Shards that Snakemake itself reported as finished before it was killed."""
    text = run.log.read_text()
    shard_of = dict(re.findall(r"jobid: (\d+)\n(?:    .*\n)*?    wildcards: shard=(\d)", text))
    return {shard_of[job] for job in re.findall(r"Finished jobid: (\d+) \(Rule: shard\)", text)}


def ledger(folder: Path, word: str) -> list[str]:
    path = folder / "ledger.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.split()[1] for line in lines if line.startswith(word)]


@pytest.fixture
def miniature(checkout: Path) -> Path:
    (checkout / "Snakefile").write_text(SNAKEFILE)
    (checkout / "notebooks" / "shard.py").write_text(NOTEBOOK)
    return checkout


def test_killed_at_random_moments_the_plain_command_finishes(miniature: Path) -> None:
    chance = random.Random(os.environ.get("ANGELSPEC_KILL_SEED", "20260727"))
    finished: set[str] = set()
    for whom, shards in (("snakemake", 2), ("runner", 1), ("kernel", 1), ("snakemake", 1), (None, 0)):
        before = ledger(miniature, "start")
        run = Run(miniature, "--cores", "1")
        if whom is not None:
            wanted = len(before) + shards
            run.wait_for(lambda known=wanted: len(ledger(miniature, "start")) >= known)
            time.sleep(chance.uniform(0.0, 2.5))  # before the first half, between the halves, rendering, next shard
            run.wait_for(lambda victim=whom: any(role(process) == victim for process in processes(miniature)))
            run.kill(whom)
        status, text = run.end()
        assert "Traceback" not in text
        assert nobody_left(miniature), f"after {whom} was killed: {[p.cmdline() for p in processes(miniature)]}"
        started = ledger(miniature, "start")[len(before) :]
        assert not finished & set(started), f"a finished shard was done again after {whom} was killed"
        finished |= finished_shards(run)
        expected = {"snakemake": -signal.SIGKILL, None: 0}.get(whom, 1)
        assert status == expected, text

    assert len(finished) == SHARDS
    whole = "".join(f"first half of {shard}, second half\n" for shard in range(SHARDS))
    assert (miniature / "out" / "joined.txt").read_text() == whole
    for shard in range(SHARDS):
        assert (miniature / "out" / f"shard-{shard}.html").stat().st_size > 100_000
    left = [path.name for path in miniature.rglob("*") if path.name.endswith((".tmp", ".lock")) and path.is_file()]
    assert left == []


def test_a_second_run_leaves_the_locks_of_a_living_one_alone(miniature: Path) -> None:
    run = Run(miniature, "--cores", "1")
    run.wait_for(lambda: ledger(miniature, "start"))
    second = Run(miniature, "--cores", "1")
    status, text = second.end()
    assert status == 1 and "LockException" in text, text
    assert "removed the locks" not in text
    run.process.send_signal(signal.SIGINT)
    assert run.end()[0] != 0
    assert nobody_left(miniature), "Ctrl-C ends everything"
