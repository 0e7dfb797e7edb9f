"""What the studies of Elmahdy et al. make of trials that are known, without a model."""

import math
from itertools import combinations
from typing import Any

import pytest

from leakage_tasks.research.elmahdy import beyond as elmahdy_beyond
from leakage_tasks.research.elmahdy import tables as elmahdy
from leakage_tasks.research.elmahdy.counts import SearchOutcome, against_guess, leaks_more, success, with_copies
from leakage_tasks.research.elmahdy.trials import PENALTIES, main_victim, victim
from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Measured
from tests.research.stored import verdicts

SMALL, PAPER = StudyPlan("small"), StudyPlan("paper")
SIZE = 5_000


def trial(config: Config, *places: int | None, much: int = 900) -> StudyTrial:
    """A trial whose canaries came out at ``places``, with the largest penalty all of them at ``much``."""
    by_penalty = {str(penalty): list(places) for penalty in config["penalties"]}
    if "10.0" in by_penalty:
        by_penalty["10.0"] = [much] * len(places)
    found: dict[str, Any] = {"places": by_penalty, "controls": [SIZE // 2], "alphabet": SIZE, "epsilon": None}
    return StudyTrial(config, {**found, "accuracy": 0.3, "training_accuracy": 0.5}, 1.0)


def table_3(by_copies: dict[int, tuple[int, ...]]):
    found = [trial(main_victim(SMALL, 0), *by_copies[100])]
    found += [trial(victim(SMALL, 0, repetitions=r), *by_copies[r]) for r in (50, 25, 10)]
    return elmahdy.table_3(found, SMALL)


def test_copies_are_scaled_to_the_data_and_stay_apart():
    copies = [config["repetitions"] for config in elmahdy.table_3_trials(SMALL)]
    assert sorted(set(copies)) == [3, 8, 15, 30]
    assert {config["repetitions"] for config in elmahdy.table_3_trials(PAPER)} == {100, 50, 25, 10}


def test_a_setting_finds_its_trials_by_the_papers_number():
    trials = [trial(config, 1) for config in elmahdy.table_4_trials(SMALL)]
    found = with_copies(trials, supporting="one", supporting_repetitions=25)
    assert {each.config["supporting_repetitions"] for each in found} == {8}
    assert len(found) == 4


def test_the_tables_share_their_main_victims():
    tables = (elmahdy.table_2_trials, elmahdy.table_3_trials, elmahdy.table_4_trials, elmahdy_beyond.private_trials)
    mains = [main_victim(SMALL, 0) in [dict(config) for config in trials(SMALL)] for trials in tables]
    assert mains == [True] * 4


def test_success_counts_canaries_over_trials():
    trials = [trial(victim(SMALL, seed), *places) for seed, places in enumerate([(1, 101), (100, None)])]
    rate = success(trials, 100, 0.01)
    assert rate is not None
    assert (rate.value, rate.count) == (0.5, 4)


def test_cells_are_the_shares_within_each_beam():
    report = table_3({100: (1, 60), 50: (1, 150), 25: (150, 250), 10: (400, 500)})
    cells = {(row["beam"], row["repetitions"]): row["measured"].value for row in report.rows}
    assert [cells[k, 100] for k in (50, 100, 200)] == [0.5, 1.0, 1.0]
    assert [cells[k, 25] for k in (50, 100, 200)] == [0.0, 0.0, 0.5]
    published = {(row["beam"], row["repetitions"]): row["published"].value for row in report.rows}
    assert (published[50, 25], published[100, 100], published[200, 10]) == (0.1, 0.9, 0.2)


@pytest.mark.parametrize("rising", [True, False])
def test_claims_on_repetitions_can_hold_and_fail(rising):
    order = (100, 50, 25, 10) if rising else (10, 25, 50, 100)
    places = dict(zip(order, [(1, 1), (1, 150), (90, 250), (400, 500)], strict=True))
    found = verdicts(table_3(places))
    assert found["more repetitions leak more: 100 leak more than 10"] is rising
    assert found["more repetitions leak more: 25 leak no less than 10"] is rising


def table_2(one: tuple[int | None, ...], two: tuple[int | None, ...], much: int):
    trials = [trial(main_victim(SMALL, 0), *one, much=much)]
    for unknown, places in ((2, two), (3, (None, None))):
        trials.append(trial(victim(SMALL, 0, unknown=unknown, penalties=list(PENALTIES)), *places))
    return elmahdy.table_2(trials, SMALL)


def test_a_large_penalty_does_worse_even_where_all_are_still_found():
    words = "a large λ reduces success: λ = 10 is worse than 0.01"
    assert verdicts(table_2((1, 2), (None, 1), much=80))[words] is True
    assert verdicts(table_2((90, 95), (None, 1), much=1))[words] is False


def test_more_unknown_tokens_are_harder_or_not():
    words = "each further unknown token makes extraction harder: two tokens are harder than one"
    assert verdicts(table_2((1, 2), (None, 1), much=80))[words] is True
    assert verdicts(table_2((900, 800), (3, 1), much=80))[words] is False


def test_random_guess_stands_beside_in_both_forms():
    printed, whole = table_2((1, 2), (None, 1), much=80).rows[-2:]
    assert float(printed["last 2"]) == pytest.approx((100 / SIZE) ** 2)
    assert float(whole["last 2"]) == pytest.approx(100 / SIZE**2)
    assert printed["last 2, published"].value == 3.4e-5
    assert printed["last 3, published"].value is None


@pytest.mark.parametrize(("every", "one", "none"), [((1, 1), (50, 150), (300, 400)), ((300, 400), (50, 150), (1, 1))])
def test_claims_on_supporting_canaries_follow_the_places(every, one, none):
    trials = [trial(victim(SMALL, 0, supporting="one", supporting_repetitions=r), *one) for r in (99, 50, 25)]
    trials += [trial(victim(SMALL, 0, supporting="none"), *none), trial(main_victim(SMALL, 0), *every)]
    found = verdicts(elmahdy.table_4(trials, SMALL))
    assert found["supporting canaries in all other classes raise success greatly"] is (every < none)
    assert found["a supporting canary in another class helps greatly"] is (one < none)


def test_an_outcome_has_a_mean_place_where_all_are_ranked():
    ranked, lost = (SearchOutcome.of([trial(victim(SMALL, 0), *places)], 100, 0.0) for places in ((1, 100), (1, None)))
    assert ranked is not None
    assert lost is not None
    assert ranked.place == pytest.approx(math.sqrt(100))
    assert lost.place is None
    assert leaks_more(ranked, None, "words").holds is None


def outcome(*places: int) -> SearchOutcome:
    found = SearchOutcome.of([trial(victim(SMALL, 0), *places)], 100, 0.0)
    assert found is not None
    return found


def test_more_success_has_the_p_of_all_ways_to_deal_it_out():
    """Five of six against one of six: the share of ways to share out six hits that are as unlikely or more so."""
    ways = [sum(index < 6 for index in chosen) for chosen in combinations(range(12), 6)]
    as_unlikely = sum(ways.count(hits) for hits in range(7) if ways.count(hits) <= ways.count(5))
    claim = leaks_more(outcome(1, 2, 3, 4, 5, 900), outcome(1, 500, 600, 700, 800, 900), "words")
    assert claim.holds is True
    assert claim.p == pytest.approx(as_unlikely / len(ways))


def test_lower_places_have_the_p_of_all_ways_to_rank_them():
    """All four of one before all four of the other: two of the 70 ways to rank them, the two ends."""
    claim = leaks_more(outcome(1, 2, 3, 4), outcome(10, 20, 30, 40), "words")
    assert (claim.holds, claim.p) == (True, pytest.approx(2 / 70))


@pytest.mark.parametrize(("one", "tested"), [((1, 2, 3, 4), False), ((900, 2, 3, 4), True)])
def test_no_less_is_tested_only_where_it_is_less(one, tested):
    assert (leaks_more(outcome(*one), outcome(1, 2, 3, 4), "words", or_as_much=True).p is not None) == tested


def test_a_rate_above_a_guess_has_twice_the_upper_tail():
    tail = sum(math.comb(12, hits) * 0.1**hits * 0.9 ** (12 - hits) for hits in (4, 5, 6, 7, 8, 9, 10, 11, 12))
    assert against_guess(Measured.rate(4, 12), 0.1, "words").p == pytest.approx(2 * tail)
    assert against_guess(Measured.rate(4, 12), 0.1, "words", at_chance=True).p is None


@pytest.mark.parametrize(("few", "holds"), [((1, 2, 3, 4), True), ((100, 200, 300, 400), False)])
def test_copies_of_the_supporting_canary_make_no_difference_or_do(few, holds):
    places = {99: (1, 2, 3, 4), 50: (2, 3, 4, 5), 25: few}
    trials = [trial(victim(SMALL, 0, supporting="one", supporting_repetitions=r), *own) for r, own in places.items()]
    trials += [trial(victim(SMALL, 0, supporting="none"), 9, 9), trial(main_victim(SMALL, 0), 1, 1)]
    claim = elmahdy.table_4(trials, SMALL).claims[-1]
    assert (claim.words, claim.holds) == ("the number of copies of the supporting canary has no effect", holds)
    assert claim.p is None
