"""From a specification to a running target."""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import nn

from angelspec.device import DevicePolicy
from angelspec.kernels.cpu import HEAD_SIZES, find_compiler, pack_linears
from angelspec.targets.attention import ATTENTION_NAME, register
from angelspec.targets.compiled import compile_layers
from angelspec.targets.fetch import fetch_target, target_identity
from angelspec.targets.float64 import keep_float64
from angelspec.targets.model import Target, TargetDims
from angelspec.targets.spec import TargetError, TargetSpec, UnsupportedTarget
from angelspec.targets.support import attention_windows


def load_target(
    spec: TargetSpec, policy: DevicePolicy, cache_dir: str | Path | None = None, *, backend: str = "auto"
) -> Target:
    """Fetch if need be, load, and wrap for the ragged forward.

    Args:
        policy: device and dtype of the weights, and whether to compile.
        cache_dir: where fetched files live; see ``angelspec.io.default_cache_dir``.
        backend: attention implementation, a key of ``attention.BACKENDS``. ``auto`` takes the C++ kernels (packed
            linear layers and attention, float32 arithmetic) for bfloat16 or float32 weights on a CPU with a C++
            compiler, else ``torch``.

    Raises:
        TargetError: the files cannot be had or read.
        UnsupportedTarget: the architecture is unknown or not computed exactly by the ragged forward.
    """
    folder = fetch_target(spec, cache_dir)
    kernels = policy.device == "cpu" and policy.dtype in (torch.bfloat16, torch.float32) and find_compiler() is not None
    if backend == "auto" and kernels:
        with contextlib.suppress(_Unfit):
            return _with_cpu_kernels(spec, folder, policy)
    elif backend == "cpu":
        return _with_cpu_kernels(spec, folder, policy)
    model, tokenizer = load_folder(folder, policy.dtype)
    if policy.dtype == torch.float64:
        keep_float64(model)
    backend = "torch" if backend == "auto" else backend
    return Target(model.to(policy.device), tokenizer, target_identity(spec, folder), backend=backend)


class _Unfit(UnsupportedTarget):
    """The C++ kernels do not serve this model (head size, sliding windows)."""


def _with_cpu_kernels(spec: TargetSpec, folder: Path, policy: DevicePolicy) -> Target:
    """Linear weights packed in ``policy.dtype``, activations float32, the layer compiled once if the policy says so."""
    model, tokenizer = load_folder(folder, torch.float32)
    size = TargetDims.from_config(model.config).head_dim
    if size not in HEAD_SIZES or attention_windows(model.config) != (None,):
        raise _Unfit(
            f"the CPU kernels serve full attention with head sizes {HEAD_SIZES}; this target has size {size} and"
            f" windows {attention_windows(model.config)}. Use backend='torch'"
        )
    embedding = model.get_input_embeddings().weight
    with torch.no_grad():
        embedding.copy_(embedding.to(policy.dtype))  # the values of the (often tied) head, whatever holds them
    pack_linears(model, policy.dtype)
    target = Target(model, tokenizer, target_identity(spec, folder), backend="cpu", cache_dtype=policy.dtype)
    if policy.compile:
        try:
            target.compile_seconds = compile_layers(model, policy.dtype)
            target.compiled = True
        except Exception as error:  # torch.export has no common base for what it cannot trace
            warnings.warn(
                f"the decoder layer runs uncompiled, about 3x slower at one request: {error!s:.300}", stacklevel=3
            )
    return target


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
    except (OSError, RuntimeError, SafetensorError) as error:
        raise TargetError(f"the weights in {folder} cannot be read: {error}") from error
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **options)
    except (ValueError, KeyError, OSError) as error:
        raise TargetError(f"the tokenizer in {folder} cannot be read: {error}") from error
    return model.eval(), tokenizer
