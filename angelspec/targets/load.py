"""From a specification to a running target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from angelspec.device import DevicePolicy
from angelspec.targets.attention import ATTENTION_NAME, register
from angelspec.targets.fetch import fetch_target, target_identity
from angelspec.targets.float64 import keep_float64
from angelspec.targets.model import Target
from angelspec.targets.spec import TargetError, TargetSpec, UnsupportedTarget


def load_target(
    spec: TargetSpec,
    policy: DevicePolicy,
    cache_dir: str | Path | None = None,
    *,
    prepare: Callable[[nn.Module], None] | None = None,
    backend: str = "torch",
) -> Target:
    """Fetch if need be, load, and wrap for the ragged forward.

    Args:
        policy: device and dtype of the weights.
        cache_dir: where fetched files live; see ``spec.default_cache_dir``.
        prepare: called with the model after loading, to replace modules (packed linears, say). With it the weights are
            loaded in float32 and stay on the CPU: what else they become is its business.
        backend: attention implementation, a key of ``attention.BACKENDS``.

    Raises:
        TargetError: the files cannot be had or read.
        UnsupportedTarget: the architecture is unknown or not computed exactly by the ragged forward.
    """
    folder = fetch_target(spec, cache_dir)
    dtype = torch.float32 if prepare is not None else policy.dtype
    model, tokenizer = load_folder(folder, dtype)
    if dtype == torch.float64:
        keep_float64(model)
    if prepare is not None:
        prepare(model)
    else:
        model = model.to(policy.device)
    return Target(model, tokenizer, target_identity(spec, folder), backend=backend)


def load_folder(folder: Path, dtype: torch.dtype) -> tuple[nn.Module, object]:
    """Model (in eval mode, on the CPU) and tokenizer of a transformers folder; safetensors only, no code from it."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    register()
    options = {"local_files_only": True, "trust_remote_code": False}
    try:
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, use_safetensors=True, attn_implementation=ATTENTION_NAME, **options
        )
    except (ValueError, KeyError) as error:
        raise UnsupportedTarget(f"transformers cannot build the model in {folder}: {error}") from error
    except (OSError, RuntimeError) as error:
        raise TargetError(f"the weights in {folder} cannot be read: {error}") from error
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **options)
    except (ValueError, KeyError, OSError) as error:
        raise TargetError(f"the tokenizer in {folder} cannot be read: {error}") from error
    return model.eval(), tokenizer
