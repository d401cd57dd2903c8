"""The packed linear layer against torch: every remainder of rows and columns, both weight types, and its refusals."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from angelspec.kernels.cpu import CompilerMissing, PackedLinear, build, find_compiler, pack, pack_linears, unpack

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="the CPU kernels need a C++ compiler")


@pytest.fixture(autouse=True)
def _kernels() -> None:
    build.load()


def reference(x: torch.Tensor, weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return (x.double() @ weight.to(dtype).double().T).float()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("rows", [0, 1, 2, 5, 6, 7, 13, 64])
@pytest.mark.parametrize(("depth", "width"), [(576, 192), (1536, 33), (769, 16), (1, 1), (5, 31)])
def test_equals_matmul(rows: int, depth: int, width: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(rows * 1000 + width)
    weight = torch.randn(width, depth, generator=generator)
    x = torch.randn(rows, depth, generator=generator)
    y = torch.ops.angelspec_cpu.packed_linear(x, pack(weight, dtype), width)
    torch.testing.assert_close(y, reference(x, weight, dtype), atol=2e-6 * depth**0.5 * 4, rtol=1e-5)


@settings(max_examples=30, deadline=None)
@given(rows=st.integers(1, 20), depth=st.integers(1, 40), width=st.integers(1, 70), seed=st.integers(0, 99))
def test_any_shape_and_round_trip(rows: int, depth: int, width: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(width, depth, generator=generator)
    assert torch.equal(unpack(pack(weight), width), weight.bfloat16())
    assert torch.equal(unpack(pack(weight, torch.float32), width), weight)
    x = torch.randn(rows, depth, generator=generator)
    y = torch.ops.angelspec_cpu.packed_linear(x, pack(weight), width)
    torch.testing.assert_close(y, reference(x, weight, torch.bfloat16), atol=1e-4, rtol=1e-4)


def test_a_row_does_not_depend_on_the_other_rows() -> None:
    """Every tile height sums in the same order, so that batching changes no bit of a row."""
    generator = torch.Generator().manual_seed(1)
    packed = pack(torch.randn(64, 900, generator=generator))
    x = torch.randn(23, 900, generator=generator)
    together = torch.ops.angelspec_cpu.packed_linear(x, packed, 64)
    alone = torch.cat([torch.ops.angelspec_cpu.packed_linear(row[None].contiguous(), packed, 64) for row in x])
    assert torch.equal(together, alone)


def test_special_values_pass_through() -> None:
    weight = torch.tensor([[1.0, 0.0], [float("inf"), 0.0], [float("nan"), 1.0]])
    y = torch.ops.angelspec_cpu.packed_linear(torch.tensor([[2.0, 3.0]]), pack(weight), 3)[0]
    assert y[0] == 2 and y[1] == float("inf") and y[2].isnan()


def test_module_stands_in_for_linear() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 40), nn.SiLU(), nn.Sequential(nn.Linear(40, 7, bias=False)))
    x = torch.randn(2, 3, 20)
    expected = model(x)
    assert pack_linears(model, torch.float32) == 2
    assert isinstance(model[0], PackedLinear) and isinstance(model[2][0], PackedLinear)
    torch.testing.assert_close(model(x), expected, atol=1e-5, rtol=1e-5)
    assert not any(p.requires_grad for p in model.parameters())


def test_tied_weights_are_packed_once() -> None:
    model = nn.Module()
    model.a, model.b, model.c = (nn.Linear(8, 8, bias=False) for _ in range(3))
    model.b.weight = model.a.weight
    assert pack_linears(model) == 3
    assert model.a.packed.data_ptr() == model.b.packed.data_ptr() != model.c.packed.data_ptr()


def test_refusals_name_shapes_and_types() -> None:
    packed = pack(torch.randn(16, 8))
    with pytest.raises(RuntimeError, match=r"expected \[.*given"):
        torch.ops.angelspec_cpu.packed_linear(torch.randn(2, 9), packed, 16)
    with pytest.raises(RuntimeError, match="contiguous float32"):
        torch.ops.angelspec_cpu.packed_linear(torch.randn(2, 8).double(), packed, 16)
    with pytest.raises(RuntimeError, match="contiguous float32"):
        torch.ops.angelspec_cpu.packed_linear(torch.randn(8, 2).T, packed, 16)
    with pytest.raises(ValueError, match="bfloat16 or float32"):
        pack(torch.randn(4, 4), torch.float16)


def test_without_a_compiler_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "find_compiler", lambda: None)
    with pytest.raises(CompilerMissing, match="g\\+\\+"):
        build.load.__wrapped__()


def test_a_failed_build_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("ANGELSPEC_CACHE", str(tmp_path))
    monkeypatch.setattr(build, "FLAGS", ("-fno-such-flag-at-all",))
    with pytest.raises(RuntimeError, match="do not compile"):
        build.load.__wrapped__()
    assert not list(build.cache_folder().glob("*"))
