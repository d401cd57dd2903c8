"""The device policy: each choice on machines this test pretends to be, and errors that say what to do."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from angelspec import device, hardware


@pytest.fixture(autouse=True)
def plain_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without GPU: 4 physical cores, AVX2, g++, nothing set in the environment."""
    for name in ("DEVICE", "DTYPE", "THREADS", "COMPILE"):
        monkeypatch.delenv(f"ANGELSPEC_{name}", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(hardware, "cpu_flags", lambda: ("avx2", "fma"))
    monkeypatch.setattr(hardware, "physical_cores", lambda: 4)
    monkeypatch.setattr(hardware, "cxx_compiler", lambda: "g++")


def _pretend_cuda(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index=0: "Some GPU")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda which=None: capability)


def test_auto_on_a_plain_cpu() -> None:
    policy = device.choose_policy()
    assert (policy.device, policy.dtype, policy.threads, policy.compile) == ("cpu", torch.bfloat16, 4, True)
    assert set(policy.reasons) == {"device", "dtype", "threads", "compile"}
    assert all(policy.reasons.values())
    assert "summed in float32" in policy.reasons["dtype"]


@pytest.mark.parametrize(
    ("flags", "compiler", "dtype", "reason"),
    [
        (("avx2", "avx512f", "avx512_bf16"), None, torch.bfloat16, "natively (avx512_bf16)"),
        (("avx2", "amx_bf16"), "g++", torch.bfloat16, "natively (amx_bf16)"),
        (("asimd", "bf16"), "g++", torch.bfloat16, "natively (bf16)"),
        (("avx2",), "g++", torch.bfloat16, "AVX2 kernel"),
        (("avx2",), None, torch.float32, "neither"),
        ((), "g++", torch.float32, "neither"),
    ],
)
def test_the_number_type_follows_the_processor(
    monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], compiler: str | None, dtype: torch.dtype, reason: str
) -> None:
    monkeypatch.setattr(hardware, "cpu_flags", lambda: flags)
    monkeypatch.setattr(hardware, "cxx_compiler", lambda: compiler)
    policy = device.choose_policy()
    assert policy.dtype is dtype
    assert reason in policy.reasons["dtype"]


@pytest.mark.parametrize(
    ("capability", "dtype"), [((9, 0), torch.bfloat16), ((8, 0), torch.bfloat16), ((7, 5), torch.float32)]
)
def test_auto_takes_the_gpu(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], dtype: torch.dtype) -> None:
    _pretend_cuda(monkeypatch, capability)
    policy = device.choose_policy()
    assert (policy.device, policy.dtype, policy.compile) == ("cuda", dtype, True)
    assert "Some GPU" in policy.reasons["device"]
    assert device.choose_policy(device="cpu").device == "cpu"


def test_auto_on_an_apple_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    policy = device.choose_policy()
    assert (policy.device, policy.dtype, policy.compile) == ("mps", torch.float32, False)
    with pytest.raises(ValueError, match="float64.*Apple"):
        device.choose_policy(dtype="float64")


def test_without_a_compiler_eager_unless_demanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "cxx_compiler", lambda: None)
    policy = device.choose_policy()
    assert policy.compile is False
    assert "no C++ compiler" in policy.reasons["compile"]
    with pytest.raises(ValueError, match=r"needs a C\+\+ compiler.*install"):
        device.choose_policy(compile=True)


def test_arguments_win_over_the_environment_which_wins_over_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANGELSPEC_DTYPE", "float64")
    monkeypatch.setenv("ANGELSPEC_THREADS", "3")
    monkeypatch.setenv("ANGELSPEC_COMPILE", "off")
    policy = device.choose_policy()
    assert (policy.dtype, policy.threads, policy.compile) == (torch.float64, 3, False)
    assert policy.reasons["dtype"] == "from ANGELSPEC_DTYPE"
    policy = device.choose_policy(dtype=torch.float32, threads=2, compile="on")
    assert (policy.dtype, policy.threads, policy.compile) == (torch.float32, 2, True)
    assert policy.reasons["threads"] == "given"


def test_openmp_setting_of_the_workflow_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert device.choose_policy().threads == 1
    assert device.choose_policy(threads=2).threads == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"device": "gpu"}, "device 'gpu' (given) is unknown; use auto, cpu, mps, cuda"),
        ({"device": "meta"}, "unknown"),
        ({"device": "cuda"}, "0 CUDA device(s). Use auto or cpu"),
        ({"device": "mps"}, "no Apple GPU"),
        ({"dtype": "half"}, "dtype 'half' (given) is unknown; use auto or one of float64, float32"),
        ({"threads": 0}, "threads 0 (given) must be a whole number of at least 1"),
        ({"compile": "maybe"}, "compile 'maybe' (given) is unknown"),
    ],
)
def test_errors_say_what_was_given_and_what_to_do(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        device.choose_policy(**arguments)  # type: ignore[arg-type]


def test_a_bad_environment_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANGELSPEC_THREADS", "many")
    with pytest.raises(ValueError, match="threads 'many' .from ANGELSPEC_THREADS."):
        device.choose_policy()


def test_the_policy_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    device._print_once.cache_clear()
    policy = device.choose_policy(threads=2)
    device.announce(policy)
    device.announce(device.choose_policy(threads=2))
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("device ") == 1
    assert len(printed.err.splitlines()) == 4


def test_the_policy_goes_into_provenance_as_json() -> None:
    policy = device.choose_policy(dtype="float32", threads=2)
    again = json.loads(json.dumps(policy.as_dict()))
    assert (again["device"], again["dtype"], again["threads"], again["compile"]) == ("cpu", "float32", 2, True)
    assert again["reasons"] == policy.reasons


def test_apply_sets_torch_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", "9")  # restored after the test, whatever apply() writes
    try:
        device.choose_policy(threads=1).apply()
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


HYPERTHREADED = """\
processor\t: 0
model name\t: Some CPU
physical id\t: 0
core id\t\t: 0
flags\t\t: fpu avx2 avx512_bf16

processor\t: 1
physical id\t: 0
core id\t\t: 0

processor\t: 2
physical id\t: 0
core id\t\t: 1

processor\t: 3
physical id\t: 0
core id\t\t: 1
"""


@pytest.mark.parametrize(("allowed", "cores"), [({0, 1, 2, 3}, 2), ({0, 1}, 1), ({1, 2}, 2)])
def test_hyper_threads_count_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, allowed: set[int], cores: int
) -> None:
    monkeypatch.undo()
    (tmp_path / "cpuinfo").write_text(HYPERTHREADED)
    monkeypatch.setattr(hardware, "_CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(hardware.os, "sched_getaffinity", lambda pid: allowed, raising=False)
    monkeypatch.setattr(hardware, "_cgroup_quota", lambda: None)
    assert hardware.physical_cores() == cores
    assert hardware.available_cores() == len(allowed)
    monkeypatch.setattr(hardware, "_cgroup_quota", lambda: 1.5)
    assert hardware.available_cores() == 1


def test_cpu_facts_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    (tmp_path / "cpuinfo").write_text(HYPERTHREADED)
    monkeypatch.setattr(hardware, "_CPUINFO", tmp_path / "cpuinfo")
    assert hardware.cpu_flags.__wrapped__() == ("avx2", "avx512_bf16")
    assert hardware.cpu_model.__wrapped__() == "Some CPU"
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert hardware.cxx_compiler.__wrapped__() is None
