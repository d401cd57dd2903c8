# angelspec: the table of contents of the workflow. `snakemake --cores all` makes what `rule all` lists.
from snakemake.utils import min_version

min_version("9.0")


configfile: "config/config.yaml"


include: "workflow/rules/common.smk"


CONFIG = checked(config, "workflow/schemas/config.schema.json")
BUDGET = CONFIG.budget
GPU = int(CONFIG.scale in ("gpu", "paper"))


report: "workflow/report/workflow.rst"


wildcard_constraints:
    scale=CONFIG.scale,  # the results of other scales are left alone
    split="train|eval",
    shard=r"\d{5}",


include: "workflow/rules/data.smk"
include: "workflow/rules/notebooks.smk"
include: "workflow/rules/report.smk"


rule all:
    input:
        answer_files(CONFIG, "train"),
        answer_files(CONFIG, "eval"),
        expand(
            "results/{scale}/notebooks/{name}.html", scale=CONFIG.scale, name=NOTEBOOKS
        ),
        expand("results/{scale}/summary.json", scale=CONFIG.scale),


rule target:  # only fetch the target: `snakemake --cores all target`, before a machine goes offline
    input:
        TARGET,


rule answers:  # the target's answers to all prompts
    input:
        answer_files(CONFIG, "train"),
        answer_files(CONFIG, "eval"),


rule notebooks:  # all pages
    input:
        expand(
            "results/{scale}/notebooks/{name}.html", scale=CONFIG.scale, name=NOTEBOOKS
        ),
