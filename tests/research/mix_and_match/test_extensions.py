"""What the studies of bridges, DP-SGD and Figures 2 and 3 make of trials that are known, without a model."""

from __future__ import annotations

from typing import Any

import pytest

from leakage_tasks.research.classifiers.experiment import PAPER_YELP, ClassifierExperiment
from leakage_tasks.research.classifiers.lab_canaries import SMALL_TABLE
from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Report
from leakage_tasks.research.mix_and_match import bars, extensions
from leakage_tasks.research.mix_and_match.extension_trials import extended
from leakage_tasks.research.mix_and_match.tables import table_trials
from leakage_tasks.research.mix_and_match.trials import PAPER, SMALL
from tests.research.stored import verdicts

SMALL_PLAN, PAPER_PLAN = StudyPlan("small"), StudyPlan("paper")
SIZE = 6_000
NAMES = [each.target for each in SMALL_TABLE]
PLACES = {"exhaustive": (SIZE, 900), "pretrained": (400, 90), "frankenstein": (500, 100)}


def trial(config: Config, accuracy: float = 0.4, **changed: tuple[int, int]) -> StudyTrial:
    """All canaries at the same two places by each generator."""
    ranks = {name: {each: list(pair) for each, pair in (PLACES | changed).items()} for name in NAMES}
    controls = {f"control-{place}": {"exhaustive": [SIZE, SIZE // 2 + place]} for place in (0, 9)}
    losses = {name: [6.0, 5.0] for name in ("adapter", "prompt") if name in changed}
    found: dict[str, Any] = {"ranks": ranks, "controls": controls, "alphabet": SIZE, "losses": losses}
    return StudyTrial(config, {**found, "accuracy": accuracy, "epsilon": config.get("epsilon")}, 1.0)


# -- bridges --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("adapter", "holds"), [((300, 60), True), ((700, 160), False), ((500, 100), None)])
def test_claims_on_bridges_hold_fail_and_stay_open(adapter: tuple[int, int], holds: bool | None) -> None:
    trials = [trial(config, adapter=adapter, prompt=(900, 300)) for config in extensions.bridge_trials(SMALL_PLAN)]
    found = verdicts(extensions.bridge_report(trials, SMALL_PLAN))
    assert found["an adapter generates better candidates"] is holds
    assert found["an adapter helps after pruning"] is holds
    assert found["a tuned prompt generates better candidates"] is False


def test_a_row_counts_places_from_nought_and_shares_within_so_many() -> None:
    trials = [trial(config, adapter=(300, 9), prompt=(1, 1)) for config in extensions.bridge_trials(SMALL_PLAN)]
    rows = {row["bridge"]: row for row in extensions.bridge_report(trials, SMALL_PLAN).rows}
    adapter, none = rows["adapter"], rows["no bridge"]
    assert (adapter["K"].value, adapter["beam"].value, adapter["nats/mask"].value) == (300, 8, 5.0)
    assert [adapter[f"found@{k}"].value for k in (1, 10, 100)] == [0, 1, 1]
    assert (none["K"].value, none["nats/mask"]) == (500, None)


# -- differential privacy -------------------------------------------------------------------------------------


def defence(place: int, accuracies: tuple[float, ...] = (0.1, 0.11, 0.12)) -> Report:
    """Private victims' canaries spread around ``place``."""
    trials = []
    for config in extensions.defence_trials(SMALL_PLAN):
        if config["epsilon"] is None:
            trials.append(trial(config, 0.4 + config["seed"] / 100, adapter=(1, 1), prompt=(1, 1)))
        else:
            trials.append(trial(config, accuracies[config["seed"]], exhaustive=(SIZE, place + 99 * config["seed"])))
    return extensions.defence_report(trials, SMALL_PLAN)


def test_a_private_victim_that_leaks_nothing() -> None:
    found = verdicts(defence(2_900))
    assert found["differential privacy defends against the attack (mean rank with vs without): ε = 8"] is True
    assert found["ε = 8: with DP-SGD the class loss ranks tokens as by chance"] is True
    assert found["the defence may reduce accuracy (with vs without): ε = 8"] is True


def test_a_private_victim_that_leaks_more() -> None:
    found = verdicts(defence(1, (0.5, 0.51, 0.52)))
    assert found["differential privacy defends against the attack (mean rank with vs without): ε = 8"] is False
    assert found["ε = 8: with DP-SGD the class loss ranks tokens as by chance"] is False
    assert found["the defence may reduce accuracy (with vs without): ε = 8"] is False


def test_accuracies_that_overlap_tell_nothing() -> None:
    assert verdicts(defence(2_900, (0.3, 0.4, 0.5)))["the defence may reduce accuracy (with vs without): ε = 8"] is None


def test_both_studies_share_their_plain_victims() -> None:
    plain = [config for config in extensions.defence_trials(SMALL_PLAN) if config["epsilon"] is None]
    assert plain == extensions.bridge_trials(SMALL_PLAN) == extended(SMALL_PLAN)
    assert all(not config["bridges"] for config in extended(SMALL_PLAN, 8.0))


# -- Figures 2 and 3 ------------------------------------------------------------------------------------------

FIGURES = {2: (PAPER_YELP, bars.FIVE), 3: (PAPER, SMALL)}


def figure(number: int, random: tuple[int, int], organic: tuple[int, int]) -> Report:
    """The figure's report where the Frankenstein model's numbers depend on the kind of canary."""
    paper, small = FIGURES[number]
    kinds = {each.target: random if each.kind == "random" else organic for each in SMALL_TABLE}
    trials = [trial(config) for config in bars.bar_trials(SMALL_PLAN, paper=paper, small=small)]
    for each in trials:
        for place, (name, pair) in enumerate(kinds.items()):
            each.result["ranks"][name]["frankenstein"] = [pair[0] + place, pair[1]]
    return bars.bar_report(trials, SMALL_PLAN, paper=paper, small=small)


@pytest.mark.parametrize(("random", "organic", "holds"), [(200, 800, True), (800, 200, False), (400, 400, None)])
def test_the_claim_on_kinds_follows_the_candidates(random: int, organic: int, holds: bool | None) -> None:
    found = verdicts(figure(3, (random, 90), (organic, 90)))
    assert (
        found["relative to the language model, the Frankenstein model is better for random canaries: reddit"] is holds
    )


@pytest.mark.parametrize(("place", "holds"), [(95, True), (900, False), (9, False)])
def test_the_claim_that_both_retrieve_alike_follows_the_ratio(place: int, holds: bool) -> None:
    words = "both generators retrieve tokens equally well: ranks within a factor of two, reddit"
    assert verdicts(figure(3, (400, place), (400, place + 1)))[words] is holds


def test_published_figures_are_those_of_the_tables() -> None:
    rows = {(row["copies"], row["target"]): row for row in figure(2, (1, 1), (1, 1)).rows}
    assert rows[25, "gateway (towels)"]["Frank. beam*"].value == 2681
    assert rows[100, "also (final)"]["Frank. K*"].value == 3669
    assert len(rows) == 3 * len(SMALL_TABLE)


def test_figure_3_has_the_tables_own_trials_and_figure_2_five_classes() -> None:
    paper, small = FIGURES[3]
    tables = [each for table in (5, 25, 100) for each in table_trials(SMALL_PLAN, repetitions=table)]
    assert bars.bar_trials(SMALL_PLAN, paper=paper, small=small) == tables
    yelp, five = FIGURES[2]
    assert {each["ground"]["classes"] for each in bars.bar_trials(SMALL_PLAN, paper=yelp, small=five)} == {5}
    own = bars.bar_trials(PAPER_PLAN, paper=yelp, small=five)
    assert {ClassifierExperiment(**each["ground"]).data for each in own} == {"yelp"}
