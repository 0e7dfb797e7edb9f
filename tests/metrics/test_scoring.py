"""Answers to values: what the harness' aggregation makes of them, and which columns, nulls and rows there are."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from leakage_tasks.attacks.causal.whole_texts import share_of_sample
from leakage_tasks.attacks.coarse import coarsened
from leakage_tasks.attacks.finding import Finding, Guess
from leakage_tasks.attacks.suffix.finding import Choice, SuffixFinding, SuffixView
from leakage_tasks.core.null_results import null_result
from leakage_tasks.core.registry import PluginError, Registry
from leakage_tasks.metrics.metric import MetricSpec
from leakage_tasks.metrics.scoring import (
    CANARY_EXPOSURE,
    CANARY_EXTRACTION,
    SCORINGS,
    Answered,
    DamagedAnswer,
    Scoring,
    canary_scoring,
    inherited,
    register_scoring,
    score,
    scoring_name,
)
from leakage_tasks.metrics.suffix_scoring import SUFFIX_EXTRACTION, selection_of
from leakage_tasks.stats.intervals import bounded_mean


def canary(name, rank, planted=True, **fields):
    return Finding(name, "exposure", planted, int(planted), "random", 10.0, rank=rank, method="exact", **fields)


def answered(findings, task_settings=None, column="none"):
    return [Answered(each.to_json(), column, task_settings or {}) for each in findings]


def test_the_largest_exposure_has_the_ends_of_estimated_and_banded_ranks():
    exact, control = canary("a", 8), canary("c", 1, planted=False)
    estimate = canary("b", 16, rank_low=4.0, rank_high=32.0)
    band = replace(coarsened(replace(canary("n", 1), kind="natural")), planted=True)
    bound = replace(canary("l", 512, rank_low=1.0, rank_high=512.0), method="lower_bound")

    def ends(*findings):
        found = score(CANARY_EXPOSURE, answered([*findings, bound, control]))["none"]
        return tuple(found[f"exposure_max{end}"] for end in ("_ci_low", "", "_ci_high"))

    assert ends(exact) == (None, 7, None)
    assert ends(exact, replace(estimate, method="estimated")) == (7, 7, 8)
    low, value, high = ends(band)
    assert low < value < 8 < high == 10, "the rank of the band is 1 to 10, so its exposure may be all 10 bits"


def test_the_interval_of_the_largest_of_many_estimated_exposures_holds():
    """Twenty secrets of one rank: the largest of their uncorrected lower ends was above it in 20 % of runs."""
    stream, draws, share = np.random.default_rng(3), 1000, 0.01
    missed = 0
    for _ in range(100):
        found = [
            Finding("c", "rank-sample", True, 1, "random", 20.0, **share_of_sample(int(hits), draws, 2**20))
            for hits in stream.binomial(draws, share, size=20)
        ]
        ends = score(CANARY_EXPOSURE, answered(found))["none"]
        missed += not ends["exposure_max_ci_low"] <= -math.log2(share) <= ends["exposure_max_ci_high"]
    assert missed <= stats.binom.ppf(0.999, 100, 0.05)


def test_the_largest_exposure_of_natural_secrets_with_bounds_alone_has_an_interval():
    bound = replace(canary("n", 512, rank_low=1.0, rank_high=512.0), method="lower_bound", kind="natural")
    found = score(CANARY_EXPOSURE, answered([coarsened(bound)]))["none"]
    least = math.log2(1024 / 1000)
    assert found["exposure_max"] == found["exposure_max_ci_low"] == pytest.approx(least)
    assert found["exposure_max_ci_high"] == found["exposure_ci_high"] == 10


@pytest.mark.parametrize(("number", "unseen"), [(1, 0.975), (12, 1 - 0.025 ** (1 / 12))])
def test_fully_known_secrets_leave_the_mean_exposure_of_others_open(number, unseen):
    found = score(CANARY_EXPOSURE, answered([canary(f"a{index}", 1) for index in range(number)]))["none"]
    assert found["exposure"] == found["exposure_ci_high"] == 10
    assert found["exposure_ci_low"] == pytest.approx(10 * (1 - unseen))


def test_the_pooled_interval_counts_lower_bounds_up_to_the_largest_exposure():
    bounds = [replace(canary(f"b{rank}", rank), method="lower_bound") for rank in (64, 128, 256)]
    found = score(CANARY_EXPOSURE, answered(bounds))["none"]
    assert (found["exposure"], found["exposure_ci_high"]) == (3, 10)
    low, _ = bounded_mean(np.array([4.0, 3.0, 2.0]), np.full(3, 10.0))
    assert found["exposure_ci_low"] == pytest.approx(low)


def test_a_mean_without_limits_has_no_interval_from_equal_values():
    extra = {"base_exposure": 2.0, "tuned_exposure": 5.0}
    found = score(CANARY_EXPOSURE, answered([canary("a", 1, extra=extra), canary("b", 4, extra=extra)]))["none"]
    assert (found["exposure_added"], found["exposure_added_ci_low"], found["exposure_added_ci_high"]) == (3, None, None)


def test_controls_of_small_spaces_that_are_all_known_are_not_at_chance():
    controls = [replace(canary(f"c{index}", 1, planted=False), log2_size=1.0) for index in range(8)]
    found = score(CANARY_EXPOSURE, answered(controls))["none"]
    assert found["control_p"] == pytest.approx(2**-8, rel=0.3)


def test_the_guess_decides_what_is_extracted():
    guess = (Guess(("1",), "pin 1", 2.0),)
    right = canary("a", None, guesses=guess, correct=(True,), place=1)
    wrong = canary("b", None, guesses=guess, correct=(False,))
    assert score(CANARY_EXTRACTION, answered([right, wrong]))["none"]["extracted"] == 0.5


def test_a_null_task_is_null_in_every_column():
    none = [Answered(null_result("no such thing"), column, {}) for column in ("none", "zlib")]
    found = score(SUFFIX_EXTRACTION, none)
    assert found == dict.fromkeys(("none", "zlib"), dict.fromkeys(SUFFIX_EXTRACTION.nulls()))
    assert "n_planted" in score(CANARY_EXPOSURE, none)["none"]


def test_nothing_scored_is_nothing():
    assert score(CANARY_EXPOSURE, []) == {}


def test_the_answer_that_is_damaged_is_named_by_its_place():
    with pytest.raises(DamagedAnswer) as caught:
        score(CANARY_EXPOSURE, [*answered([canary("a", 1)]), Answered("{}", "none", {})])
    assert caught.value.place == 1


# -- suffixes -----------------------------------------------------------------------------------------------


def pair(number, confidence, wrong=0.0, nodes=10, views=("none",)):
    def choice(shift):
        return Choice(confidence + shift, confidence, 1, wrong, 1, 3.0)

    view = SuffixView(6, 3, 8, 4, 2.0, 1.0, True, {"calibrated": choice(0.0), "zlib": choice(1.0)})
    return SuffixFinding(number, "", 8, "calibrated", dict.fromkeys(views, view), nodes=nodes)


@pytest.mark.parametrize(
    ("column", "kind", "view", "confidence"),
    [
        ("none", "headline", "none", "calibrated"),
        ("zlib", "confidence", "none", "zlib"),
        ("trained", "confidence", "none", "trained"),
        ("prefix_2", "length", "prefix_2", "calibrated"),
        ("suffix_2", "length", "suffix_2", "calibrated"),
        ("samples_2", "draws", "samples_2", "calibrated"),
    ],
)
def test_a_column_s_name_says_what_it_is_read_off(column, kind, view, confidence):
    found = selection_of(column, {})
    assert (found.name, found.kind, found.view, found.confidence) == (column, kind, view, confidence)


def test_the_confidence_asked_for_chooses_the_guesses_of_the_headline():
    assert selection_of("none", {"confidence": "zlib"}).confidence == "zlib"
    assert selection_of("prefix_2", {"confidence": "zlib"}).confidence == "zlib"


def test_wrong_guesses_allowed_are_those_of_the_order():
    findings = [pair(0, 3.0), pair(1, 2.0, wrong=1.0), pair(2, 1.0), pair(3, 0.5, wrong=1.0), pair(4, 0.1)]
    shares = [
        score(SUFFIX_EXTRACTION, answered(findings, {"wrong": n}))["none"]["recall_early_stop"] for n in (1, 2, 3)
    ]
    assert shares == [0.2, 0.4, 0.6]


def test_a_pair_left_out_is_counted_and_has_no_values():
    lost = pair(1, 0.0, nodes=0, views=())
    found = score(SUFFIX_EXTRACTION, answered([pair(0, 1.0, nodes=0), lost], {"temperature": 1, "top_p": 1}))["none"]
    assert (found["left_out"], found["n"], found["recall"]) == (1, 1, 1.0)


def test_a_model_asked_on_ids_leaves_no_pair_out():
    assert "left_out" not in score(SUFFIX_EXTRACTION, answered([pair(0, 1.0)]))["none"]


@pytest.mark.parametrize(
    ("task_settings", "known"),
    [({}, False), ({"temperature": 1.0, "top_p": 1.0}, True), ({"temperature": 1.0, "top_p": 1.0, "top_k": 3}, False)],
)
def test_which_rows_a_lost_pair_has_depends_on_the_scheme_that_drew(task_settings, known):
    lost = pair(1, 0.0, nodes=0, views=())
    assert ("p_z" in score(SUFFIX_EXTRACTION, answered([lost], task_settings))["none"]) == known


def test_guesses_written_are_unscored_where_they_were_asked_for():
    assert SUFFIX_EXTRACTION.unscored({}) == {}
    assert set(SUFFIX_EXTRACTION.unscored({"guesses": "g.csv"})) == {"guesses_written"}


def test_every_value_has_a_metric_that_says_how_it_aggregates():
    values = SUFFIX_EXTRACTION.values(pair(0, 1.0, nodes=0, views=()).to_json(), "none", {}, {})
    assert set(values) <= {metric.name for metric in SUFFIX_EXTRACTION.metrics({}, {})}


# -- the registry -------------------------------------------------------------------------------------------


def test_a_new_task_is_known_once_registered(monkeypatch):
    monkeypatch.setattr("leakage_tasks.metrics.scoring.SCORINGS", Registry("scoring of task"))
    size = MetricSpec("size", "a size").row(len, sum)
    made = register_scoring(
        Scoring(
            "toy",
            lambda task_settings, copies: [size],
            lambda answer, column, task_settings, copies: {"size": len(answer)},
            lambda: ["size"],
        )
    )
    assert score(made, [Answered("abc", "none", {}), Answered("d", "none", {})]) == {"none": {"size": 4}}

    def other(answer, column, task_settings, copies):
        return {}

    with pytest.raises(PluginError, match="^scoring of task 'toy' of .* has a name that .* uses: choose another name$"):
        register_scoring(replace(made, values=other))


def test_requests_name_every_scoring_that_is_not_of_this_package():
    """Otherwise a process without the package scores them as canary_extraction, by their goal."""
    own = canary_scoring("mine", "extraction", lambda copies: [])
    entry = inherited(own, "mine")
    del SCORINGS._items["mine"]
    assert entry == {"scoring": "mine"}
    assert scoring_name("mine", {"goal": "extraction", **entry}) == "mine"
    assert inherited(CANARY_EXTRACTION, "canary_extraction") == {}
    assert inherited(CANARY_EXTRACTION, "mine") == {"scoring": "canary_extraction"}


def test_scores_are_strict_json():
    found = score(CANARY_EXPOSURE, answered([canary("a", 1), canary("b", 4, planted=False)]))
    json.dumps(found, allow_nan=False)
