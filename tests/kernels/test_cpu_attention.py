"""The CPU attention kernel against a loop over rows in float64."""

from __future__ import annotations

import pytest
import torch

from angelspec.kernels.cpu import HEAD_SIZES, build, find_compiler

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="the CPU kernels need a C++ compiler")


@pytest.fixture(autouse=True)
def _kernels() -> None:
    build.load()


def naive(q, k, v, k_cache, v_cache, slots, positions, scale, window):  # type: ignore[no-untyped-def]
    """Row by row: write, then softmax over the visible positions; returns the output and the written caches."""
    k_cache, v_cache = k_cache.clone(), v_cache.clone()
    k_cache[slots, positions], v_cache[slots, positions] = k.to(k_cache.dtype), v.to(v_cache.dtype)
    group, out = q.shape[1] // k.shape[1], []
    for row, slot, position in zip(q, slots.tolist(), positions.tolist(), strict=True):
        visible = slice(max(0, position - window + 1) if window else 0, position + 1)
        keys = k_cache[slot, visible].double().repeat_interleave(group, 1)
        values = v_cache[slot, visible].double().repeat_interleave(group, 1)
        weights = torch.softmax(scale * torch.einsum("hd,jhd->hj", row.double(), keys), -1)
        out.append(torch.einsum("hj,jhd->hd", weights, values).float())
    return torch.stack(out), k_cache, v_cache


def case(heads: int, kv_heads: int, dim: int, dtype: torch.dtype, seed: int = 0, spread: float = 1.0):  # type: ignore[no-untyped-def]
    """Three decoding rows, a verification of four and a prefill chunk of 20, over a cache full of others' data."""
    g = torch.Generator().manual_seed(seed)
    slots = torch.tensor([4] * 4 + [0] + [2] * 20 + [1, 3])
    positions = torch.tensor([30, 31, 32, 33, 0, *range(5, 25), 63, 17])
    n = len(slots)
    q, k, v = (torch.randn(n, h, dim, generator=g) for h in (heads, kv_heads, kv_heads))
    caches = [torch.randn(5, 64, kv_heads, dim, generator=g).to(dtype) for _ in range(2)]
    return q * spread, k, v, *caches, slots, positions


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("window", [0, 1, 7, 1000])
@pytest.mark.parametrize(("heads", "kv_heads", "dim"), [(9, 3, 64), (4, 4, 16), (8, 1, 32), (14, 2, 128), (5, 1, 96)])
def test_equals_a_loop(heads: int, kv_heads: int, dim: int, window: int, dtype: torch.dtype) -> None:
    arguments = case(heads, kv_heads, dim, dtype)
    expected, k_after, v_after = naive(*arguments, dim**-0.5, window)
    out = torch.ops.angelspec_cpu.ragged_attention(*arguments, dim**-0.5, window)
    torch.testing.assert_close(out, expected, atol=5e-6, rtol=1e-5)
    assert torch.equal(arguments[3], k_after) and torch.equal(arguments[4], v_after)


@pytest.mark.parametrize("spread", [1e-3, 30.0, 1e4])
def test_flat_and_peaked_scores(spread: float) -> None:
    """Scores spread over hundreds of nats exercise the clamp of the exponential; nothing becomes NaN."""
    arguments = case(9, 3, 64, torch.float32, seed=3, spread=spread)
    expected, *_ = naive(*arguments, 0.125, 0)
    out = torch.ops.angelspec_cpu.ragged_attention(*arguments, 0.125, 0)
    torch.testing.assert_close(out, expected, atol=2e-5, rtol=1e-4)


def test_rows_do_not_see_later_positions_or_other_slots() -> None:
    arguments = case(9, 3, 64, torch.float32, seed=5)
    out = torch.ops.angelspec_cpu.ragged_attention(*[t.clone() for t in arguments], 0.125, 0)
    _, _, _, k_cache, v_cache, slots, positions = arguments
    for slot in range(5):
        last = positions[slots == slot].max()
        k_cache[slot, last + 1 :] = float("nan")
        v_cache[slot, last + 1 :] = float("nan")
    assert torch.equal(torch.ops.angelspec_cpu.ragged_attention(*arguments, 0.125, 0), out)


def test_refusals_leave_the_cache_alone() -> None:
    arguments = list(case(9, 3, 64, torch.float32))
    before = arguments[3].clone()
    wrong = arguments[6].clone()
    wrong[-1] = 64
    with pytest.raises(RuntimeError, match="position 64"):
        torch.ops.angelspec_cpu.ragged_attention(*arguments[:6], wrong, 0.125, 0)
    assert torch.equal(arguments[3], before)
    odd = case(4, 4, 24, torch.float32)
    with pytest.raises(RuntimeError, match="head size 24"):
        torch.ops.angelspec_cpu.ragged_attention(*odd, 0.2, 0)
    assert HEAD_SIZES == (16, 32, 64, 96, 128)
