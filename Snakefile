# angelspec: table of contents of the workflow. `snakemake --cores all` makes everything of `rule all`.
from snakemake.utils import min_version

min_version("9.0")


configfile: "config/config.yaml"


include: "workflow/rules/common.smk"


CONFIG = checked(config, "workflow/schemas/config.schema.json")


report: "workflow/report/workflow.rst"


wildcard_constraints:
    scale=CONFIG.scale,


include: "workflow/rules/notebooks.smk"


rule all:
    input:
        expand("results/{scale}/notebooks/09_machine.html", scale=CONFIG.scale),
