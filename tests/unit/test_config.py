"""The configuration: the shipped file is complete, mistakes are one readable line, schema and dataclasses agree."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import jsonschema
import pytest
import yaml

from angelspec.config import SCALES, Config, ConfigError, build_config, load_config, schema_error

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "config" / "config.yaml"
SCHEMA = json.loads((ROOT / "workflow" / "schemas" / "config.schema.json").read_text())


@pytest.fixture
def raw() -> dict[str, Any]:
    return copy.deepcopy(yaml.safe_load(SHIPPED.read_text()))


@pytest.mark.parametrize("scale", SCALES)
def test_every_scale_is_complete_and_chosen_by_name(scale: str, raw: dict[str, Any]) -> None:
    config = load_config(SHIPPED, scale)
    assert config.scale == scale and config.budget is config.scales[scale]
    assert schema_error({**raw, "scale": scale}, SCHEMA) is None


def test_laptop_is_the_default_and_scales_grow() -> None:
    config = load_config(SHIPPED)
    assert config.scale == "laptop"
    tokens = [config.scales[scale].answers.train_tokens for scale in SCALES]
    assert tokens == sorted(tokens) and len(set(tokens)) == len(tokens)
    eval_tokens = sum(config.budget.prompts.eval.values()) * config.budget.answers.max_new_tokens
    assert config.budget.answers.train_tokens + eval_tokens <= 90_000, "the budget of scale laptop"


def test_a_scale_may_bring_its_own_target_and_sampling() -> None:
    assert load_config(SHIPPED, "gpu").target.name == "Qwen/Qwen3-8B"
    assert load_config(SHIPPED, "paper").sampling.temperature == 0.7
    assert load_config(SHIPPED, "smoke").target == load_config(SHIPPED).target


def test_overrides_replace_top_level_keys() -> None:
    assert load_config(SHIPPED, overrides={"seed": 7}).seed == 7


def test_it_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        load_config(SHIPPED).seed = 1  # type: ignore[misc]


MISTAKES: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (lambda c: c.update(sceed=1), "sceed: unknown key, did you mean seed?"),
    (lambda c: c["sampling"].update(temprature=1.0), "sampling.temprature: unknown key, did you mean temperature?"),
    (lambda c: c.update({True: 1}), "True: unknown key; known: device"),
    (lambda c: c.pop("seed"), "seed: missing"),
    (lambda c: c["scales"]["gpu"]["answers"].pop("slots"), "scales.gpu.answers.slots: missing"),
    (lambda c: c.update(scale="latop"), "did you mean laptop?"),
    (lambda c: c["scales"].update(tiny=c["scales"]["smoke"]), "scales.tiny: no scale of that name"),
    (lambda c: c["sampling"].update(temperature="1e-4"), "YAML reads 1e-4 as text, write it with a point"),
    (lambda c: c["sampling"].update(temperature=float("nan")), "sampling.temperature: nan is a float, expected a num"),
    (lambda c: c["sampling"].update(top_k=1.5), "sampling.top_k: 1.5 is a float, expected an integer"),
    (lambda c: c["sampling"].update(thinking="off"), "sampling.thinking: 'off' is a str, expected true or false"),
    (lambda c: c.update(seed=True), "seed: True is a bool, expected an integer"),
    (lambda c: c.update(target=None), "target: None is a NoneType, expected a mapping"),
    (lambda c: c["device"].update(device="gpu"), "device.device: 'gpu' is a str, expected one of auto, cpu, cuda, mps"),
    (lambda c: c["device"].update(compile=True), "device.compile: True is a bool, expected one of"),
    (lambda c: c["mixtures"].update(chat={"maths": 1.0}), "mixtures.chat.maths: no domain of that name, did you mean"),
    (lambda c: c["mixtures"]["chat"].update({True: 1.0}), "put it in quotes"),
    (lambda c: c["scales"]["smoke"]["prompts"]["eval"].update(gsm=3), "scales.smoke.prompts.eval.gsm: no source of"),
]


@pytest.mark.parametrize(("mistake", "message"), MISTAKES)
def test_a_mistake_is_one_line_that_names_the_key(mistake: Callable, message: str, raw: dict[str, Any]) -> None:
    mistake(raw)
    with pytest.raises(ConfigError) as caught:
        build_config(raw)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_what_is_no_configuration_file_is_said_so(tmp_path: Path) -> None:
    for text, message in (("a: [", "cannot be read"), ("- 1", "holds a list"), ("", "holds a NoneType")):
        path = tmp_path / "config.yaml"
        path.write_text(text)
        with pytest.raises(ConfigError, match=message):
            load_config(path)
    with pytest.raises(ConfigError, match="does not exist"):
        load_config(tmp_path / "none.yaml")


def test_a_json_copy_says_the_same(tmp_path: Path, raw: dict[str, Any]) -> None:
    raw["sampling"]["temperature"] = 0.00001  # json writes 1e-05, which YAML would read as a text
    (tmp_path / "config.json").write_text(json.dumps(raw))
    assert load_config(tmp_path / "config.json").sampling.temperature == 1.0e-5


OUT_OF_RANGE: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (lambda c: c.update(seed=-1), "seed: -1 is less than the minimum"),
    (lambda c: c["sampling"].update(top_p=0), "sampling.top_p: 0 is less than or equal"),
    (lambda c: c["target"].update(revision=None), "target.revision"),
    (lambda c: c["target"].update(sha256="abc"), "target.sha256"),
    (lambda c: c["scales"]["gpu"]["target"].update(revision="main"), "scales.gpu.target.revision: 'main'"),
    (lambda c: c["scales"]["smoke"]["answers"].update(shards=0), "scales.smoke.answers.shards: 0"),
    (lambda c: c.update(extra=1), "the configuration: Additional properties are not allowed ('extra'"),
    (lambda c: c["mixtures"].update({"a/b": {"chat": 1.0}}), "a/b"),
]


@pytest.mark.parametrize(("mistake", "message"), OUT_OF_RANGE)
def test_the_schema_refuses_what_is_out_of_range(mistake: Callable, message: str, raw: dict[str, Any]) -> None:
    mistake(raw)
    told = schema_error(raw, SCHEMA)
    assert told is not None and message in told and "\n" not in told


def test_schema_and_dataclasses_have_the_same_keys() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)

    def compare(kind: Any, node: dict[str, Any], where: str) -> None:
        node = SCHEMA["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node
        arms = [arm for arm in get_args(kind) if arm is not type(None)]
        if dataclasses.is_dataclass(kind):
            assert node["additionalProperties"] is False, where
            hints = get_type_hints(kind)
            assert set(node["properties"]) == set(hints), where
            needed = {f.name for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING}
            assert set(node["required"]) == needed, where
            for name, hint in hints.items():
                compare(hint, node["properties"][name], f"{where}.{name}")
        elif get_origin(kind) is dict:
            compare(arms[1], node["additionalProperties"], f"{where}.*")
        elif len(arms) == 1:
            compare(arms[0], node, where)
        elif "enum" in node:
            assert node["enum"] == arms, where
        else:
            names = {int: "integer", float: "number", bool: "boolean", str: "string"}
            assert names[kind] in node["type"], where

    compare(Config, SCHEMA, "config")


def test_no_number_in_the_shipped_files_is_a_text() -> None:
    for path in [SHIPPED, *(ROOT / "profiles").rglob("*.yaml")]:
        code = [line.split("#")[0] for line in path.read_text().splitlines()]
        found = [line for line in code if re.search(r"[:\[, ]\d+[eE]-?\d", line)]
        assert not found, f"{path.name}: {found}"


def test_every_key_is_explained() -> None:
    text = "\n".join(line.partition("#")[2] for line in SHIPPED.read_text().splitlines())
    names = {key for block in SCHEMA["$defs"].values() for key in block.get("properties", {})}
    unexplained = {name for name in names if not re.search(rf"\b{name}\b", text)}
    named_in_place = {"temperature", "top_p", "top_k", "thinking", "dtype", "system_prompt", "train", "eval"}
    assert unexplained <= named_in_place, unexplained
