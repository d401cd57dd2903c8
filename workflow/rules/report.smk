# What the pages say, in one file: results/<scale>/summary.json.
WITH_ROWS = ["01_data_specialization", "09_machine"]


rule summary:
    input:
        expand("results/{{scale}}/rows/{name}.json", name=WITH_ROWS),
    output:
        "results/{scale}/summary.json",
    log:
        "logs/{scale}/summary.log",
    conda:
        "../envs/angelspec.yaml"
    threads: 1
    resources:
        mem_mb=500,
        disk_mb=10,
        runtime=5,
    params:
        code=code("workflow/scripts/merge_rows.py"),
    shell:
        "exec python workflow/scripts/merge_rows.py --out {output} {input} 2> {log}"
