"""Plots: a PNG of the size promised, whole or not at all."""

from __future__ import annotations

import math

import pytest

from leakage_tasks.errors import LeakageError, OptionError
from leakage_tasks.report.plots import CHANCE, EpochExposure, plot_exposure_by_epoch

PNG = b"\x89PNG\r\n\x1a\n"


def history(planted: int = 2, controls: int = 2) -> list[EpochExposure]:
    size = math.log2(10**9)
    lines = [(f"canary-{n}", (1, 10)[n % 2], 4.0) for n in range(planted)]
    lines += [(f"control-{n}", 0, 0.2 + n) for n in range(controls)]
    return [EpochExposure(epoch, name, times, slope * epoch, size) for name, times, slope in lines for epoch in (1, 2)]


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


def test_chance_is_the_mean_exposure_of_a_uniform_secret():
    size = 100_000
    expected = math.log2(size) - math.lgamma(size + 1) / math.log(2) / size
    assert pytest.approx(expected, abs=1e-3) == CHANCE


def test_nothing_to_draw_and_nowhere_to_put_it_are_refused(tmp_path):
    with pytest.raises(OptionError, match="empty"):
        plot_exposure_by_epoch([], tmp_path / "plot.png")
    with pytest.raises(LeakageError, match="no folder"):
        plot_exposure_by_epoch(history(), tmp_path / "nowhere" / "plot.png")
