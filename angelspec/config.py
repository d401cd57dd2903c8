"""The configuration as frozen dataclasses, built from ``config/config.yaml`` (which is the manual of every key).

A key that is not known here is an error with the closest known key in the message, a missing key is an error, and so is
a value of another type. Nothing has a default in code: what a run used is what the file says. The block of the chosen
scale is ``Config.budget``; a scale may bring its own ``target`` or ``sampling`` in place of the shared one.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import re
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from angelspec.jobs import skip_uri_grammar

SCALES = ("smoke", "laptop", "reference", "overnight", "gpu", "paper")
SPLITS = ("train", "eval")
_YAML_STRING_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?\d+")


class ConfigError(ValueError):
    """The configuration cannot be used. The message is one line: key, what was given, what was expected, what to do."""


@dataclasses.dataclass(frozen=True)
class TargetConfig:
    """Which model is served: a GGUF file in a PyPI wheel, a Hub repository at a revision, or a local folder."""

    kind: Literal["wheel", "hub", "folder"]
    name: str  # distribution, Hub id, or path of the folder
    revision: str | None  # version of the wheel, commit of the Hub repository; None for a folder
    file: str | None  # the GGUF inside the wheel
    sha256: str | None  # of that file
    dtype: Literal["float32", "bfloat16", "float16"]


@dataclasses.dataclass(frozen=True)
class DeviceConfig:
    """Wishes about where and how to compute; ``angelspec.device.choose_policy`` decides and gives its reasons."""

    device: Literal["auto", "cpu", "cuda", "mps"]
    compile: Literal["auto", "on", "off"]


@dataclasses.dataclass(frozen=True)
class SamplingConfig:
    """How the target is served. The drafters are trained on answers given in exactly this mode."""

    temperature: float
    top_p: float
    top_k: int
    thinking: bool
    system_prompt: str | None


@dataclasses.dataclass(frozen=True)
class SourceConfig:
    """Where prompts of one domain come from. Fields that a kind does not use are null."""

    domain: str  # chat, code, math, or the name of a data set that is evaluated on its own
    kind: Literal["builtin", "wheel", "jsonl", "hub"]
    name: str  # generator, distribution, path of the JSONL file, or Hub id
    revision: str | None  # version of the wheel, commit of the Hub data set
    file: str | None  # file inside the wheel
    sha256: str | None
    subset: str | None  # configuration name of the Hub data set
    split: str | None
    field: str | None  # column that holds the prompt
    licence: str


@dataclasses.dataclass(frozen=True)
class PromptBudget:
    """Prompts per source, for training and for evaluation."""

    train: dict[str, int]
    eval: dict[str, int]
    max_tokens: int  # longer prompts are skipped and counted


@dataclasses.dataclass(frozen=True)
class AnswerBudget:
    """How much the target answers, and how the work is cut."""

    train_tokens: int  # answer tokens over all training shards, at most
    max_new_tokens: int  # per answer
    shards: int  # files (and jobs) of the training answers
    eval_shards: int
    slots: int  # requests answered at the same time
    layers: int  # captured target layers T


@dataclasses.dataclass(frozen=True)
class MixtureBudget:
    tokens: int  # answer tokens of each mixture, at most


@dataclasses.dataclass(frozen=True)
class ScaleConfig:
    """One scale: budgets of the stages."""

    summary: str
    comparable: bool  # False: every number of this scale is badged "not comparable"
    prompts: PromptBudget
    answers: AnswerBudget
    mixtures: MixtureBudget
    target: TargetConfig | None = None
    sampling: SamplingConfig | None = None


@dataclasses.dataclass(frozen=True)
class Config:
    """Everything a run depends on. ``target`` and ``sampling`` are those of the active scale."""

    scale: Literal["smoke", "laptop", "reference", "overnight", "gpu", "paper"]
    seed: int
    target: TargetConfig
    device: DeviceConfig
    sampling: SamplingConfig
    sources: dict[str, SourceConfig]
    mixtures: dict[str, dict[str, float]]  # mixture -> domain -> weight
    scales: dict[str, ScaleConfig]

    @property
    def budget(self) -> ScaleConfig:
        return self.scales[self.scale]


def load_config(path: str | Path, scale: str | None = None, overrides: Mapping[str, Any] | None = None) -> Config:
    """Read ``path``, replace top-level keys by ``overrides``, choose ``scale``, and check all of it.

    Raises:
        ConfigError: one line with the key, the value, what was expected and what to do.
    """
    import yaml

    try:
        text = Path(path).read_text(encoding="utf-8")
        raw = json.loads(text) if Path(path).suffix == ".json" else yaml.safe_load(text)  # in JSON 1e-4 is a number
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist; the shipped file is config/config.yaml") from None
    except (yaml.YAMLError, json.JSONDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(raw, dict):
        raise ConfigError(f"{path} holds a {type(raw).__name__}, expected a mapping of keys (see config/config.yaml)")
    return build_config({**raw, **(overrides or {}), **({"scale": scale} if scale else {})})


def build_config(raw: Mapping[str, Any]) -> Config:
    """Check a configuration mapping (as read from YAML, or Snakemake's ``config``) and freeze it."""
    config: Config = _build(Config, raw, "")
    for name in config.scales:
        if name not in SCALES:
            raise ConfigError(f"scales.{name}: no scale of that name{_suggest(name, set(SCALES))}")
    if config.scale not in config.scales:
        raise ConfigError(f"scale: {config.scale!r} has no block under scales; those there are: {_list(config.scales)}")
    _check_names("mixtures", config.mixtures, {source.domain for source in config.sources.values()}, "domain")
    for split in SPLITS:
        for name, block in config.scales.items():
            counts = getattr(block.prompts, split)
            _check_names(f"scales.{name}.prompts", {split: counts}, set(config.sources), "source")
    budget = config.budget
    return dataclasses.replace(
        config, target=budget.target or config.target, sampling=budget.sampling or config.sampling
    )


def schema_error(raw: Mapping[str, Any], schema: Mapping[str, Any]) -> str | None:
    """The most telling violation of a JSON schema (draft 2020-12) as one line, or None."""
    skip_uri_grammar()
    import jsonschema

    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(raw))
    if error is None:
        return None
    where = ".".join(str(part) for part in error.absolute_path) or "the configuration"
    return f"{where}: {' '.join(error.message.split())}; legal values are explained in config/config.yaml"


