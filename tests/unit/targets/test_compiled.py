"""The compiled layer of the CPU path against the same model run by torch, and its cache."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from angelspec.device import DevicePolicy
from angelspec.kernels.cpu import build, find_compiler
from angelspec.targets import compiled
from angelspec.targets.load import load_target
from angelspec.targets.rows import Rows
from angelspec.targets.spec import SMOLLM2

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="the CPU kernels need a C++ compiler")
LAYERS = (1, 14, 27)


def policy(dtype: torch.dtype) -> DevicePolicy:
    return DevicePolicy("cpu", dtype, torch.get_num_threads(), True, {})


@pytest.fixture(scope="module")
def fast() -> Any:
    return load_target(SMOLLM2, policy(torch.bfloat16))


@pytest.fixture(scope="module")
def plain(fast: Any, smollm2: Any) -> Any:
    """The torch target with the fast one's weights: linear layers and embedding rounded to bfloat16."""
    import copy

    from angelspec.targets.model import Target

    model = copy.deepcopy(smollm2.model)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.Linear | torch.nn.Embedding):
                module.weight.copy_(module.weight.bfloat16())
    return Target(model, smollm2.tokenizer, smollm2.identity)


def ragged_rows(target: Any) -> Rows:
    generator = torch.Generator().manual_seed(0)
    lengths = {2: 40, 0: 1, 5: 17}
    pieces = [
        (slot, 0, torch.randint(0, target.dims.vocab_size, (n,), generator=generator).tolist())
        for slot, n in lengths.items()
    ]
    return Rows.concatenate(pieces)


def test_equals_torch_with_the_same_weights(fast: Any, plain: Any) -> None:
    """The KV cache is bfloat16 here and float32 there, which is all that may differ: 1e-2 of the features' size."""
    assert fast.compiled and fast.cache_dtype == torch.bfloat16
    rows = ragged_rows(fast)
    a = fast.forward(rows, fast.new_cache(8, 64), layer_ids=LAYERS)
    b = plain.forward(rows, plain.new_cache(8, 64), layer_ids=LAYERS)
    for ours, theirs in ((a.features, b.features), (a.final_hidden, b.final_hidden), (a.logits, b.logits)):
        assert (ours - theirs).norm() < 1e-2 * theirs.norm()
    agree = (a.logits.argmax(-1) == b.logits.argmax(-1)).float().mean()
    assert agree > 0.9


def test_float32_kernels_equal_torch_closely(smollm2: Any) -> None:
    """Float32 weights and cache: the same numbers up to the order of the sums."""
    uncompiled = DevicePolicy("cpu", torch.float32, torch.get_num_threads(), False, {})
    kernels = load_target(SMOLLM2, uncompiled)
    rows = ragged_rows(kernels)
    a = kernels.forward(rows, kernels.new_cache(8, 64), layer_ids=LAYERS)
    b = smollm2.forward(rows, smollm2.new_cache(8, 64), layer_ids=LAYERS)
    torch.testing.assert_close(a.logits, b.logits, atol=2e-3, rtol=1e-4)
    torch.testing.assert_close(a.final_hidden, b.final_hidden, atol=2e-3, rtol=1e-4)
    assert (a.features - b.features).norm() < 1e-5 * b.features.norm()


def test_rows_do_not_depend_on_the_batch(fast: Any) -> None:
    """A lone row (sent twice) and the same row among others give the same bits."""
    cache = fast.new_cache(8, 64)
    prompt = Rows.concatenate([(s, 0, [5, 6, 7, 8 + s]) for s in range(6)])
    fast.forward(prompt, cache)
    row = Rows(torch.tensor([9]), torch.tensor([4]), torch.tensor([3]))
    alone = fast.forward(row, cache, layer_ids=LAYERS)
    assert alone.features.shape == (1, 3, fast.dims.hidden_size)
    together = fast.forward(Rows.concatenate([(s, 4, [9]) for s in range(6)]), cache, layer_ids=LAYERS)
    torch.testing.assert_close(alone.logits[0], together.logits[3], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(alone.features[0], together.features[3], atol=1e-4, rtol=1e-5)


def test_the_package_is_found_again(fast: Any) -> None:
    again = load_target(SMOLLM2, policy(torch.bfloat16))
    assert again.compiled and again.compile_seconds == 0.0


def test_the_package_name_follows_what_decides_its_code(fast: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, config = fast.layers[0], fast.config
    path = compiled._package_path(layer, config, torch.bfloat16)
    assert path == compiled._package_path(fast.layers[7], config, torch.bfloat16)
    assert path != compiled._package_path(layer, config, torch.float32)
    monkeypatch.setattr(build, "FLAGS", ("-O2",))
    assert path != compiled._package_path(layer, config, torch.bfloat16)


def test_a_layer_that_cannot_be_traced_runs_uncompiled_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> float:
        raise RuntimeError("data-dependent routing")

    monkeypatch.setattr("angelspec.targets.load.compile_layers", refuse)
    with pytest.warns(UserWarning, match="uncompiled.*data-dependent routing"):
        target = load_target(SMOLLM2, policy(torch.bfloat16))
    assert not target.compiled
    out = target.forward(Rows.concatenate([(0, 0, [1])]), target.new_cache(2, 8))
    assert out.logits.shape == (1, target.dims.vocab_size)
