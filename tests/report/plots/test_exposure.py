"""Exposure over training: a picture of the size promised, whole or not at all."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace

import pytest

from leakage_tasks.core.errors import LeakageError, OptionError, ResultsError
from leakage_tasks.report.load.training_log import EpochExposure, read_history
from leakage_tasks.report.plots.exposure import CROWD, chance_levels, draw_epochs, plot_exposure_by_epoch

PNG = b"\x89PNG\r\n\x1a\n"


def history(planted: int = 2, controls: int = 2) -> list[EpochExposure]:
    size = math.log2(10**9)
    lines = [(f"canary-{n}", (1, 10)[n % 2], 4.0 + n / 10) for n in range(planted)]
    lines += [(f"control-{n}", 0, 0.2 + n) for n in range(controls)]
    return [EpochExposure(epoch, name, times, slope * epoch, size) for name, times, slope in lines for epoch in (1, 2)]


def drawn(axes) -> list[list[float]]:
    """The heights of the lines over both epochs."""
    return [list(line.get_ydata()) for line in axes.lines if list(line.get_xdata()) == [1, 2]]


@pytest.mark.parametrize(("planted", "controls"), [(2, 2), (1, 0), (0, 3), (9, 1)])
def test_it_writes_a_png(tmp_path, planted, controls):
    path = plot_exposure_by_epoch(history(planted, controls), tmp_path / "plot.png")
    data = path.read_bytes()
    assert data.startswith(PNG)
    assert (int.from_bytes(data[16:20]), int.from_bytes(data[20:24])) == (1200, 720)
    assert list(tmp_path.iterdir()) == [path]


def test_different_histories_give_different_pictures(tmp_path):
    one = plot_exposure_by_epoch(history(2, 2), tmp_path / "one.png").read_bytes()
    other = plot_exposure_by_epoch(history(4, 2), tmp_path / "other.png").read_bytes()
    again = plot_exposure_by_epoch(reversed(history(2, 2)), tmp_path / "again.png").read_bytes()
    assert one == again != other


def test_planted_canaries_are_lines_and_controls_their_mean():
    axes = draw_epochs(history(2, 3)).axes[0]
    assert sorted(drawn(axes)) == [[pytest.approx(1.2), pytest.approx(2.4)], [4.0, 8.0], [4.1, 8.2]]


def test_natural_secrets_are_drawn_apart_from_canaries_planted_as_often():
    natural = [replace(point, canary=f"natural-{point.canary}", natural=True) for point in history(2, 1)]
    texts = [text.get_text() for text in draw_epochs([*history(2, 2), *natural]).legends[0].get_texts()]
    assert texts[:3] == ["planted 10 times", "planted once", "natural secrets"]
    assert "never shown, mean of 2" in texts
    assert "natural controls, mean of 1" in texts


def test_many_canaries_planted_equally_often_are_drawn_with_their_mean():
    few, many = (draw_epochs(history(2 * number, 0)).axes[0] for number in (CROWD, CROWD + 1))
    assert len(drawn(few)) == 2 * CROWD
    assert len(drawn(many)) == 2 * (CROWD + 1) + 2
    once = [line for line in drawn(many) if line[0] == pytest.approx(4.0 + CROWD / 10)]
    assert len(once) >= 1


def test_one_epoch_has_one_whole_number_on_its_axis():
    axes = draw_epochs([point for point in history() if point.epoch == 1]).axes[0]
    low, high = axes.get_xlim()
    assert [tick for tick in axes.get_xticks() if low <= tick <= high] == [1]


def test_chance_and_the_bound_are_named_for_every_size():
    named = chance_levels([math.log2(10), math.log2(10**9)])
    assert {text: round(height, 2) for text, height in named.items()} == {
        "chance: 1.14": 1.14,
        "chance: 1.44": 1.44,
        "at most: log₂|R| = 3.3": 3.32,
        "at most: log₂|R| = 29.9": 29.9,
    }


def test_a_space_beyond_floats_has_its_chance_too():
    assert chance_levels([4000.0])["chance: 1.44"] == pytest.approx(1 / math.log(2), abs=1e-3)


def test_nothing_to_draw_and_nowhere_to_put_it_are_refused(tmp_path):
    with pytest.raises(OptionError, match="empty"):
        plot_exposure_by_epoch([], tmp_path / "plot.png")
    with pytest.raises(LeakageError, match="no folder"):
        plot_exposure_by_epoch(history(), tmp_path / "nowhere" / "plot.png")


def test_a_history_is_read_as_the_demo_writes_it(tmp_path):
    path = tmp_path / "exposure_by_epoch.json"
    path.write_text(json.dumps({"losses": [], "exposures": [asdict(point) for point in history()]}))
    assert read_history(path) == history()


@pytest.mark.parametrize("text", ["", "[]", '{"exposures": 3}', '{"exposures": [{"epoch": 1}]}', '{"results": {}}'])
def test_another_file_is_no_history(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ResultsError, match=r"other.json: (field 'exposures[\w.]*': expected |not JSON)"):
        read_history(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epoch", "x"),
        ("canary", 3),
        ("exposure", None),
        ("exposure", math.nan),
        ("exposure", 10**400),
        ("log2_size", -4),
    ],
)
def test_a_point_that_cannot_be_drawn_is_no_history(tmp_path, field, value):
    points = [{**asdict(point), field: value} for point in history()]
    (tmp_path / "other.json").write_text(json.dumps({"exposures": points}))
    with pytest.raises(ResultsError, match=rf"field 'exposures\.\d\.{field}': expected "):
        read_history(tmp_path / "other.json")


def hollow(axes) -> list[list[tuple[float, float]]]:
    """The points of each group of hollow marks."""
    marks = [line for line in axes.lines if line.get_linestyle() == "None" and len(line.get_xdata())]
    return [[tuple(map(float, point)) for point in line.get_xydata()] for line in marks]


def labels(figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_lower_bounds_are_hollow_and_the_legend_says_so():
    points = [replace(point, bound=point.canary == "canary-1" and point.epoch == 2) for point in history()]
    figure = draw_epochs(points)
    assert hollow(figure.axes[0]) == [[(2.0, 8.2)]]
    assert labels(figure)[-1] == "hollow: at least this value"
    assert hollow(draw_epochs(history()).axes[0]) == []
    assert not any("hollow" in label for label in labels(draw_epochs(history())))


def test_the_mean_of_many_canaries_is_hollow_if_one_is_a_lower_bound():
    many = history(2 * (CROWD + 1), 0)
    points = [replace(point, bound=point.canary == "canary-0" and point.epoch == 1) for point in many]
    ((mark,),) = hollow(draw_epochs(points).axes[0])
    assert mark == (1.0, pytest.approx(4.0 + CROWD / 10))
