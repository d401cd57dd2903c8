"""One decision about device, number type, threads and compilation, with the reason for each choice.

Everything that computes takes a :class:`DevicePolicy`; the policy is printed once and recorded in provenance. Arguments
win over the environment (``ANGELSPEC_DEVICE``, ``ANGELSPEC_DTYPE``, ``ANGELSPEC_THREADS``, ``ANGELSPEC_COMPILE``),
which wins over the automatic choice.
"""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import dataclass
from typing import Any

import torch

from angelspec import hardware

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class DevicePolicy:
    """Where and how tensors are computed.

    Attributes:
        device: torch device string, ``cpu``, ``mps``, ``cuda`` or ``cuda:<i>``.
        dtype: type of the weights. On a CPU without bfloat16 units, ``bfloat16`` means: linear weights stored in
            bfloat16 (half the bytes to read a step), activations and accumulation in float32.
        threads: CPU threads torch and OpenMP may use.
        compile: whether ``torch.compile`` is used.
        reasons: why, one sentence for each of the four fields.
    """

    device: str
    dtype: torch.dtype
    threads: int
    compile: bool
    reasons: dict[str, str]

    def apply(self) -> DevicePolicy:
        """Set torch's thread count (and OpenMP's, for child processes); returns itself for chaining."""
        torch.set_num_threads(self.threads)
        os.environ["OMP_NUM_THREADS"] = str(self.threads)
        return self

    def as_dict(self) -> dict[str, Any]:
        """The policy in plain JSON types, for provenance."""
        return {
            "device": self.device,
            "dtype": str(self.dtype).removeprefix("torch."),
            "threads": self.threads,
            "compile": self.compile,
            "reasons": dict(self.reasons),
        }

    def describe(self) -> str:
        """Four lines: each choice and its reason."""
        values = self.as_dict()
        return "\n".join(f"{name:<8} {values[name]!s:<9} {self.reasons[name]}" for name in self.reasons)


def choose_policy(
    device: str = "auto",
    dtype: str | torch.dtype = "auto",
    threads: int | None = None,
    compile: bool | str = "auto",
) -> DevicePolicy:
    """Decide on device, dtype, threads and compilation.

    Raises:
        ValueError: for an unknown name, a device this machine lacks, or compilation without a compiler. The message
            says what was given, what is possible, and what to do.
    """
    device, device_reason = _choose_device(_given(device, "DEVICE"))
    chosen_dtype, dtype_reason = _choose_dtype(_given(dtype, "DTYPE"), device)
    count, threads_reason = _choose_threads(_given("auto" if threads is None else threads, "THREADS"))
    compiled, compile_reason = _choose_compile(_given(compile, "COMPILE"), device)
    reasons = {"device": device_reason, "dtype": dtype_reason, "threads": threads_reason, "compile": compile_reason}
    return DevicePolicy(device, chosen_dtype, count, compiled, reasons)


