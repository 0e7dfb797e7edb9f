"""Exposure by repetitions: what stands where."""

from __future__ import annotations

import math

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection

from leakage_tasks.attacks.coarse import coarsened
from leakage_tasks.attacks.finding import Finding
from leakage_tasks.core.errors import OptionError
from leakage_tasks.metrics.aggregates import LOG_T
from leakage_tasks.metrics.exposure import known
from leakage_tasks.report.plots.repetitions import (
    MOST_RUNS,
    USUAL,
    CanaryPoint,
    RunByRepetitions,
    by_repetitions,
    draw_repetitions,
)
from leakage_tasks.stats.intervals import bounded_mean, clopper_pearson

SIZE = 20.0
BITS = {0: [0.5, 2.0, 3.0, 0.1], 1: [4.0, 6.0], 10: [20.0]}


def run(name: str = "one", extracted=None, **bounds: bool) -> RunByRepetitions:
    exposures = [
        CanaryPoint(f"c{times}-{n}", times, value, SIZE, bounds.get(f"c{times}_{n}", False))
        for times, values in BITS.items()
        for n, value in enumerate(values)
    ]
    return RunByRepetitions(name, exposures, extracted or {})


def points(axes) -> list[tuple[float, float]]:
    """The small marks."""
    marks = [each for each in axes.collections if isinstance(each, PathCollection)]
    return [tuple(place) for each in marks for place in each.get_offsets().tolist()]


def means(axes) -> dict[int, list[float]]:
    """The large marks' heights by group."""
    found: dict[int, list[float]] = {}
    for line in axes.lines:
        if line.get_markersize() == 9 and len(line.get_xdata()):
            found.setdefault(round(line.get_xdata()[0]), []).append(line.get_ydata()[0])
    return found


def intervals(axes) -> list[tuple[float, float]]:
    """The ends of upright bars, from the left."""
    bars = [bar for bars in axes.collections if isinstance(bars, LineCollection) for bar in bars.get_segments()]
    return [(float(bar[0][1]), float(bar[1][1])) for bar in sorted(bars, key=lambda bar: bar[0][0]) if len(bar)]


def test_every_canary_is_a_point_at_its_exposure_within_its_group():
    found = points(draw_repetitions([run()]).axes[0])
    expected = sorted((place, value) for place, values in enumerate(BITS.values()) for value in values)
    assert sorted((round(place), value) for place, value in found) == expected


def test_a_canary_of_0_bits_is_drawn_whole():
    figure = draw_repetitions([run()])
    axes = figure.axes[0]
    dots = [dots for dots in axes.collections if isinstance(dots, PathCollection)]
    averages = [line for line in axes.lines if line.get_marker() == "o" and len(line.get_xdata())]
    assert len(dots) == 6
    assert len(averages) == 3
    assert not any(mark.get_clip_on() for mark in (*dots, *averages))
    # Marks of the legend, which have no position, do not shrink the panel.
    figure.draw_without_rendering()
    assert axes.get_position().width > 0.3


def test_each_group_has_its_mean_and_too_few_canaries_no_interval():
    axes = draw_repetitions([run()]).axes[0]
    assert means(axes) == {0: [pytest.approx(1.4)], 1: [5.0], 2: [20.0]}
    assert intervals(axes) == []


def test_the_interval_of_natural_secrets_covers_their_bands():
    fields = {"attack": "exposure", "planted": True, "repetitions": 3, "kind": "natural", "log2_size": SIZE}
    found = [coarsened(Finding(f"n-{n}", rank=4.0 * n, method="exact", **fields)) for n in range(1, 11)]
    (ends,) = intervals(draw_repetitions([by_repetitions("one", found, [])]).axes[0])
    bands = [known(each) for each in found]
    assert bands[0].least < found[0].exposure < bands[0].most
    assert ends == pytest.approx((LOG_T.low(bands), LOG_T.high(bands)))


def test_ten_canaries_have_the_interval_of_the_table():
    bits = [0.3 * (n + 1) for n in range(10)]
    some = [CanaryPoint(f"c{n}", 4, each, SIZE) for n, each in enumerate(bits)]
    assert intervals(draw_repetitions([RunByRepetitions("one", some)]).axes[0]) == [
        pytest.approx(bounded_mean(np.array(bits), np.full(10, SIZE)))
    ]


def test_groups_are_named_with_their_counts():
    axes = draw_repetitions([run()]).axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0 (never)\nn = 4", "1\nn = 2", "10\nn = 1"]


def test_chance_and_the_bound_are_drawn():
    axes = draw_repetitions([run()]).axes[0]
    assert [text.get_text() for text in axes.texts] == ["chance: 1.44", "at most: log₂|R| = 20.0"]


