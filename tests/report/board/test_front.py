from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.core.errors import OptionError
from leakage_tasks.report.board.board import Board
from leakage_tasks.report.board.front import LARGEST, choose_trade, pareto_front, trades
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
def made(tmp_path_factory: pytest.TempPathFactory) -> Board:
    folder = tmp_path_factory.mktemp("runs")
    for name, leak, acc in (("a", 0.9, 0.6), ("b", 0.5, 0.5), ("c", 0.7, 0.4)):
        write_run(folder, name, usual_canaries(leak, each=3), useful={"arc": acc})
    write_run(folder, "faulty", usual_canaries(0.1, each=3), useful={"arc": 0.9}, control_p=1e-6)
    write_run(folder, "large", usual_canaries(0.1, each=3), useful={"arc": LARGEST})
    write_run(folder, "apart", usual_canaries(0.1, each=3), useful={"arc": 0.9}, protocol={"canaries": "cd" * 32})
    return board(folder)


def standings(made: Board, group: int) -> dict[str, str]:
    return {point.name: point.standing for point in choose_trade(made, "arc acc", "Exposure, pooled", group).points}


def test_the_front_is_within_a_group_and_without_faults(made: Board):
    assert standings(made, 1) == {
        "a": "on the front",
        "b": "on the front",
        "c": "dominated by b",
        "faulty": "not ranked: see its warnings",
    }
    assert standings(made, 2) == {"apart": "on the front"}


def test_a_value_that_is_too_large_to_draw_is_counted(made: Board):
    assert choose_trade(made, None, None, 1).left_out == 1


def test_each_leakage_task_has_its_primary_metric_against_each_of_usefulness(made: Board):
    assert [(each.up.title, each.group, each.across.title) for each in trades(made)] == [
        (up, group, "arc acc") for up in ("Exposure, planted once", "Extraction rate, planted once") for group in (1, 2)
    ]


def test_the_usual_columns_are_the_first_of_the_board(made: Board):
    trade = choose_trade(made, None, None, 1)
    assert (trade.across.title, trade.up.title) == ("arc acc", "Exposure, planted once")


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (
            (None, "control_exposure", 1),
            "^--up: 'control_exposure' is no column that has a better side: choose from Exp",
        ),
        (("HDT", None, 1), "^--across: 'HDT' is no column that has a better side: choose from arc acc$"),
        ((None, None, 3), "^--group 3: no such group: give a number from 1 to 2$"),
    ],
)
def test_an_unknown_column_or_group_is_one_line(made: Board, chosen: tuple, message: str):
    with pytest.raises(OptionError, match=message):
        choose_trade(made, *chosen)


def test_without_usefulness_there_is_nothing_to_choose(tmp_path: Path):
    write_run(tmp_path, "a", usual_canaries(0.5, each=3))
    with pytest.raises(OptionError, match="^--across: no run has such a column: add other runs$"):
        choose_trade(board(tmp_path), None, None, 1)
