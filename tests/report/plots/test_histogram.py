"""The histogram of costs: the data, the fit, and the words above."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from leakage_tasks.core.errors import OptionError
from leakage_tasks.report.plots.histogram import Costs, draw_histogram
from leakage_tasks.stats import skew_normal
from leakage_tasks.stats.skew_normal import fit_skew_normal

COSTS = np.sort(stats.skewnorm.rvs(2, 60, 8, size=200, random_state=0)).tolist()
PANEL = Costs("c", "planted 10 times", COSTS, 55.0, 6.5, "exact", 20.0, "log-perplexity (bits)")


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(skew_normal, "RESAMPLES", 39)


def said(axes) -> list[str]:
    """The lines above a panel, from the top."""
    return [text.get_text() for text in axes.texts]


def test_the_bars_are_the_share_of_costs_a_bit():
    axes = draw_histogram([PANEL]).axes[0]
    edges = [axes.patches[0].get_x(), *(bar.get_x() + bar.get_width() for bar in axes.patches)]
    hair = np.r_[-1e-9, np.zeros(len(edges) - 2), 1e-9]
    expected = np.histogram(COSTS, bins=edges + hair)[0] / len(COSTS) / np.diff(edges)
    assert [bar.get_height() for bar in axes.patches] == pytest.approx(expected)
    assert (edges[0], edges[-1]) == (pytest.approx(COSTS[0]), pytest.approx(COSTS[-1]))


def test_the_line_is_where_the_secret_lies_and_the_area_left_of_it_is_the_fits():
    axes = draw_histogram([PANEL]).axes[0]
    curve, secret = axes.lines
    assert list(secret.get_xdata()) == [55.0, 55.0]
    fit = fit_skew_normal(COSTS)
    assert curve.get_ydata() == pytest.approx(fit.density(curve.get_xdata()))
    outline = axes.collections[0].get_paths()[0].vertices
    assert outline[:, 0].max() == 55.0
    xs, ys = outline[:, 0], outline[:, 1]
    area = abs(np.dot(xs, np.roll(ys, 1)) - np.dot(ys, np.roll(xs, 1))) / 2
    assert area == pytest.approx(2 ** -fit.exposure(55.0), rel=0.05)


def test_the_words_compare_what_was_found_with_what_is_extrapolated():
    fit = fit_skew_normal(COSTS)
    name, found, extrapolated, test = said(draw_histogram([PANEL]).axes[0])
    assert name == "c, planted 10 times"
    assert found == "exposure: 6.5 bits (exact), of at most 20.0"
    assert extrapolated == f"extrapolated: {fit.exposure(55.0):.1f} bits"
    assert test == f"fit not rejected: KS D = {fit.statistic:.3f}, p = {fit.p_value:.3f}, n = 200"


def test_a_secret_far_out_is_said_to_be_beyond_the_bound():
    axes = draw_histogram([replace(PANEL, secret_cost=5.0)]).axes[0]
    assert said(axes)[2].endswith(" bits, beyond that bound")
    assert axes.get_xlim()[0] < 5.0


def test_a_rejected_fit_is_not_extrapolated():
    heaps = np.sort(np.concatenate([stats.norm.rvs(m, 3, 150, random_state=m) for m in (50, 80)])).tolist()
    words = said(draw_histogram([replace(PANEL, costs=heaps)]).axes[0])
    assert words[2] == "no extrapolation from this fit"
    assert words[3].startswith("fit rejected: KS D = ")


@pytest.mark.parametrize("costs", [[3.0] * 10, list(range(10))])
def test_too_few_costs_are_drawn_without_a_fit_and_say_so(costs):
    axes = draw_histogram([replace(PANEL, costs=costs)]).axes[0]
    assert said(axes)[2] == "not extrapolated"
    assert said(axes)[3].startswith("no fit: ")
    assert len(axes.lines) == 1


def test_a_lower_bound_says_so():
    words = said(draw_histogram([replace(PANEL, method="lower_bound")]).axes[0])
    assert words[:2] == ["c, planted 10 times", "exposure: at least 6.5 bits (lower bound), of at most 20.0"]


@pytest.mark.parametrize("number", [0, 7])
def test_none_and_more_than_six_are_refused(number):
    with pytest.raises(OptionError, match=f"{number} canaries to draw: give 1 to 6"):
        draw_histogram([PANEL] * number)


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6])
def test_each_canary_has_its_panel(number):
    panels = [replace(PANEL, name=f"c{n}", costs=COSTS[:20]) for n in range(number)]
    shown = [axes for axes in draw_histogram(panels).axes if axes.get_visible()]
    assert [said(axes)[0] for axes in shown] == [f"c{n}, planted 10 times" for n in range(number)]


def test_an_extrapolated_exposure_is_not_said_to_be_bounded():
    words = said(draw_histogram([replace(PANEL, exposure=35.0, method="extrapolated")]).axes[0])
    assert words[1] == "exposure: 35.0 bits (extrapolated), the space has 20.0"
