"""What the rule files share, as plain functions: the checked configuration, options of stages, notebook parameters."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # a bare checkout has nothing installed

from angelspec.config import Config, ConfigError, build_config, schema_error  # noqa: E402
from angelspec.hardware import available_cores  # noqa: E402
from angelspec.imports import import_closure  # noqa: E402
from angelspec.io import atomic_write_text  # noqa: E402
from angelspec.jobs import PARENT  # noqa: E402
from angelspec.provenance import source_digest  # noqa: E402

# `exec`: the job itself becomes Snakemake's child and dies with it. A shell in between would live on.
RUN_NOTEBOOK = (
    "exec python workflow/scripts/run_notebook.py {input.notebook} --parameters {params.parameters:q}"
    " --executed {log.notebook} --html {output.html} --provenance {output.provenance}"
    " --threads {threads} --inputs {input} --outputs {output}"
)
RUN_TIMED_NOTEBOOK = f"{RUN_NOTEBOOK} --timed"  # alone on the machine; such a rule takes all cores besides
RUN_STAGE = "exec python workflow/scripts/run_stage.py --log {log} --threads {threads}"


def prepare_environment() -> None:
    """What every job inherits: this Python first on the path, whom to die with, and the cache of fetched files."""
    os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    os.environ[PARENT] = str(os.getpid())
    os.environ.setdefault("ANGELSPEC_CACHE", os.path.abspath("resources"))


def checked(raw: Mapping[str, Any], schema: str | Path) -> Config:
    """The configuration as dataclasses; a mistake ends the run with one line (and no traceback)."""
    try:
        frozen = build_config(raw)
    except ConfigError as error:
        sys.exit(f"config: {error}")
    problem = schema_error(raw, json.loads((ROOT / schema).read_text(encoding="utf-8")))
    if problem:
        sys.exit(f"config: {problem}")
    return frozen


def resolved(raw: Mapping[str, Any]) -> str:
    """File with the configuration as merged from files and command line, for stages that read one."""
    path = Path(".snakemake", f"config-{raw['scale']}.json")
    text = json.dumps(raw, indent=1)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        atomic_write_text(path, text)
    return str(path)


def all_cores(workflow: Any) -> int:
    """Threads of a job that takes the machine; on a cluster `set-threads` of the profile says otherwise."""
    from snakemake.exceptions import WorkflowError

    try:
        return int(workflow.cores)
    except WorkflowError:  # --lint, --report and clusters do without --cores
        return available_cores()


def code(*entries: str) -> str:
    """Digest of everything the entries import from this repository: an edit there, and only there, reruns the rule."""
    return source_digest(*import_closure(*entries))


def as_json(*values: Any) -> str:
    """Parts of the configuration as one JSON text: a parameter of the rules that depend on them."""
    return json.dumps(values, sort_keys=True, default=dataclasses.asdict)


def parameters(**values: Any) -> Callable[..., str]:
    """Notebook parameters as JSON; texts may name the job's files, as in rows="{output.rows}"."""

    def of_job(wildcards: Any, input: Any, output: Any) -> str:
        names = {"wildcards": wildcards, "input": input, "output": output}
        filled = {key: value.format(**names) if isinstance(value, str) else value for key, value in values.items()}
        return json.dumps(filled, sort_keys=True)

    return of_job


def target_slug(config: Config) -> str:
    """The target's name and revision as a file name."""
    words = filter(None, [config.target.name.strip("./").replace("/", "--"), config.target.revision])
    return "-".join(words)


def target_options(config: Config) -> list[str]:
    """The target as options of `python -m angelspec.targets fetch`."""
    fields = dataclasses.asdict(config.target)
    names = [name for name in ("kind", "name", "revision", "file", "sha256") if fields[name]]
    return [word for name in names for word in (f"--{name}", fields[name])]


def asked_sources(config: Config) -> dict[str, Any]:
    """The sources that this scale takes prompts from."""
    asked = {*config.budget.prompts.train, *config.budget.prompts.eval}
    return {name: source for name, source in config.sources.items() if name in asked}


def answer_shards(config: Config, split: str) -> int:
    answers = config.budget.answers
    return answers.shards if split == "train" else answers.eval_shards


def answer_files(config: Config, split: str) -> list[str]:
    """All shards of a split: answers, target features and token statistics."""
    return [
        f"results/{config.scale}/answers/{split}/{name}"
        for shard in range(answer_shards(config, split))
        for name in (
            f"answers-{shard:05d}.parquet",
            f"features-{shard:05d}.safetensors",
            f"statistics-{shard:05d}.parquet",
        )
    ]


def answer_options(config: Config) -> Callable[[Any], list[str]]:
    """Served mode and cut of the work as options of `python -m angelspec.data.regenerate`, by split."""
    sampling, answers = config.sampling, config.budget.answers

    def of_job(wildcards: Any) -> list[str]:
        options = {
            "shard": int(wildcards.shard),
            "shards": answer_shards(config, wildcards.split),
            "answer-tokens": answers.train_tokens if wildcards.split == "train" else None,
            "target": json.dumps(dataclasses.asdict(config.target)),
            "device": config.device.device,
            "compile": config.device.compile,
            "temperature": sampling.temperature,
            "top-p": sampling.top_p,
            "top-k": sampling.top_k,
            "thinking": "on" if sampling.thinking else "off",
            "system": sampling.system_prompt,
            "max-new-tokens": answers.max_new_tokens,
            "layers": answers.layers,
            "slots": answers.slots,
            "max-prompt-tokens": config.budget.prompts.max_tokens,
        }
        return [word for key, value in options.items() if value is not None for word in (f"--{key}", str(value))]

    return of_job
