rule machine:
    input:
        notebook="notebooks/09_machine.py",
    output:
        html="results/{scale}/notebooks/09_machine.html",
        provenance="results/{scale}/provenance/09_machine.json",
    log:
        notebook="logs/{scale}/09_machine.ipynb",
    params:
        parameters=parameters(scale="{wildcards.scale}"),
    threads: 1
    shell:
        RUN_NOTEBOOK
