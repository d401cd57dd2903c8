# Pages that belong to no stage. Every notebook rule: source in; page, figures, rows of summary.json and provenance out;
# the executed notebook is the log.
NOTEBOOKS = ["00_primer", "01_data_specialization", "09_machine"]


rule primer:
    input:
        notebook="notebooks/00_primer.py",
    output:
        html=report(
            "results/{scale}/notebooks/00_primer.html",
            caption="../report/page.rst",
            category="Pages",
            labels={"notebook": "00_primer"},
        ),
        doors=report(
            "results/{scale}/figures/00_two_doors.svg",
            caption="../report/two_doors.rst",
            category="Why it is lossless",
            labels={"figure": "two doors"},
        ),
        words=report(
            "results/{scale}/figures/00_words_per_round.svg",
            caption="../report/words_per_round.rst",
            category="Why it is lossless",
            labels={"figure": "words per round"},
        ),
        bias=report(
            "results/{scale}/figures/00_biased_depth.svg",
            caption="../report/biased_depth.rst",
            category="Why it is lossless",
            labels={"figure": "what breaks it"},
        ),
        provenance="results/{scale}/provenance/00_primer.json",
    log:
        notebook="logs/{scale}/00_primer.ipynb",
    benchmark:
        "logs/{scale}/00_primer.tsv"
    conda:
        "../envs/angelspec.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        disk_mb=50,
        runtime=10,
    params:
        code=code("notebooks/00_primer.py"),
        parameters=parameters(
            draws=100_000 if CONFIG.scale != "smoke" else 10_000,
            seed=CONFIG.seed,
            figures="results/{wildcards.scale}/figures",
        ),
    shell:
        RUN_NOTEBOOK


rule machine:
    input:
        notebook="notebooks/09_machine.py",
        target=TARGET,
    output:
        html=report(
            "results/{scale}/notebooks/09_machine.html",
            caption="../report/page.rst",
            category="Pages",
            labels={"notebook": "09_machine"},
        ),
        figure=report(
            "results/{scale}/figures/09_step_bytes.svg",
            caption="../report/step_bytes.rst",
            category="Machine and target",
            labels={"figure": "bytes per step"},
        ),
        rows="results/{scale}/rows/09_machine.json",
        provenance="results/{scale}/provenance/09_machine.json",
    log:
        notebook="logs/{scale}/09_machine.ipynb",
    benchmark:
        "logs/{scale}/09_machine.tsv"
    conda:
        "../envs/angelspec.yaml"
    threads: 1
    resources:
        mem_mb=3000 if not GPU else 48000,
        disk_mb=50,
        runtime=10,
        gpu=GPU,
    params:
        code=code("notebooks/09_machine.py"),
        parameters=parameters(
            scale="{wildcards.scale}",
            comparable=BUDGET.comparable,
            target=dataclasses.asdict(CONFIG.target),
            device=dataclasses.asdict(CONFIG.device),
            sampling=dataclasses.asdict(CONFIG.sampling),
            max_new_tokens=min(48, BUDGET.answers.max_new_tokens),
            seed=CONFIG.seed,
            rows_path="{output.rows}",
            figure_path="{output.figure}",
        ),
    shell:
        RUN_NOTEBOOK
