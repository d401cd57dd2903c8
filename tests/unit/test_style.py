"""Figures: stable bytes, one look per method, a badge that is in the file."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from angelspec.plotting import style


@pytest.fixture(autouse=True)
def _own_rc_and_no_open_figures():
    with matplotlib.rc_context():
        style.use_style()
        yield
        plt.close("all")


def draw(slope: float = 1.0):
    figure, axes = plt.subplots()
    for number, arm in enumerate(style.METHOD_COLORS):
        axes.plot([1, 2, 4], [number, slope * number, 3], **style.method_style(arm))
    style.concurrency_axis(axes, [1, 2, 4])
    axes.legend()
    return figure


def test_the_same_data_gives_the_same_bytes_and_other_data_others(tmp_path: Path) -> None:
    first = style.save(draw(), tmp_path / "a.svg")
    again = style.save(draw(), tmp_path / "b.svg")
    other = style.save(draw(2.0), tmp_path / "c.svg")
    assert first.read_bytes() == again.read_bytes() != other.read_bytes()
    assert first.with_suffix(".pdf").read_bytes() == again.with_suffix(".pdf").read_bytes()
    assert first.with_suffix(".pdf").read_bytes().startswith(b"%PDF")


def test_text_stays_text_and_no_date_is_written(tmp_path: Path) -> None:
    figure = draw()
    style.badge(figure)
    text = style.save(figure, tmp_path / "a.svg").read_text()
    assert ">concurrent requests</text>" in text
    assert style.NOT_COMPARABLE in text
    assert "<dc:date>" not in text


def test_every_arm_has_its_own_colour_and_marker() -> None:
    arms = ["ar", "ngram", "mtp", "dflash", "dfly", "dfly-adaptive"]
    assert list(style.METHOD_COLORS) == arms
    for table in (style.METHOD_COLORS, style.METHOD_MARKERS, style.METHOD_LABELS):
        assert len({table[arm] for arm in arms}) == len(arms)
    assert len(set(style.DOMAIN_COLORS.values())) == len(style.DOMAIN_COLORS) == len(style.DOMAIN_MARKERS)


def test_a_fixed_depth_looks_like_its_drafter_but_dashed() -> None:
    look = style.method_style("dfly-fixed4")
    assert look["color"] == style.METHOD_COLORS["dfly"] and look["linestyle"] == "--" and "4" in look["label"]


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="no colour for arm 'eagle'.*style.py"):
        style.method_style("eagle")
    with pytest.raises(ValueError, match=r"figures are saved as \.svg"):
        style.save(draw(), tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_concurrency_is_shown_in_powers_of_two() -> None:
    axes = draw().axes[0]
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "4"]
