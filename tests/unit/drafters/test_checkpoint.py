"""The folder on disk: complete, strict, bound to one target."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from angelspec.drafters.base import NeuralDrafter
from angelspec.drafters.checkpoint import DrafterMismatch, load_drafter, save_drafter
from angelspec.drafters.config import FORMAT_VERSION
from angelspec.training.types import PackedBatch

KINDS = ["dflash", "dfly", "mtp"]
D2T = torch.arange(2, 97, 2)


@pytest.fixture
def saved(make: Callable[..., NeuralDrafter], tmp_path: Path) -> Callable[..., Path]:
    def save(kind: str = "dfly", **fields: Any) -> Path:
        save_drafter(tmp_path / kind, make(kind, **fields), provenance={"seed": 1}, card={"Training": {"steps": 3}})
        return tmp_path / kind

    return save


def edit(folder: Path, change: Callable[[dict], None]) -> None:
    raw = json.loads((folder / "config.json").read_text())
    change(raw)
    (folder / "config.json").write_text(json.dumps(raw))


def edit_tensors(folder: Path, change: Callable[[dict], None]) -> None:
    path = folder / "model.safetensors"
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata=metadata)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d2t", [None, D2T])
def test_round_trip(
    make: Callable[..., NeuralDrafter],
    batch: PackedBatch,
    tiny_llama: Any,
    tmp_path: Path,
    kind: str,
    d2t: torch.Tensor | None,
) -> None:
    drafter = make(kind, d2t=d2t)
    save_drafter(tmp_path / "drafter", drafter, provenance={"seed": 1}, card={"Training": "three steps"})
    again = load_drafter(tmp_path / "drafter", tiny_llama)
    assert again.config == drafter.config and type(again) is type(drafter) and not again.training
    anchors = torch.tensor([6, 36])
    assert torch.equal(again.training_forward(batch, anchors).hidden, drafter.training_forward(batch, anchors).hidden)
    assert torch.equal(again.head.d2t, drafter.head.d2t)


def test_what_is_in_the_folder(saved: Callable[..., Path]) -> None:
    folder = saved("dfly", d2t=D2T)
    assert sorted(p.name for p in folder.iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
        "provenance.json",
    ]
    config = json.loads((folder / "config.json").read_text())
    expected = {
        "architectures": ["AngelSpecDFly"],
        "format_version": FORMAT_VERSION,
        "block_size": 4,
        "mask_token_id": 5,
        "target_layer_ids": [0, 1, 3],
        "draft_vocab_size": len(D2T),
        "borrowed_weights": ["embed_tokens.weight", "lm_head.weight"],
    }
    assert {key: config[key] for key in expected} == expected
    assert config["target"]["name"] == "tiny-llama" and "1 anchor" in config["block_convention"]
    names = set(load_file(folder / "model.safetensors"))
    assert "d2t" in names and not any("embed_tokens" in name or "lm_head" in name for name in names)
    card = (folder / "README.md").read_text()
    assert "tiny-llama" in card and "steps: 3" in card


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("fc.weight"), r"missing \['fc.weight'\]"),
        (lambda t: t.update(extra=torch.zeros(1)), r"unexpected \['extra'\]"),
        (lambda t: t.update({"norm.weight": torch.zeros(3)}), r"norm.weight is \(3,\), expected \(32,\)"),
        (lambda t: t.update(d2t=torch.arange(4)), "the map d2t is there"),
    ],
)
def test_tensors_that_do_not_fit(saved: Callable[..., Path], tiny_llama: Any, change: Callable, message: str) -> None:
    folder = saved()
    edit_tensors(folder, change)
    with pytest.raises(DrafterMismatch, match=message):
        load_drafter(folder, tiny_llama)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(format_version=99), "format_version is 99"),
        (lambda c: c.update(block_convention="8 predictions"), "block_convention"),
        (lambda c: c.update(model_type="eagle3"), "known are angelspec_mtp"),
        (lambda c: c.update(window=3), r"unknown keys \['window'\]"),
        (lambda c: c.pop("mask_token_id"), r"missing keys \['mask_token_id'\]"),
        (lambda c: c.update(block_size=16), "not saved together"),
        (lambda c: c.update(block_size=1), "at least 2"),
    ],
)
def test_configs_that_are_refused(saved: Callable[..., Path], tiny_llama: Any, change: Callable, message: str) -> None:
    folder = saved()
    edit(folder, change)
    with pytest.raises(DrafterMismatch, match=message):
        load_drafter(folder, tiny_llama)


def test_another_target_or_revision_is_refused(saved: Callable[..., Path], tiny_target: Callable[..., Any]) -> None:
    folder = saved()
    with pytest.raises(DrafterMismatch, match="another target: name 'tiny-llama'.*'tiny-qwen3'"):
        load_drafter(folder, tiny_target("qwen3"))
    with pytest.raises(DrafterMismatch, match="another revision of the target: revision '0'.*'7'"):
        load_drafter(folder, tiny_target("llama", seed=7))


def test_other_weights_under_the_same_name_are_refused(saved: Callable[..., Path], tiny_llama: Any) -> None:
    class Doctored:
        identity = tiny_llama.identity | {"digest": "other"}

    with pytest.raises(DrafterMismatch, match="another weights of the target|weights of the target"):
        load_drafter(saved(), Doctored())


def test_half_a_folder_is_no_drafter(saved: Callable[..., Path], tiny_llama: Any) -> None:
    folder = saved()
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: len(data) // 2])
    with pytest.raises(DrafterMismatch, match="cannot be read"):
        load_drafter(folder, tiny_llama)
    (folder / "config.json").unlink()
    with pytest.raises(DrafterMismatch, match="no config.json"):
        load_drafter(folder, tiny_llama)


def test_a_drafter_without_a_target_says_so(make: Callable[..., NeuralDrafter]) -> None:
    drafter = make("dflash")
    bare = type(drafter)(drafter.config)
    with pytest.raises(RuntimeError, match="call borrow"):
        bare.logits(torch.zeros(1, 32))
    with pytest.raises(ValueError, match="belongs to another target"):
        bare.borrow(torch.nn.Embedding(9, 32), torch.nn.Linear(32, 9, bias=False))
