"""``angelspec doctor``: what this machine has, which scales can run here, and what is missing."""

from __future__ import annotations

import concurrent.futures
import json
import os
import platform
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from angelspec import environment, hardware, provenance

NETWORK_TIMEOUT_S = 4.0
INDEX_URL = "https://pypi.org/simple/pip/"
HUB_URL = "https://huggingface.co"


@dataclass(frozen=True)
class Needs:
    """What a scale of config/config.yaml asks of a machine. Sizes in GiB; ``gpu_gib`` is per GPU."""

    cores: int
    memory: float
    disk: float
    gpus: int = 0
    gpu_gib: float = 0.0
    hub: bool = False


SCALES = {
    "smoke": Needs(cores=1, memory=4, disk=2),
    "laptop": Needs(cores=2, memory=6, disk=4),
    "reference": Needs(cores=2, memory=8, disk=8),
    "overnight": Needs(cores=2, memory=12, disk=30),
    "gpu": Needs(cores=8, memory=48, disk=150, gpus=1, gpu_gib=40, hub=True),
    "paper": Needs(cores=32, memory=256, disk=2000, gpus=8, gpu_gib=80, hub=True),
}


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    network: Annotated[bool, typer.Option(help="Also try to reach the package index and the Hub.")] = True,
) -> None:
    """Check this machine: Python, torch, device, compiler, cores, memory, disk, network; which scales can run here."""
    facts = examine(network=network)
    verdicts = {scale: missing(needs, facts) for scale, needs in SCALES.items()}
    if as_json:
        print(json.dumps({**facts, "scales": verdicts}, indent=2, ensure_ascii=False))
    else:
        _show(facts, verdicts)


def examine(*, network: bool) -> dict[str, Any]:
    """Everything doctor reports, in plain JSON types; nothing that identifies the machine or its user."""
    import torch

    from angelspec.device import choose_policy

    return {
        "python": platform.python_version(),
        "versions": provenance.versions(),
        "unlike_lock": _unlike_lock(),
        "hardware": hardware.describe_hardware(),
        "gpu_gib": [
            round(torch.cuda.get_device_properties(index).total_memory / 2**30, 1)
            for index in range(torch.cuda.device_count())
        ],
        "disk_free_gib": round(shutil.disk_usage(Path.cwd()).free / 2**30, 1),
        "policy": choose_policy().as_dict(),
        "network": _network() if network else None,
    }


def missing(needs: Needs, facts: dict[str, Any]) -> list[str]:
    """One phrase for each thing a scale needs and this machine lacks; empty when the scale can run here."""
    machine = facts["hardware"]
    # Systems report a little less than what is sold: 79.6 GiB for a GPU of 80, 23.5 for a machine of 24.
    large_enough = [size for size in facts["gpu_gib"] if size >= 0.9 * needs.gpu_gib]
    lacks = [
        (machine["cores"] < needs.cores, f"{needs.cores} cores (here {machine['cores']})"),
        (machine["memory_gib"] < 0.9 * needs.memory, f"{needs.memory:g} GiB memory (here {machine['memory_gib']:g})"),
        (facts["disk_free_gib"] < needs.disk, f"{needs.disk:g} GiB free disk (here {facts['disk_free_gib']:g})"),
        (len(large_enough) < needs.gpus, f"{needs.gpus} GPU(s) of {needs.gpu_gib:g} GiB (here {len(large_enough)})"),
        (needs.hub and facts["network"] is not None and not facts["network"]["hub"], "the Hugging Face Hub"),
    ]
    return [phrase for is_lacking, phrase in lacks if is_lacking]


def reachable(url: str, timeout: float = NETWORK_TIMEOUT_S) -> bool:
    """Whether a server answers at ``url`` at all; an HTTP error is an answer."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=timeout):
            return True
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError):
        return False


def _network(probe: Callable[[str], bool] = reachable) -> dict[str, bool]:
    """The addresses a user may have redirected (mirrors) are asked, both at once."""
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    index, hub = os.environ.get("PIP_INDEX_URL", INDEX_URL), os.environ.get("HF_ENDPOINT", HUB_URL)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        index_answer, hub_answer = pool.map(probe, (index, hub))
    return {"package_index": index_answer, "hub": hub_answer and not offline}


def _unlike_lock() -> list[str] | None:
    """Differences between lock and installation; None where there is no lock (a wheel without the repository)."""
    lock = provenance.PACKAGE.parent / environment.LOCK_NAME
    return environment.differences(environment.read_lock(lock)) if lock.is_file() else None


def _show(facts: dict[str, Any], verdicts: dict[str, list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    machine = Table(title="This machine", title_justify="left", show_header=False)
    machine.add_column(style="bold", no_wrap=True)
    machine.add_column(overflow="fold")
    for row in _rows(facts):
        machine.add_row(*row)
    console.print(machine)
    scales = Table("scale", "can run here", title="Scales (make reproduce SCALE=...)", title_justify="left")
    for scale, lacks in verdicts.items():
        scales.add_row(scale, f"no, needs {'; '.join(lacks)}" if lacks else "yes")
    console.print(scales)
    if facts["hardware"]["cxx_compiler"] is None:
        console.print("No C++ compiler: models run eagerly and several times slower. Install g++ or clang++.")


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    machine, policy, network = facts["hardware"], facts["policy"], facts["network"]
    unlike, gpus = facts["unlike_lock"], zip(machine["gpus"], facts["gpu_gib"] or [None], strict=False)
    return [
        ("Python", facts["python"]),
        ("torch", facts["versions"].get("torch", "not installed")),
        ("transformers", facts["versions"].get("transformers", "not installed")),
        ("lock", "no lock here" if unlike is None else "; ".join(unlike[:8]) or "all pinned versions installed"),
        ("processor", f"{machine['cpu']} ({machine['architecture']}), {', '.join(machine['cpu_flags']) or 'no flags'}"),
        ("cores", f"{machine['physical_cores']} physical, {machine['cores']} logical"),
        ("memory", f"{machine['memory_gib']:g} GiB"),
        ("free disk", f"{facts['disk_free_gib']:g} GiB"),
        ("GPU", ", ".join(f"{name} ({size:g} GiB)" if size else name for name, size in gpus) or "none"),
        ("C++ compiler", machine["cxx_compiler"] or "none"),
        *((name, f"{policy[name]}: {policy['reasons'][name]}") for name in policy["reasons"]),
        ("package index", "not asked" if network is None else "answers" if network["package_index"] else "no answer"),
        ("Hub", "not asked" if network is None else "answers" if network["hub"] else "no answer, or switched off"),
    ]