@functools.cache
def _print_once(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def announce(policy: DevicePolicy) -> None:
    """Print the policy to standard error, once per process however often it is called."""
    _print_once(policy.describe())


def _given(value: Any, name: str) -> tuple[Any, str]:
    """The value that counts and where it came from: the argument, else the environment, else ("auto", "")."""
    if value != "auto":
        return value, "given"
    variable = f"ANGELSPEC_{name}"
    return (os.environ[variable], f"from {variable}") if os.environ.get(variable) else ("auto", "")


def _choose_device(given: tuple[Any, str]) -> tuple[str, str]:
    name, origin = str(given[0]), given[1]
    if name == "auto":
        if torch.cuda.is_available():
            return "cuda", f"torch sees {torch.cuda.get_device_name(0)}"
        if torch.backends.mps.is_available():
            return "mps", "torch sees an Apple GPU"
        return "cpu", "torch sees neither a CUDA nor an Apple GPU"
    try:
        parsed = torch.device(name)
    except RuntimeError:
        parsed = None
    if parsed is None or parsed.type not in ("cpu", "cuda", "mps"):
        raise ValueError(f"device {name!r} ({origin}) is unknown; use auto, cpu, mps, cuda or cuda:<index>")
    if parsed.type == "cuda" and (parsed.index or 0) >= torch.cuda.device_count():
        raise ValueError(
            f"device {name!r} ({origin}) is not here: torch {torch.__version__} sees {torch.cuda.device_count()} CUDA"
            " device(s). Use auto or cpu, or install a torch build that fits the driver"
        )
    if parsed.type == "mps" and not torch.backends.mps.is_available():
        raise ValueError(f"device {name!r} ({origin}) is not here: torch sees no Apple GPU. Use auto or cpu")
    return name, origin


def _choose_dtype(given: tuple[Any, str], device: str) -> tuple[torch.dtype, str]:
    value, origin = given
    if isinstance(value, torch.dtype):
        value = str(value).removeprefix("torch.")
    if value != "auto":
        if value not in DTYPES:
            raise ValueError(f"dtype {value!r} ({origin}) is unknown; use auto or one of {', '.join(DTYPES)}")
        if value == "float64" and device == "mps":
            raise ValueError(f"dtype 'float64' ({origin}) does not exist on Apple GPUs; use float32, or device cpu")
        return DTYPES[value], origin
    if device.startswith("cuda"):
        if torch.cuda.get_device_capability(torch.device(device))[0] >= 8:
            return torch.bfloat16, "the GPU has bfloat16 tensor cores (capability 8 or higher)"
        return torch.float32, "the GPU has no bfloat16 tensor cores (capability below 8)"
    if device == "mps":
        return torch.float32, "bfloat16 on Apple GPUs is neither complete nor faster throughout"
    return _cpu_dtype()


def _cpu_dtype() -> tuple[torch.dtype, str]:
    flags = hardware.cpu_flags()
    native = [flag for flag in hardware.NATIVE_BF16_FLAGS if flag in flags]
    if native:
        return torch.bfloat16, f"the processor multiplies bfloat16 natively ({', '.join(native)})"
    if "avx2" in flags and hardware.cxx_compiler():
        return (
            torch.bfloat16,
            "no native bfloat16: weights packed in bfloat16, products summed in float32 (AVX2 kernel)",
        )
    return torch.float32, "neither native bfloat16 nor AVX2 with a C++ compiler for the packed kernel"


def _choose_threads(given: tuple[Any, str]) -> tuple[int, str]:
    value, origin = given
    if value == "auto":
        if os.environ.get("OMP_NUM_THREADS", "").isdecimal() and int(os.environ["OMP_NUM_THREADS"]) > 0:
            return int(os.environ["OMP_NUM_THREADS"]), "from OMP_NUM_THREADS"
        return hardware.physical_cores(), "physical cores this process may use"
    try:
        count = int(value)
    except (TypeError, ValueError):
        count = 0
    if count < 1:
        raise ValueError(f"threads {value!r} ({origin}) must be a whole number of at least 1, or auto")
    return count, origin


def _choose_compile(given: tuple[Any, str], device: str) -> tuple[bool, str]:
    value, origin = given
    if isinstance(value, str):
        words = {"auto": None, "true": True, "1": True, "on": True, "false": False, "0": False, "off": False}
        if value.lower() not in words:
            raise ValueError(f"compile {value!r} ({origin}) is unknown; use auto, true or false")
        value = words[value.lower()]
    if value is False:
        return False, origin
    compiler = hardware.cxx_compiler()
    if compiler is None:
        if value:
            raise ValueError(
                f"compile=true ({origin}) needs a C++ compiler and none was found: install g++ or clang++, set CXX,"
                " or use compile=auto to run without"
            )
        return False, "no C++ compiler found, so the model runs eagerly (slower; install g++ or clang++ to change that)"
    if value is None and device == "mps":
        return False, "torch.compile for Apple GPUs is experimental"
    return True, origin or f"{compiler} found"
