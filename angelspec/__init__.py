"""angelspec: co-specialised draft models and adaptive verification for lossless speculative decoding.

The kernels live in the top-level folder ``kernels/`` of the repository and are imported as ``angelspec.kernels``. A
wheel or an editable install maps them there (``package-dir`` in pyproject.toml); for a bare checkout the finder below
does, so that ``python -c "import angelspec.kernels"`` works at the root with nothing installed.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path

__version__ = "0.1.0"


class _CheckoutKernels(MetaPathFinder):
    """Finds exactly one name, ``angelspec.kernels``, in the folder beside this package."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if fullname != f"{__name__}.kernels":
            return None
        return importlib.util.spec_from_file_location(
            fullname, self.folder / "__init__.py", submodule_search_locations=[str(self.folder)]
        )


def _map_checkout_kernels() -> None:
    package = Path(__file__).resolve().parent
    folder = package.parent / "kernels"
    # An installed angelspec has kernels/ inside itself; a folder beside it would be another distribution's.
    if not (package / "kernels").is_dir() and (folder / "__init__.py").is_file():
        sys.meta_path.append(_CheckoutKernels(folder))


_map_checkout_kernels()


def __getattr__(name: str) -> object:
    """``angelspec.SpeculativeDecoder``, imported when it is asked for: torch takes seconds to load."""
    if name == "SpeculativeDecoder":
        from angelspec.decoding.api import SpeculativeDecoder

        return SpeculativeDecoder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
