"""Reports on very many runs and samples take time and memory in proportion."""

from __future__ import annotations

import cProfile
from pathlib import Path

import numpy as np
import pytest

from benchmarks.large_inputs import measure
from leakage_tasks.report.board.board import make_board
from leakage_tasks.report.load.results import read_runs
from leakage_tasks.stats.clusters import studentized_mean
from tests.report.made import leaking, results, write


@pytest.mark.slow
def test_a_twentieth_of_the_largest_takes_a_fraction_of_what_it_may(tmp_path: Path) -> None:
    taken = measure(tmp_path, 50, 5_000)
    assert [each.command for each in taken if each.returned > 1] == []
    assert {each.command: each.megabytes for each in taken if each.megabytes > 500} == {}
    assert {each.command: each.seconds for each in taken if each.seconds > 60} == {}


@pytest.mark.slow
@pytest.mark.parametrize("model", ["models/one", "models/{}"])
def test_work_grows_with_the_runs_and_not_with_their_square(tmp_path: Path, model: str) -> None:
    def calls(number: int) -> int:
        folder = tmp_path / str(number)
        for place in range(number):
            content = results(leaking(exposure=place / number), model=model.format(place))
            content["config"]["model_args"]["revision"] = str(place)
            write(folder / str(place), content)
        with cProfile.Profile() as profile:
            board = make_board(read_runs([folder]))
        assert sum(len(group.entries) for group in board.groups) == number
        return sum(each.callcount for each in profile.getstats())

    calls(10)
    assert calls(320) < 5 * calls(80)


def test_an_interval_of_very_many_values_is_resampled_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).exponential(size=701)
    whole = studentized_mean(values.tolist(), range(701))
    monkeypatch.setattr("leakage_tasks.stats.intervals._CELLS", 701 * 3)
    assert studentized_mean(values.tolist(), range(701)) == whole
