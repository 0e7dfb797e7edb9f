from __future__ import annotations

import pytest

from leakage_tasks.report.load.figures import Figure, Flag
from leakage_tasks.report.load.format import context_lines, flag_words, interval, measure, number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"), (0.0, "0.00"), (1.0, "1.00"), (0.5, "0.500"), (0.0123, "0.012"), (0.001, "1.0e-03"), (9.5, "9.50"),
        (29.897, "29.9"), (1234567.0, "1,234,567"), (-2.5, "-2.50"), (1e-9, "1.0e-09"),
    ],
)  # fmt: skip
def test_figures_keep_about_three_digits(value: float | None, text: str):
    assert number(value) == text


def test_an_interval_stands_in_brackets_and_nowhere_if_there_is_none():
    assert interval(Figure(0.5, 0.25, 0.75)) == "[0.250, 0.750]"
    assert interval(Figure(0.5)) == ""


def test_controls_and_count_stand_beside():
    assert context_lines(Figure(0.5, control=0.0, count=1200)) == ["controls 0.00", "n = 1,200"]
    assert context_lines(Figure(0.5)) == []


def test_the_same_flag_of_two_tasks_is_said_once():
    same = [Flag(task, "n_planted", 4.0, "few") for task in ("a", "b")]
    other = Flag("a", "control_p", 0.001, "not at chance", fault=True)
    assert flag_words([*same, other]) == ["a, b: few (n_planted = 4)", "a: not at chance (p = 1.0e-03)"]


@pytest.mark.parametrize(
    ("value", "limit", "text"),
    [
        (0.0099, 0.01, "0.0099"),
        (0.0099996, 0.01, "0.0099996"),
        (0.9996, 1, "0.9996"),
        (0.001, 0.01, "1.0e-03"),
        (0.01, 0.01, "0.010"),
        (999.99, 1000, "999.99"),
    ],
)
def test_a_flagged_value_is_shown_below_its_limit(value: float, limit: float, text: str):
    assert measure(Flag("a", "share", value, "", below=limit)) == f" (share = {text})"


def test_a_share_that_raises_an_alarm_is_not_rounded_to_a_count():
    flag = Flag("a", "share_with_interval", 0.5, "bounds", low=True)
    assert flag_words([flag]) == ["a: bounds (share_with_interval = 0.500)"]
