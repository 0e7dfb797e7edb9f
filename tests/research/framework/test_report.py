"""A report as text, and figures with their intervals."""

from __future__ import annotations

import math
import statistics

import pytest
from scipy import stats

from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, markdown, plain_text, show


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (None, ""),
        ("towels", "towels"),
        (22413, "22,413"),
        (0.25, "0.25"),
        (True, "True"),
        (Published(None), "not in the source"),
        (Published(3.4e-5), "3.4e-05"),
        (Published(22413), "22,413"),
        (Published("0.0058"), "0.0058"),
        (Measured(0.9, 0.55498, 0.99747, 10), "0.9 [0.555, 0.997] n=10"),
        (Measured(1234.56, None, None, 1), "1,235 n=1"),
        (Measured(0.5, 0.4, 0.6, 3, 0.0512), "0.5 ± 0.0512 [0.4, 0.6] n=3"),
        (Measured.mean([29.9] * 3), "29.9, equal in all n=3"),
        (Measured.over_seeds([0.295] * 4, 1.0), "0.295, equal in all n=4"),
        (Measured.mean([0.0] * 3), "0, equal in all n=3"),
    ],
)
def test_cells(cell: object, shown: str) -> None:
    assert show(cell) == shown  # type: ignore[arg-type]


def test_numbers_stand_right_and_words_left() -> None:
    report = Report(["word", "rank"], [{"word": "a", "rank": 7}, {"word": "long", "rank": 1000}, {"word": "b"}])
    assert plain_text(report) == "word   rank\n----  -----\na         7\nlong  1,000\nb\n"


def test_inconclusive_claims_say_so() -> None:
    report = Report(["a"], [], [Claim("more is more", None, "one setting")])
    assert "  * inconclusive: more is more (one setting)" in plain_text(report)


def test_markdown_keeps_its_table() -> None:
    report = Report(["a|b", "c"], [{"a|b": "<x>|", "c": 1}], differences=["none"])
    assert markdown(report, "Title") == (
        "## Title\n\n| a\\|b | c |\n| --- | --- |\n| &lt;x>\\| | 1 |\n\n**How this differs from the paper**\n\n- none\n"
    )


def test_a_row_with_an_unknown_column_is_refused() -> None:
    with pytest.raises(ValueError, match="column 'rnak' of a row is not among rank"):
        Report(["rank"], [{"rnak": 1}])


def test_a_rate_has_the_exact_interval() -> None:
    low, high = stats.beta.ppf(0.025, 9, 2), stats.beta.ppf(0.975, 10, 1)
    assert Measured.rate(9, 10) == Measured(0.9, pytest.approx(low), pytest.approx(high), 10)


def test_a_mean_of_signed_values_has_students_interval() -> None:
    values = [-1.0, 2.0, 4.0]
    interval = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert Measured.mean(values) == Measured(
        pytest.approx(5 / 3), pytest.approx(interval.low), pytest.approx(interval.high), 3
    )


def test_a_mean_of_ranks_stays_above_nothing() -> None:
    found = Measured.mean([1, 2, 400])
    assert found.value == pytest.approx(403 / 3)
    assert 0 < (found.low or 0) < found.value < (found.high or 0) < math.inf


def test_one_value_has_no_interval_and_none_no_mean() -> None:
    assert Measured.mean([3]) == Measured(3, None, None, 1)
    assert Measured.mean([0, 0]) == Measured(0, 0, 0, 2)
    with pytest.raises(ValueError, match="no values"):
        Measured.mean([])


def test_no_interval_reaches_beyond_what_is_possible() -> None:
    found = Measured.mean([1, 4_000], most=5_000)
    assert found.high == 5_000
    assert found.low is not None
    assert found.low < found.value


def test_a_mean_over_seeds_tells_its_deviation() -> None:
    values = [0.4, 0.5, 0.7]
    found = Measured.over_seeds(values)
    assert found.sd is not None
    assert abs(found.sd - statistics.stdev(values)) < 1e-12
    assert (found.low, found.high) == (Measured.mean(values).low, Measured.mean(values).high)
    assert Measured.over_seeds([0.4]).sd is None
