"""The one style of all figures: theme, one colour and marker per method, one colour per domain, stable files.

Colours are those of seaborn's colour-blind palette; a marker is the second channel, so that no figure depends on colour
alone. The same data gives the same bytes: element ids are salted with a constant, no date is written, text stays text.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import matplotlib
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from angelspec.io import atomic_write_bytes

_PALETTE = seaborn.color_palette("colorblind", 10).as_hex()
_BLUE, _ORANGE, _GREEN, _RED, _PURPLE, _BROWN, _PINK, _GREY, _YELLOW, _SKY = _PALETTE

# The arms of every comparison. Plain decoding is grey: it is what the others are measured against.
METHOD_COLORS = {
    "ar": _GREY,
    "ngram": _BROWN,
    "mtp": _ORANGE,
    "dflash": _SKY,
    "dfly": _BLUE,
    "dfly-adaptive": _GREEN,
}
METHOD_MARKERS = {"ar": "o", "ngram": "X", "mtp": "^", "dflash": "s", "dfly": "D", "dfly-adaptive": "P"}
METHOD_LABELS = {
    "ar": "AR",
    "ngram": "n-gram",
    "mtp": "MTP",
    "dflash": "DFlash",
    "dfly": "DFly",
    "dfly-adaptive": "DFly + adaptive",
}
DOMAIN_COLORS = {"chat": _PURPLE, "code": _GREEN, "math": _RED, "all": _GREY}
DOMAIN_MARKERS = {"chat": "o", "code": "s", "math": "^", "all": "D"}

WIDTH_IN = 6.3  # text width of a page
COLUMN_IN = 3.1
CONFIDENCE = ("ci", 95)  # what error bars are, unless the figure says otherwise
BOOTSTRAP_SEED = 20260727  # seaborn resamples; with this seed a figure does not change from run to run
NOT_COMPARABLE = "smoke scale: not comparable"

_RC = {
    "figure.figsize": (WIDTH_IN, 3.2),
    "figure.dpi": 110,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "lines.markersize": 5,
    "legend.frameon": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # ships with matplotlib: the same glyphs on every machine
}
_STABLE: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "angelspec", "pdf.fonttype": 42}


def use_style() -> None:
    """Set the theme for all figures made from here on. Call once, at the top of a notebook."""
    seaborn.set_theme(context="paper", style="ticks", palette="colorblind", rc=_RC)


def method_style(arm: str) -> dict[str, Any]:
    """Colour, marker and label of an arm as keyword arguments of ``plot``.

    ``dfly-fixed<N>`` takes the colour of ``dfly`` and a dashed line.

    Raises:
        KeyError: for an arm without a colour; add it here, so that it has the same one in every figure.
    """
    if re.fullmatch(r"dfly-fixed\d+", arm):
        depth = arm.removeprefix("dfly-fixed")
        return {"color": METHOD_COLORS["dfly"], "marker": "d", "linestyle": "--", "label": f"DFly, {depth} slots"}
    if arm not in METHOD_COLORS:
        raise KeyError(f"no colour for arm {arm!r}; known: {', '.join(METHOD_COLORS)} (add it in plotting/style.py)")
    return {"color": METHOD_COLORS[arm], "marker": METHOD_MARKERS[arm], "label": METHOD_LABELS[arm]}


def concurrency_axis(axes: Axes, values: list[int]) -> None:
    """Concurrency on the x axis: powers of two, plain numbers as ticks."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(values, labels=[str(value) for value in values])
    axes.minorticks_off()
    axes.set_xlabel("concurrent requests")


def badge(figure: Figure, text: str = NOT_COMPARABLE) -> None:
    """Print a warning above the figure that travels with the file. It takes the place of a figure title."""
    figure.suptitle(text, fontsize="small", color=_RED, ha="right", x=0.99)


def save(figure: Figure, path: str | Path) -> Path:
    """Write ``figure`` as SVG and, beside it, as PDF; the same figure gives the same bytes. Returns the SVG's path.

    Raises:
        ValueError: when ``path`` does not end in ``.svg``.
    """
    path = Path(path)
    if path.suffix != ".svg":
        raise ValueError(f"{path}: figures are saved as .svg (a .pdf is written beside it)")
    with matplotlib.rc_context(_STABLE):
        atomic_write_bytes(path, _render(figure, "svg", {"Date": None, "Creator": "angelspec"}))
        plain = {"CreationDate": None, "Creator": "angelspec", "Producer": None}
        atomic_write_bytes(path.with_suffix(".pdf"), _render(figure, "pdf", plain))
    return path


def _render(figure: Figure, kind: str, metadata: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()
