"""What all plots share: files of the same bytes, names that stay names, labels apart."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.report.plots import style as plot_style
from leakage_tasks.report.plots.style import draw_levels, legend_below, new_figure, plain, save, spread
from tests.conftest import ROOT

SVG = "{http://www.w3.org/2000/svg}"


def figure(*names: str):
    made = new_figure(5, 3)
    axes = made.add_subplot()
    line = axes.plot([1, 2], [3, 4], marker="o")[0]
    axes.fill_between([1, 2], [0, 1], [2, 3], hatch="//")
    legend_below(made, [(line, plain(name)) for name in names or ("one",)])
    return made


def words(path) -> list[str]:
    return ["".join(each.itertext()).strip() for each in ElementTree.parse(path).iter(f"{SVG}text")]


def test_the_same_figure_is_the_same_file_in_every_process(tmp_path):
    names = ["png", "svg"]
    for name in names:
        save(figure(), tmp_path / f"here.{name}")
    code = (
        "from pathlib import Path; from leakage_tasks.report.plots.style import save; "
        "from tests.report.plots.test_style import figure; "
        f"[save(figure(), Path({str(tmp_path)!r}) / f'there.{{name}}') for name in {names}]"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT), "SOURCE_DATE_EPOCH": "1", "PYTHONHASHSEED": "7"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=tmp_path)
    for name in names:
        assert (tmp_path / f"here.{name}").read_bytes() == (tmp_path / f"there.{name}").read_bytes()


def test_an_svg_keeps_letters_as_letters_and_no_date(tmp_path):
    path = save(figure("gpt2-small"), tmp_path / "plot.SVG")
    assert "gpt2-small" in words(path)
    assert "<dc:date>" not in path.read_text()


def test_names_are_shown_as_they_are(tmp_path):
    names = ["<script>alert(1)</script>", "$\\frac{1}{0}$", "a$b", "_hidden", "&amp;", "名前"]
    path = save(figure(*names), tmp_path / "plot.svg")
    assert set(names) <= {word.lstrip("\N{ZERO WIDTH SPACE}") for word in words(path)}
    save(figure(*names), tmp_path / "plot.png")


def test_control_characters_and_endless_names_do_not_get_into_a_picture(tmp_path):
    path = save(figure("a\x00\n\x1b" + "b" * 500), tmp_path / "plot.svg")
    shown = next(word for word in words(path) if word.startswith("a"))
    assert shown.startswith("a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}b")
    assert len(shown) <= plot_style.LONGEST


def test_anything_but_svg_is_png(tmp_path):
    assert save(figure(), tmp_path / "plot").read_bytes().startswith(b"\x89PNG")


def test_a_figure_that_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(LeakageError, match="no folder"):
        save(figure(), tmp_path / "nowhere" / "plot.svg")
    assert not list(tmp_path.iterdir())


def test_no_two_of_many_series_look_alike():
    looks = {(plot_style.colour(number), plot_style.marker(number)) for number in range(42)}
    assert len(looks) == 42
    assert len({plot_style.line(number) for number in range(5)}) == 5


@given(st.lists(st.floats(0, 100), max_size=20), st.floats(0.01, 10))
def test_labels_are_moved_up_as_little_as_it_takes(heights, gap):
    heights = sorted(heights)
    placed = spread(heights, gap)
    assert all(after - before >= gap * (1 - 1e-9) for before, after in zip(placed, placed[1:], strict=False))
    for number, (height, place) in enumerate(zip(heights, placed, strict=True)):
        tight = number and place == pytest.approx(placed[number - 1] + gap)
        assert place == height or (tight and place > height)


def boxes(made) -> list:
    """Where the letters of a figure are, as it is drawn."""
    made.canvas.draw()
    texts = [text for axes in made.axes for text in axes.texts]
    texts += [text for legend in made.legends for text in legend.get_texts()]
    return [text.get_window_extent() for text in texts]


def test_names_of_levels_close_together_do_not_cover_each_other():
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    made = new_figure(6, 4)
    FigureCanvasAgg(made)
    axes = made.add_subplot()
    axes.set_ylim(0, 33)
    draw_levels(axes, {"chance: 1.14": 1.14, "chance: 1.44": 1.44, "at most: 2.0": 2.0, "at most: 29.9": 29.9})
    found = boxes(made)
    assert not any(one.overlaps(other) for n, one in enumerate(found) for other in found[:n])


def test_a_long_legend_stays_inside_the_picture():
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    made = new_figure(6, 4)
    FigureCanvasAgg(made)
    axes = made.add_subplot()
    lines = [axes.plot([1, 2], [n, n])[0] for n in range(30)]
    legend_below(made, [(line, f"a run with a rather long name, number {n}") for n, line in enumerate(lines)])
    made.canvas.draw()
    legend, plot = made.legends[0].get_window_extent(), axes.get_tightbbox()
    assert legend.x0 >= 0
    assert legend.y0 >= 0
    assert legend.x1 <= made.bbox.width
    assert legend.y1 <= plot.y0
    assert axes.get_window_extent().height > 150
    assert math.isclose(made.get_figwidth(), 6)
