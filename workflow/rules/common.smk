# Shared by all rule files: the checked configuration, code digests, and the two ways a job is started.
import json
import os
import sys

sys.path.insert(0, workflow.basedir)  # a bare checkout has nothing installed
sys.path.insert(0, os.path.join(workflow.basedir, "workflow", "scripts"))
os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]  # rules call this python
os.environ["ANGELSPEC_PARENT"] = str(os.getpid())  # jobs end when this process is gone

from angelspec.config import ConfigError, build_config, schema_error
from angelspec.imports import import_closure
from angelspec.provenance import source_digest
from stale_locks import hold_and_clear

if workflow.is_main_process:
    hold_and_clear()


def checked(raw, schema):
    """The configuration as dataclasses; a mistake ends the run with one line (and no traceback)."""
    try:
        frozen = build_config(raw)
    except ConfigError as error:
        sys.exit(f"config: {error}")
    with open(os.path.join(workflow.basedir, schema), encoding="utf-8") as stream:
        problem = schema_error(raw, json.load(stream))
    if problem:
        sys.exit(f"config: {problem}")
    return frozen


def code(*entries):
    """Digest of everything the entries import from this repository: an edit there, and only there, reruns the rule."""
    return source_digest(*import_closure(*entries))


def parameters(**values):
    """Notebook parameters as JSON; texts may name the job's files, as in target="{input.target}"."""

    def of_job(wildcards, input, output):
        names = {"wildcards": wildcards, "input": input, "output": output}
        filled = {key: value.format(**names) if isinstance(value, str) else value for key, value in values.items()}
        return json.dumps(filled, sort_keys=True)

    return of_job


# `exec`: the job itself becomes Snakemake's child and dies with it. A shell in between would live on.
RUN_NOTEBOOK = (
    "exec python workflow/scripts/run_notebook.py {input.notebook} --parameters {params.parameters:q}"
    " --executed {log.notebook} --html {output.html} --provenance {output.provenance}"
    " --threads {threads} --inputs {input} --outputs {output}"
)
RUN_TIMED_NOTEBOOK = RUN_NOTEBOOK + " --timed"
RUN_STAGE = "exec python workflow/scripts/run_stage.py --log {log} --threads {threads} "
