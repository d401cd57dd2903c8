"""The decoder layer of a CPU target, compiled ahead of time once and called for every layer.

``torch.export`` traces one layer with its weights, cache and row count as inputs, AOTInductor compiles it, and the
package is kept in the cache folder: later processes load it in milliseconds. So a model costs one layer's compilation
whatever its depth, and a call has neither guards nor Python in it, which at one request is a third of a step (measured
on two Zen 3 cores, 30 layers: 16 to 20 ms a step, against 31 ms with ``torch.compile`` of the same layer, guards
removed, and 79 ms eagerly).
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from angelspec.io import atomic_path
from angelspec.kernels.cpu import build
from angelspec.provenance import source_digest
from angelspec.targets.model import TargetDims
from angelspec.targets.ragged import LayerContext

MIN_ROWS, MAX_ROWS = 2, 1 << 16  # export specialises on one row, so that a lone row is sent twice (see Target.forward)


def _state(layer: nn.Module) -> dict[str, Tensor]:
    return {**dict(layer.named_parameters()), **dict(layer.named_buffers())}


class _LayerCall(nn.Module):
    """The layer as a function of tensors: hidden, rotary cosines and sines, cache, rows, then the weights."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self._layer = [layer]  # hidden in a list: its weights are inputs here, not parameters of the exported program
        self._names = list(_state(layer))

    def forward(
        self,
        hidden: Tensor,
        cos: Tensor,
        sin: Tensor,
        k: Tensor,
        v: Tensor,
        slots: Tensor,
        positions: Tensor,
        *weights: Tensor,
    ) -> Tensor:
        options = {
            "position_embeddings": (cos, sin),
            "attention_mask": None,
            "ragged": LayerContext(k, v, slots, positions),
        }
        state = dict(zip(self._names, weights, strict=True))
        output = torch.func.functional_call(self._layer[0], state, (hidden,), options)
        return output[0] if isinstance(output, tuple) else output


def _package_path(layer: nn.Module, config: Any, cache_dtype: torch.dtype) -> Path:
    import transformers

    parts = {
        "layer": Path(inspect.getfile(type(layer))).read_text(),
        "config": {key: value for key, value in config.to_dict().items() if not key.startswith("_name")},
        "state": {name: [str(tensor.dtype), *tensor.shape] for name, tensor in _state(layer).items()},
        "cache": str(cache_dtype),
        "here": source_digest(
            Path(__file__), Path(__file__).with_name("attention.py"), Path(__file__).with_name("ragged.py")
        ),
        "kernels": build.fingerprint(),
        "versions": [torch.__version__, transformers.__version__],
        "parallel": torch.get_num_threads() > 1,
    }
    key = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]
    return build.cache_folder() / f"layer_{key}.pt2"


def _compile(layer: nn.Module, rotary: Callable[..., Any], config: Any, cache_dtype: torch.dtype, path: Path) -> None:
    from torch._inductor import aoti_compile_and_package
    from torch.export import Dim, export

    rows = 6
    positions = torch.arange(rows)
    hidden = torch.zeros(1, rows, config.hidden_size)
    cos, sin = rotary(hidden, positions[None])
    dims = TargetDims.from_config(config)
    cache = [torch.zeros(8, 16, dims.num_kv_heads, dims.head_dim, dtype=cache_dtype) for _ in range(2)]
    weights = tuple(tensor.detach() for tensor in _state(layer).values())
    n, slots, length = Dim("rows", min=MIN_ROWS, max=MAX_ROWS), Dim("slots", min=2), Dim("length", min=2)
    by_row, in_cache = {1: n}, {0: slots, 1: length}
    shapes = (by_row, by_row, by_row, in_cache, in_cache, {0: n}, {0: n}, tuple(None for _ in weights))
    arguments = (hidden, cos, sin, *cache, torch.arange(rows), positions, *weights)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecation notices from inside torch
        program = export(_LayerCall(layer), arguments, dynamic_shapes=shapes)
        with atomic_path(path) as temporary:
            package = temporary.with_suffix(".pt2")  # AOTInductor insists on the suffix
            aoti_compile_and_package(program, package_path=str(package))
            package.replace(temporary)


def compile_layers(model: nn.Module, cache_dtype: torch.dtype) -> float:
    """Replace the ``forward`` of every decoder layer by the compiled one; the seconds spent compiling (0 when cached).

    Layers of one class and equal shapes share one package. Raises whatever torch.export raises for a layer that cannot
    be traced (data-dependent routing, say): the caller decides to go on without.
    """
    build.load()
    started, compiled = time.perf_counter(), False
    load = importlib.import_module("torch._inductor").aoti_load_package
    runners: dict[Path, Any] = {}
    base = model.base_model
    for index, layer in enumerate(base.layers):
        path = _package_path(layer, model.config, cache_dtype)
        if path not in runners:
            if not path.exists():
                _compile(layer, base.rotary_emb, model.config, cache_dtype, path)
                compiled = True
            # The loader below the package's __call__, which flattens nested arguments we do not have: 40 us a layer.
            runners[path] = load(str(path)).loader
        layer.forward = _bind(runners[path], index, [tensor.detach() for tensor in _state(layer).values()])
    return time.perf_counter() - started if compiled else 0.0


def _bind(runner: Any, index: int, weights: list[Tensor]) -> Callable[..., Tensor]:
    def forward(hidden_states: Tensor, *, position_embeddings: tuple[Tensor, Tensor], ragged: Any, **_: Any) -> Tensor:
        k, v = ragged.layer_cache(index)
        arguments = [hidden_states, *position_embeddings, k, v, ragged.slots, ragged.positions, *weights]
        output: Tensor = runner.boxed_run(arguments)[0]
        return output

    return forward