def test_runs_stand_side_by_side_without_covering_each_other():
    axes = draw_repetitions([run("one"), run("other")]).axes[0]
    assert len(means(axes)[0]) == 2
    xs = sorted(place for place, _ in points(axes) if round(place) == 0)
    assert max(xs[:4]) < min(xs[4:])


def test_runs_differ_in_colour_and_in_mark():
    made = draw_repetitions([run(f"run {n}") for n in range(MOST_RUNS)])
    legend = made.legends[0]
    looks = {
        (handle.get_color(), handle.get_marker())
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True)
        if text.get_text().startswith("run ")
    }
    assert len(looks) == MOST_RUNS


def test_one_run_needs_no_name():
    legend = draw_repetitions([run("secret-model")]).legends[0]
    assert [text.get_text() for text in legend.get_texts()] == [
        "one canary",
        "mean",
        "95 % interval: log-t; from 10 canaries on",
        "19 of 20 secrets that were never shown",
    ]


def test_a_lower_bound_is_hollow_and_so_is_its_mean():
    made = draw_repetitions([run(c1_0=True)])
    assert "hollow: at least this value" in [text.get_text() for text in made.legends[0].get_texts()]
    faces = {
        round(line.get_xdata()[0]): line.get_markerfacecolor()
        for line in made.axes[0].lines
        if line.get_markersize() == 9 and len(line.get_xdata())
    }
    assert faces[1] == "white"
    assert faces[0] != "white"


def test_what_was_extracted_is_a_second_panel_with_exact_intervals():
    made = draw_repetitions([run(extracted={0: [False] * 12, 1: [True, False] * 5, 10: [True]})])
    axes = made.axes[1]
    assert means(axes) == {0: [0.0], 1: [0.5], 2: [1.0]}
    assert intervals(axes) == [pytest.approx(clopper_pearson(*each)) for each in ((0, 12), (5, 10))]


def test_no_panel_for_what_nobody_extracted():
    assert len(draw_repetitions([run()]).axes) == 1


def test_extraction_alone_is_the_only_panel():
    (axes,) = draw_repetitions([RunByRepetitions("one", [], {0: [False] * 12, 1: [True, False] * 5})]).axes
    assert means(axes) == {0: [0.0], 1: [0.5]}
    assert axes.get_ylabel() == "share extracted"


def test_a_large_group_shows_evenly_spaced_ranks_and_the_mean_of_all():
    many = [CanaryPoint(str(number), 1, number / 1000, SIZE) for number in range(10_000)]
    axes = draw_repetitions([RunByRepetitions("one", many)], most=200).axes[0]
    heights = sorted(height for _, height in points(axes))
    assert heights == pytest.approx([(50 * part + 25) / 1000 for part in range(200)])
    assert means(axes) == {0: [pytest.approx(4.9995)]}


def test_the_grey_part_holds_19_of_20_secrets_that_were_never_shown():
    size = 1_000_000
    reaching = sum(math.log2(size / rank) >= USUAL for rank in range(1, size + 1))
    assert reaching / size == pytest.approx(0.05, abs=2e-6)
    band = draw_repetitions([run()]).axes[0].patches[0]
    box = band.get_patch_transform().transform_path(band.get_path()).get_extents()
    assert (box.y0, box.y1) == (0, pytest.approx(USUAL))


def test_of_many_sizes_the_smallest_and_the_largest_have_lines():
    some = [CanaryPoint(str(size), 1, 1.0, float(size)) for size in (10, 12, 14, 30)]
    axes = draw_repetitions([RunByRepetitions("one", some)]).axes[0]
    assert [text.get_text() for text in axes.texts if "most" in text.get_text()] == [
        "at most: log₂|R| = 10.0",
        "at most: log₂|R| = 30.0",
    ]


def test_points_stay_where_they_are_when_others_come_or_go():
    """The order of canaries in a file is that of a run with other processes."""
    one = run()
    other = RunByRepetitions("one", list(reversed(one.exposures)))
    assert sorted(points(draw_repetitions([one]).axes[0])) == sorted(points(draw_repetitions([other]).axes[0]))


@pytest.mark.parametrize("runs", [[], [RunByRepetitions("one", [])]])
def test_nothing_to_draw_is_refused(runs):
    with pytest.raises(OptionError, match="no exposure to draw"):
        draw_repetitions(runs)


def test_more_runs_than_can_be_told_apart_are_refused():
    with pytest.raises(OptionError, match="13 runs are too many to distinguish: give 12 or fewer"):
        draw_repetitions([run()] * 13)
