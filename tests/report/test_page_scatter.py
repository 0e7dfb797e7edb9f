from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.report.page.scatter import pareto_front, scatter
from tests.report.pages import board, usual_canaries, write_run

SIDES = list(itertools.product(("lower", "higher"), repeat=2))
VALUES = st.one_of(st.integers(0, 4).map(float), st.floats(-1e6, 1e6))


def outdoes(one: tuple[float, float], other: tuple[float, float], better: tuple[str, str]) -> bool:
    """At least as good in both and better in one."""
    signs = [1 if side == "lower" else -1 for side in better]
    gaps = [sign * (right - left) for sign, left, right in zip(signs, one, other, strict=True)]
    return min(gaps) >= 0 and max(gaps) > 0


@given(st.lists(st.tuples(VALUES, VALUES), max_size=30), st.sampled_from(SIDES))
def test_the_front_is_whom_nobody_outdoes(points: list[tuple[float, float]], better: tuple[str, str]):
    expected = {
        place for place, point in enumerate(points) if not any(outdoes(other, point, better) for other in points)
    }
    assert set(pareto_front(points, better).members) == expected


@given(st.lists(st.tuples(VALUES, VALUES), max_size=30), st.sampled_from(SIDES))
def test_everybody_else_is_outdone_by_the_member_named(points: list[tuple[float, float]], better: tuple[str, str]):
    front = pareto_front(points, better)
    assert set(front.outdone) == set(range(len(points))) - set(front.members)
    assert set(front.outdone.values()) <= set(front.members)
    assert all(outdoes(points[by], points[one], better) for one, by in front.outdone.items())


def test_members_come_best_first_by_the_first_figure():
    assert pareto_front([(3.0, 1.0), (1.0, 3.0), (2.0, 2.0)], ("lower", "lower")).members == (1, 2, 0)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder = tmp_path_factory.mktemp("runs")
    for name, leak, acc in (("a", 0.9, 0.6), ("b", 0.5, 0.5), ("c", 0.7, 0.4)):
        write_run(folder, name, usual_canaries(leak, each=3), useful={"arc": acc})
    write_run(folder, "faulty", usual_canaries(0.1, each=3), useful={"arc": 0.9}, control_p=1e-6)
    write_run(folder, "apart", usual_canaries(0.1, each=3), useful={"arc": 0.9}, protocol={"canaries": "cd" * 32})
    return scatter(board(folder))


def front_of(drawn: dict, group: int) -> set[str]:
    titles = [axis["title"] for axis in drawn["axes"]]
    members, _ = drawn["fronts"][f"{group}/{titles.index('arc acc')}/{titles.index('Exposure, pooled')}"]
    return {drawn["groups"][group]["points"][place]["name"] for place in members}


def test_the_front_is_drawn_within_a_group_and_without_faults(drawn: dict):
    assert front_of(drawn, 0) == {"a", "b"}
    assert front_of(drawn, 1) == {"apart"}


def test_axes_are_figures_that_have_a_better_side(drawn: dict):
    titles = {axis["title"] for axis in drawn["axes"]}
    assert {"Exposure, pooled", "arc acc", "HDT"} <= titles
    assert "control_exposure" not in titles
    assert [axis["title"] for axis in drawn["axes"] if axis["first"]] == ["Exposure, planted once"]


def test_a_point_has_its_interval_and_its_figure_in_words(drawn: dict):
    at = [axis["title"] for axis in drawn["axes"]].index("arc acc")
    point = next(each for each in drawn["groups"][0]["points"] if each["name"] == "a")
    value, low, high, words = point["at"][at]
    assert (value, high - value, value - low) == (0.6, *[pytest.approx(1.959964 * 0.02)] * 2)
    assert words == "0.600 [0.561, 0.639]"
