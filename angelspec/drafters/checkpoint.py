"""A drafter on disk: config.json, model.safetensors, README.md, provenance.json. Nothing is guessed when it is read
back.

The embedding and the LM head belong to the target. They are named in config.json (`borrowed_weights`) and not copied,
so a drafter is loaded together with exactly the target that it was trained for: same name, revision and digest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from angelspec.drafters.base import NeuralDrafter
from angelspec.drafters.config import DrafterConfig
from angelspec.drafters.dflash import DFlash, DFlashConfig
from angelspec.drafters.dfly import DFly, DFlyConfig
from angelspec.drafters.mtp import MTP, MTPConfig
from angelspec.io import atomic_path, atomic_write_text, read_json, write_json

METHODS: dict[str, tuple[type[DrafterConfig], type[NeuralDrafter]]] = {
    "mtp": (MTPConfig, MTP),
    "dflash": (DFlashConfig, DFlash),
    "dfly": (DFlyConfig, DFly),
}
BORROWED = ["embed_tokens.weight", "lm_head.weight"]


class DrafterMismatch(ValueError):
    """The folder is not a drafter for this target, or is not whole."""


def save_drafter(
    folder: str | Path, drafter: NeuralDrafter, *, provenance: Mapping[str, Any], card: Mapping[str, Any]
) -> None:
    """Write the folder. `provenance`: how the drafter was made; `card`: what a user should know (README), by heading.

    config.json is written last and its digest stands in model.safetensors: half a folder, or two mixed ones, do not
    load.
    """
    folder = Path(folder)
    config = drafter.config.to_dict() | {"borrowed_weights": BORROWED}
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in drafter.state_dict().items()}
    with atomic_path(folder / "model.safetensors") as temporary:
        save_file(tensors, temporary, metadata={"format": "pt", "config_sha256": _digest(config)})
    write_json(folder / "provenance.json", provenance)
    atomic_write_text(folder / "README.md", _card(drafter, card))
    write_json(folder / "config.json", config)


def load_drafter(folder: str | Path, target: Any, dtype: torch.dtype | None = None) -> NeuralDrafter:
    """The drafter in `folder`, on the target's device, its borrowed weights attached, in eval mode.

    `target` is an angelspec.targets.Target (identity, embed_tokens, lm_head, device); dtype None keeps the saved one.

    Raises:
        DrafterMismatch: another target or revision, an unknown format, or tensors that are missing, unexpected or
        mis-shaped.
    """
    folder = Path(folder)
    config_class, drafter_class, raw = _read_config(folder)
    try:
        config = config_class.from_dict({key: value for key, value in raw.items() if key != "borrowed_weights"})
    except (ValueError, TypeError) as error:
        raise DrafterMismatch(f"{folder}: {error}") from error
    check_target(config.target, target.identity, str(folder))
    tensors = _read_tensors(folder, raw)
    d2t = tensors.get("d2t")
    if (d2t is None) != (config.draft_vocab_size == config.vocab_size):
        raise DrafterMismatch(
            f"{folder}: {config.draft_vocab_size} of {config.vocab_size} tokens can be drafted, but the map d2t is"
            f" {'missing' if d2t is None else 'there'}."
        )
    with torch.device("meta"):
        drafter = drafter_class(config, None if d2t is None else torch.empty_like(d2t, device="meta"))
    _check_tensors(drafter, tensors, folder)
    drafter.load_state_dict(tensors, assign=True)
    drafter.rotary = type(drafter.rotary)(config)  # its frequencies are computed, not stored
    drafter = drafter.to(target.device) if dtype is None else drafter.to(target.device, dtype)
    drafter.borrow(target.embed_tokens, target.lm_head)
    return drafter.eval()


def check_target(expected: Mapping[str, Any], found: Mapping[str, Any], where: str) -> None:
    """Raise DrafterMismatch unless two target identities (kind, name, revision, digest) are the same."""
    for key, meaning in (
        ("name", "target"),
        ("revision", "revision of the target"),
        ("digest", "weights of the target"),
    ):
        if expected.get(key) != found.get(key):
            raise DrafterMismatch(
                f"{where} was trained for another {meaning}: {key} {expected.get(key)!r} of"
                f" {expected.get('name')!r}, but the target given has {found.get(key)!r}. Load that target, or train a"
                " drafter for this one."
            )


def _read_config(folder: Path) -> tuple[type[DrafterConfig], type[NeuralDrafter], dict[str, Any]]:
    if not (folder / "config.json").is_file():
        raise DrafterMismatch(f"{folder} is no drafter: it has no config.json (an interrupted save leaves none).")
    raw = read_json(folder / "config.json")
    for config_class, drafter_class in METHODS.values():
        if raw.get("model_type") == config_class.model_type:
            return config_class, drafter_class, raw
    known = ", ".join(config_class.model_type for config_class, _ in METHODS.values())
    raise DrafterMismatch(f"{folder}: model_type is {raw.get('model_type')!r}; known are {known}.")


def _read_tensors(folder: Path, config: dict[str, Any]) -> dict[str, torch.Tensor]:
    path = folder / "model.safetensors"
    try:
        with safe_open(path, framework="pt") as file:
            stated = (file.metadata() or {}).get("config_sha256")
            # Cloned, because tensors inside the file's buffer are not aligned and compute other last bits.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (safe_open is no dict)
    except (OSError, SafetensorError) as error:
        raise DrafterMismatch(f"{path} cannot be read ({error}); save the drafter again.") from error
    if stated != _digest(config):
        raise DrafterMismatch(
            f"{folder}: config.json and model.safetensors were not saved together; save the drafter again."
        )
    return tensors


def _check_tensors(drafter: NeuralDrafter, tensors: Mapping[str, torch.Tensor], folder: Path) -> None:
    wanted = drafter.state_dict()
    missing, unexpected = sorted(wanted.keys() - tensors.keys()), sorted(tensors.keys() - wanted.keys())
    shapes = [
        f"{name} is {tuple(tensors[name].shape)}, expected {tuple(wanted[name].shape)}"
        for name in sorted(wanted.keys() & tensors.keys())
        if tensors[name].shape != wanted[name].shape
    ]
    if missing or unexpected or shapes:
        raise DrafterMismatch(
            f"{folder}/model.safetensors does not fit its config.json: missing {missing}, unexpected {unexpected},"
            f" shapes {shapes}."
        )


def _digest(config: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def _card(drafter: NeuralDrafter, sections: Mapping[str, Any]) -> str:
    """README.md: what it is, for which target, how it was made, how to use it."""
    c = drafter.config
    size = sum(parameter.numel() for parameter in drafter.parameters())
    lines = [
        f"# {c.architecture} for {c.target.get('name')}",
        "",
        f"A draft model for lossless speculative decoding: {c.proposals} tokens per round, {size / 1e6:.1f} M",
        f"parameters, {c.draft_vocab_size} of {c.vocab_size} tokens can be drafted. It works with one target only:",
        f"`{c.target.get('name')}` at revision `{c.target.get('revision')}`, whose embedding and LM head it borrows.",
        "",
        "    from angelspec.drafters.checkpoint import load_drafter",
        "    from angelspec.drafters.serving import serve",
        "    drafter = serve(load_drafter(folder, target))",
        "",
    ]
    for heading, content in sections.items():
        lines += [f"## {heading}", ""]
        rows = content.items() if isinstance(content, Mapping) else None
        lines += [f"- {key}: {value}" for key, value in rows] if rows is not None else [str(content)]
        lines.append("")
    return "\n".join(lines)
