# From the target's weights and the prompts to the target's own answers.
TARGET = f"resources/target/{target_slug(CONFIG)}.json"


rule fetch_target:
    output:
        manifest="resources/target/{target}.json",
    log:
        "logs/target/{target}.log",
    benchmark:
        "logs/target/{target}.tsv"
    conda:
        "../envs/angelspec.yaml"
    threads: 1
    resources:
        mem_mb=3000 if not GPU else 8000,
        disk_mb=1000 if not GPU else 40000,
        runtime=15 if not GPU else 120,
    params:
        options=target_options(CONFIG),
    shell:
        RUN_STAGE
        + " angelspec.targets fetch {params.options:q} --manifest {output.manifest}"


rule prompts:
    output:
        prompts="results/{scale}/prompts/prompts.jsonl",
        manifest="results/{scale}/prompts/manifest.json",
    log:
        "logs/{scale}/prompts.log",
    benchmark:
        "logs/{scale}/prompts.tsv"
    conda:
        "../envs/angelspec.yaml"
    threads: 1
    resources:
        mem_mb=2000 if not GPU else 16000,
        disk_mb=100 if not GPU else 10000,
        runtime=10 if not GPU else 240,
    params:
        code=code("angelspec/data/prepare.py"),
        settings=as_json(CONFIG.seed, BUDGET.prompts, asked_sources(CONFIG)),
        config=resolved(config),
        out="results/{scale}/prompts",
    shell:
        RUN_STAGE
        + " angelspec.data.prepare --config {params.config} --scale {wildcards.scale} --out {params.out}"


rule answer_shard:
    input:
        target=TARGET,
        prompts="results/{scale}/prompts/prompts.jsonl",
        manifest="results/{scale}/prompts/manifest.json",
    output:
        answers="results/{scale}/answers/{split}/answers-{shard}.parquet",
        features="results/{scale}/answers/{split}/features-{shard}.safetensors",
        statistics="results/{scale}/answers/{split}/statistics-{shard}.parquet",
    log:
        "logs/{scale}/answers/{split}-{shard}.log",
    benchmark:
        "logs/{scale}/answers/{split}-{shard}.tsv"
    conda:
        "../envs/angelspec.yaml"
    threads: all_cores(workflow)
    resources:
        mem_mb=3000 if not GPU else 48000,
        disk_mb=1000 if not GPU else 20000,
        runtime=60 if not GPU else 240,
        gpu=GPU,
    params:
        code=code("angelspec/data/regenerate.py"),
        options=answer_options(CONFIG),
        out="results/{scale}/answers/{split}",
    shell:
        RUN_STAGE
        + " angelspec.data.regenerate --prompts {input.prompts} --split {wildcards.split} --out {params.out}"
        " --replace-stale {params.options:q}"


rule data_specialization:
    input:
        answer_files(CONFIG, "train"),
        notebook="notebooks/01_data_specialization.py",
    output:
        html=report(
            "results/{scale}/notebooks/01_data_specialization.html",
            caption="../report/page.rst",
            category="Pages",
            labels={"notebook": "01_data_specialization"},
        ),
        length=report(
            "results/{scale}/figures/01_answer_length.svg",
            caption="../report/answer_length.rst",
            category="Data",
            labels={"figure": "answer length"},
        ),
        entropy=report(
            "results/{scale}/figures/01_entropy.svg",
            caption="../report/entropy.rst",
            category="Data",
            labels={"figure": "entropy and top-1 mass"},
        ),
        ahead=report(
            "results/{scale}/figures/01_look_ahead.svg",
            caption="../report/look_ahead.rst",
            category="Data",
            labels={"figure": "looking ahead"},
        ),
        repetition=report(
            "results/{scale}/figures/01_repetition.svg",
            caption="../report/repetition.rst",
            category="Data",
            labels={"figure": "repetition"},
        ),
        rows="results/{scale}/rows/01_data_specialization.json",
        provenance="results/{scale}/provenance/01_data_specialization.json",
    log:
        notebook="logs/{scale}/01_data_specialization.ipynb",
    benchmark:
        "logs/{scale}/01_data_specialization.tsv"
    conda:
        "../envs/angelspec.yaml"
    threads: 1
    resources:
        mem_mb=3000,
        disk_mb=50,
        runtime=20,
    params:
        code=code("notebooks/01_data_specialization.py"),
        parameters=parameters(
            answers="results/{wildcards.scale}/answers/train",
            mixtures=CONFIG.mixtures,
            tokens=BUDGET.mixtures.tokens,
            temperature=CONFIG.sampling.temperature,
            depth=8,
            scale="{wildcards.scale}",
            comparable=BUDGET.comparable,
            seed=CONFIG.seed,
            figures="results/{wildcards.scale}/figures",
            rows_path="{output.rows}",
        ),
    shell:
        RUN_NOTEBOOK
