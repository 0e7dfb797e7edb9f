"""Claims of The Secret Sharer's studies hold, fail and stay open as the figures say."""

import pytest

from leakage_tasks.research.secret_sharer import claims


@pytest.mark.parametrize(
    ("exposures", "holds"),
    [
        ({1: [1.0, 1.1], 2: [2.0, 2.1], 4: [3.0, 3.1]}, True),
        ({1: [3.0, 3.1], 2: [2.0, 2.1], 4: [1.0, 1.1]}, False),
        ({1: [1.0], 2: [3.0], 4: [2.0]}, None),
        ({1: [1.0, 2.0, 3.0]}, None),
        ({1: [1.0], 2: [1.0], 3: [1.0]}, None),
    ],
    ids=["rising", "falling", "unclear", "one setting", "all alike"],
)
def test_growth_is_told_by_rank_correlation(exposures, holds):
    assert claims.grows("grows", exposures).holds is holds


def test_a_fall_is_growth_the_other_way():
    points = [(float(n), -float(n)) for n in range(6)]
    assert claims.falls("falls", points).holds is True
    assert claims.falls("falls", [(-x, y) for x, y in points]).holds is False


@pytest.mark.parametrize(
    ("one", "other", "holds"),
    [
        ([10, 11, 12, 13, 14], [1, 2, 3, 4, 5], True),
        ([1, 2, 3, 4, 5], [10, 11, 12, 13, 14], False),
        ([1, 4], [2, 3], None),
        ([], [1], None),
    ],
)
def test_a_group_is_higher_where_the_rank_sum_says_so(one, other, holds):
    assert claims.higher("higher", one, other).holds is holds


def test_a_setting_still_leaks_if_every_model_exceeds_chance():
    assert claims.still_leaks("leaks", {"a": [20.0, 5.0], "b": [9.0]}).holds is True
    assert claims.still_leaks("leaks", {"a": [20.0, 4.0], "b": [9.0]}).holds is False


def test_a_lower_bound_below_chance_leaves_open_whether_all_leak():
    assert claims.still_leaks("leaks", {"a": [20.0, 4.0]}, [4.0]).holds is None
    assert claims.still_leaks("leaks", {"a": [20.0, 4.0, 3.0]}, [4.0]).holds is False
    assert claims.still_leaks("leaks", {"a": [20.0, 5.0]}, [5.0]).holds is True
    assert "a: ≥ 4.0" in claims.still_leaks("leaks", {"a": [20.0, 4.0]}, [4.0]).evidence


def test_chance_exceeds_the_limit_in_five_percent():
    # Of |R| fillings a share of 2^-e has an exposure of e or more.
    assert pytest.approx(0.05) == 2**-claims.CHANCE


def test_settings_are_alike_until_the_test_rejects_it():
    assert claims.alike("alike", {"a": [1.0, 2.0, 3.0], "b": [1.1, 2.1, 2.9]}).holds is True
    assert claims.alike("alike", {"a": [1.0, 2.0, 3.0, 4.0], "b": [11.0, 12.0, 13.0, 14.0]}).holds is False
    assert claims.alike("alike", {"a": [1.0], "b": [2.0]}).holds is None
    assert claims.alike("alike", {"a": [29.9, 29.9], "b": [29.9, 29.9]}).holds is True


def test_what_held_in_all_runs_but_one_does_not_hold():
    assert claims.all_of("all", [True, True], "runs").holds is True
    assert claims.all_of("all", [True, False], "runs").holds is False
    assert claims.all_of("all", [], "runs").holds is None


@pytest.mark.parametrize(
    ("hits", "runs", "holds"),
    [
        *((3, 3, True), (0, 3, False), (4, 5, None), (1, 3, None)),
        *((9, 10, True), (1, 10, False), (8, 10, None), (0, 0, None)),
    ],
)
def test_a_rule_is_told_by_all_runs_or_by_the_interval_of_their_share(hits, runs, holds):
    """Of 10 runs 9 have an interval from 0.555 on, 8 one from 0.444 on, by tables of the binomial distribution."""
    assert claims.as_a_rule("rule", [n < hits for n in range(runs)], "runs").holds is holds


@pytest.mark.parametrize(("over", "models", "holds"), [(0, 5, True), (1, 20, None), (3, 5, False), (10, 20, False)])
def test_chance_may_exceed_the_limit_as_often_as_it_does(over, models, holds):
    """One of 20 at least exceeds it in 64 % of cases; three of five in 0.1 %."""
    found = claims.unknown("unknown", [10.0] * over + [1.0] * (models - over))
    assert found.holds is holds
    assert (found.p is not None) == (holds is False)