def _check_names(where: str, groups: Mapping[str, Mapping[str, Any]], known: set[str], what: str) -> None:
    for group, members in groups.items():
        for name in members:
            if name not in known:
                raise ConfigError(f"{where}.{group}.{name}: no {what} of that name{_suggest(name, known)}")


def _build(kind: Any, value: Any, where: str) -> Any:
    """Turn ``value`` into ``kind`` (a dataclass, a container or a scalar) or say at which key it does not fit."""
    origin = get_origin(kind)
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(kind, value, where)
    if origin is dict:
        if not isinstance(value, Mapping):
            raise ConfigError(_mismatch(where, value, "a mapping"))
        return {_key(key, where): _build(get_args(kind)[1], item, f"{where}.{key}") for key, item in value.items()}
    if origin in (types.UnionType, Union):
        if value is None:
            return None
        return _build(next(arm for arm in get_args(kind) if arm is not type(None)), value, where)
    if origin is Literal:
        if value in get_args(kind) and not isinstance(value, bool):
            return value
        legal = set(get_args(kind))
        raise ConfigError(f"{_mismatch(where, value, 'one of ' + _list(get_args(kind)))}{_suggest(value, legal)}")
    return _build_scalar(kind, value, where)


def _build_dataclass(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise ConfigError(_mismatch(where, value, "a mapping"))
    hints = get_type_hints(kind)
    for key in value:
        if key not in hints:
            path = f"{where}.{key}".lstrip(".")
            raise ConfigError(f"{path}: unknown key{_suggest(key, set(hints))}; config/config.yaml explains every key")
    missing = [
        field.name
        for field in dataclasses.fields(kind)
        if field.name not in value and field.default is dataclasses.MISSING
    ]
    if missing:
        path = f"{where}.{missing[0]}".lstrip(".")
        raise ConfigError(f"{path}: missing; config/config.yaml shows a complete file")
    return kind(**{key: _build(hints[key], item, f"{where}.{key}".lstrip(".")) for key, item in value.items()})


def _build_scalar(kind: type, value: Any, where: str) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if fits and not (kind is float and not math.isfinite(value)):
        return value
    names = {int: "an integer", float: "a number", bool: "true or false", str: "a text"}
    hint = ""
    if kind in (int, float) and isinstance(value, str) and _YAML_STRING_NUMBER.fullmatch(value):
        hint = f"; YAML reads {value} as text, write it with a point and a sign: {float(value):.1e}"
    raise ConfigError(_mismatch(where, value, names[kind]) + hint)


def _key(key: Any, where: str) -> str:
    if isinstance(key, str):
        return key
    raise ConfigError(
        f"{where}: key {key!r} is a {type(key).__name__}; put it in quotes (YAML reads on, off, yes, no as booleans)"
    )


def _mismatch(where: str, value: Any, expected: str) -> str:
    return f"{where or 'the configuration'}: {value!r} is a {type(value).__name__}, expected {expected}"


def _list(names: Any) -> str:
    return ", ".join(str(name) for name in names)


def _suggest(name: Any, known: set[str]) -> str:
    close = difflib.get_close_matches(str(name), sorted(known), n=1)
    return f", did you mean {close[0]}?" if close else f"; known: {_list(sorted(known))}"
