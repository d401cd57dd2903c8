"""A GGUF file, turned once into an ordinary transformers folder: safetensors in float32, tokenizer, chat template."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from angelspec.targets.spec import TargetError, UnsupportedTarget

CONVERTER = 1  # raise it when the files written for the same GGUF change: old folders are then converted again


def convert_gguf(path: Path, out: Path) -> None:
    """Dequantise ``path`` and write a folder that ``from_pretrained`` reads. Needs memory for the float32 weights.

    float32, because a 4-bit value times a 16-bit scale plus a 16-bit minimum fits in no 16-bit type.

    Raises:
        UnsupportedTarget: an architecture or a tokenizer that transformers (or we) would convert wrongly.
        TargetError: a damaged file, or a conversion that leaves a parameter without a value.
    """
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    try:
        config = AutoConfig.from_pretrained(path.parent, gguf_file=path.name)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    except (ValueError, KeyError) as error:
        raise UnsupportedTarget(f"{path.name}: transformers does not know this architecture ({error})") from error
    _fill(model, path)
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    set_pre_tokenizer(tokenizer, pre_tokenizer_name(path))
    tokenizer.model_max_length = config.max_position_embeddings
    if not tokenizer.chat_template:
        raise UnsupportedTarget(f"{path.name} has no chat template; a target must know how a conversation is written")
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def _fill(model: Any, path: Path) -> None:
    """Give every parameter of the meta model its dequantised value.

    ``from_pretrained(gguf_file=...)`` would do, but its result refuses to be saved and it insists on accelerate.
    """
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    try:
        tensors = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=model)["tensors"]
    except (ValueError, OSError) as error:
        raise TargetError(f"{path.name} cannot be dequantised: {error}") from error
    state = {name: torch.as_tensor(tensor).to(torch.float32) for name, tensor in tensors.items()}
    wanted = dict(model.named_parameters())  # a tied lm_head is listed once, under the embedding's name
    if set(state) != set(wanted):
        missing, extra = sorted(set(wanted) - set(state)), sorted(set(state) - set(wanted))
        raise TargetError(f"{path.name}: no value for {missing[:3]}, no place for {extra[:3]}")
    model.load_state_dict(state, strict=False, assign=True)
    model.tie_weights()
    on_meta = [name for name, value in model.named_parameters() if value.is_meta]
    if on_meta:
        raise TargetError(f"{path.name}: these parameters got no value: {on_meta[:3]}")


def pre_tokenizer_name(path: Path) -> str | None:
    """``tokenizer.ggml.pre`` of the file: how text is cut before byte-pair merging."""
    from gguf import GGUFReader

    field = GGUFReader(path).get_field("tokenizer.ggml.pre")
    return None if field is None else str(field.contents())


def set_pre_tokenizer(tokenizer: Any, name: str | None) -> None:
    """Cut text as the vocabulary's merges were learned.

    transformers 5.24 knows a list of names and silently takes GPT-2's rule for every other. For ``smollm`` that is
    wrong: each digit stands alone there, so GPT-2's rule makes other tokens of two line breaks before a digit.

    Raises:
        UnsupportedTarget: for a name whose rule neither transformers nor this function knows.
    """
    from tokenizers import pre_tokenizers
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    if name == "smollm":
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    elif name not in GGUF_PRE_TOKENIZER_SPLITS and name not in (None, "default", "gpt-2"):
        raise UnsupportedTarget(
            f"the GGUF file cuts text by the rule {name!r}, unknown here; use the model's safetensors repository"
        )
