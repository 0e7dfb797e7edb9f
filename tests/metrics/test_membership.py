"""Metrics of membership from made-up findings."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

from leakage_tasks.attacks.membership.finding import MembershipFinding, membership_finding_from_json
from leakage_tasks.metrics.membership import MEMBERSHIP
from leakage_tasks.metrics.membership_values import (
    MEMBERSHIP_ENDS,
    ScoredText,
    chosen_attack,
    reached_fpr,
    reported_tpr,
    score_of,
    scores_of,
    tpr,
)
from leakage_tasks.metrics.scoring import Answered, score
from leakage_tasks.stats.intervals import clopper_pearson


def made(members, others, seed=0, shift=1.0):
    """Findings whose attack ``loss`` separates the classes and whose attack ``zlib`` does not."""
    rng = np.random.default_rng(seed)
    found = []
    for index in range(members + others):
        member = index < members
        scores = {"loss": float(rng.normal() + shift * member), "zlib": float(rng.normal())}
        number = index if member else -1 - index
        found.append(MembershipFinding(number, member, index, bool(rng.integers(2)), 9, scores))
    return found


def metrics(found):
    return score(MEMBERSHIP, [Answered(each.to_json(), "none", {}) for each in found])["none"]


def test_the_rates_are_those_of_a_threshold_from_the_other_non_members():
    found = made(300, 2400)
    values = metrics(found)
    choosing = sorted((each.scores["loss"] for each in found if each.chooses and not each.member), reverse=True)
    assert 1000 < len(choosing) == values["n_threshold"]
    for name, one_in in {"tpr_at_1_fpr": 100, "tpr_at_0_1_fpr": 1000}.items():
        threshold = choosing[(len(choosing) + 1) // one_in - 1]
        every = [each.scores["loss"] > threshold for each in found if each.member]
        tested = [each.scores["loss"] > threshold for each in found if each.member and not each.chooses]
        others = [each.scores["loss"] > threshold for each in found if not each.member and not each.chooses]
        assert values[f"{name}_loss"] == pytest.approx(np.mean(every))
        assert values[name] == pytest.approx(np.mean(tested))
        assert values[f"{name}_ci_low"] <= clopper_pearson(sum(tested), len(tested))[0]
        assert values[f"{name}_ci_high"] >= clopper_pearson(sum(tested), len(tested))[1]
        assert values[f"fpr_for_{name}"] == pytest.approx(np.mean(others))
    assert values["n_reported_members"] == len(tested)


def test_a_rate_without_enough_non_members_has_only_an_upper_end():
    found = made(60, 300)
    values = metrics(found)
    # 150 non-members: 2 or more exceed the true threshold with probability 1 %, one or more with 14 %.
    threshold = sorted(each.scores["loss"] for each in found if each.chooses and not each.member)[-2]
    flags = [each.scores["loss"] > threshold for each in found if each.member and not each.chooses]
    assert values["tpr_at_0_1_fpr"] is values["fpr_for_tpr_at_0_1_fpr"] is None
    assert values["tpr_at_0_1_fpr_ci_low"] == 0
    assert values["tpr_at_0_1_fpr_ci_high"] == pytest.approx(clopper_pearson(sum(flags), len(flags))[1])
    assert values["tpr_at_1_fpr"] is not None
    alone = [each for each in found if each.member or not each.chooses][:200]
    alone.append(MembershipFinding(-900, False, 900, True, 9, {"loss": 0.0, "zlib": 0.0}))
    assert metrics(alone)["tpr_at_1_fpr_loss_ci_high"] is not None


@pytest.mark.parametrize(
    ("members", "others", "one_in"), [(300, 99, 100), (300, 30, 100), (300, 400, 100), (60, 90, 1000)]
)
def test_the_interval_of_a_rate_holds_the_rate_at_the_true_threshold(members, others, one_in):
    """Normal scores; with a threshold that counts as known, 15 to 73 % of these intervals failed."""
    stream, (_, ends), shift = np.random.default_rng(2), tpr(one_in), 2.0
    truth = stats.norm.sf(stats.norm.isf(1 / one_in) - shift)
    missed = 0
    for _ in range(100):
        texts = [ScoredText(score, True, place, False) for place, score in enumerate(stream.normal(shift, 1, members))]
        texts += [ScoredText(score, False, -1 - place, True) for place, score in enumerate(stream.normal(size=others))]
        missed += not ends.low(texts) <= truth <= ends.high(texts)
    assert missed <= stats.binom.ppf(0.999, 100, 0.05)


def test_the_interval_of_a_rate_allows_for_clusters_of_non_members():
    """A threshold from 20 groups of 50 texts is as uncertain as one from 20 texts."""
    stream, (_, ends) = np.random.default_rng(2), tpr(100)
    texts = [ScoredText(score, True, place, False) for place, score in enumerate(stream.normal(2, 1, 200))]
    scores = np.repeat(stream.normal(size=20), 50) + stream.normal(size=1000) / 100
    alone = [ScoredText(score, False, -1 - place, True) for place, score in enumerate(scores)]
    grouped = [text._replace(cluster=-1 - place // 50) for place, text in enumerate(alone)]
    assert ends.low([*texts, *grouped]) == 0 < ends.low([*texts, *alone])
    assert ends.high([*texts, *grouped]) > ends.high([*texts, *alone])


def test_the_choice_of_an_attack_sees_only_the_texts_that_choose():
    found = made(80, 80)
    assert chosen_attack([scores_of(each) for each in found]) == "loss"
    for each in found:
        if not each.chooses:
            each.scores["zlib"] = 100.0 * each.member
    views = [scores_of(each) for each in found]
    assert chosen_attack(views) == "loss"
    reported = [each for each in found if not each.chooses]
    area = roc_auc_score([each.member for each in reported], [each.scores["loss"] for each in reported])
    assert metrics(found)["membership_auc"] == pytest.approx(area)


@pytest.mark.slow
def test_the_best_of_attacks_without_signal_is_not_above_chance():
    """Over 200 runs without a signal, the interval of the chosen attack lies above 0.5 in about 2.5 %."""
    runs = (list(map(scores_of, made(30, 30, seed, shift=0.0))) for seed in range(200))
    assert 0 < sum(MEMBERSHIP_ENDS.low(texts) > 0.5 for texts in runs) <= 12


@pytest.mark.slow
@settings(max_examples=25)
@given(st.integers(0, 10_000), st.permutations(range(24)))
def test_figures_depend_neither_on_the_order_of_texts_nor_on_a_monotone_scale(seed, order):
    found = made(12, 12, seed)
    values = metrics(found)
    assert metrics([found[index] for index in order]) == pytest.approx(values, nan_ok=True)
    for each in found:
        each.scores["loss"] = math.exp(each.scores["loss"] / 3)
    assert metrics(found) == pytest.approx(values)


def test_texts_that_are_left_out_count_in_no_figure():
    found = made(20, 20)
    more = [MembershipFinding(100, True, 100, True, 1), MembershipFinding(-101, False, 101, False, 1)]
    values, without = metrics([*found, *more]), metrics(found)
    assert values.pop("left_out") == 2
    assert without.pop("left_out") == 0
    assert values == without


def test_one_class_or_equal_scores_have_no_auc():
    alone = [each for each in made(20, 20) if each.member]
    values = metrics(alone)
    assert values["auc_loss"] is values["membership_auc"] is values["tpr_at_1_fpr"] is None
    equal = made(20, 20)
    for each in equal:
        each.scores["loss"] = 1.0
    assert metrics(equal)["auc_loss"] is None
    assert chosen_attack([scores_of(each) for each in equal]) == "zlib"
    assert reached_fpr(10)([]) is reported_tpr(10)[0]([]) is None
    assert tpr(100)[0]([ScoredText(1.0, True, 0, True)]) is None
    assert score_of(equal[0], "ratio") is None


def test_a_finding_is_read_as_it_is_written():
    [found] = made(1, 0)
    assert membership_finding_from_json(found.to_json()) == found
    with pytest.raises(ValueError, match="scores"):
        membership_finding_from_json(found.to_json().replace('"scores": {', '"scores": {"x": "y", '))


def test_a_finding_of_an_earlier_version_has_no_suspected_texts():
    (finding, *_) = made(1, 1)
    fields = json.loads(finding.to_json())
    del fields["suspected"]
    assert membership_finding_from_json(json.dumps(fields)) == finding
    assert not [name for name in metrics([finding]) if "suspected" in name]
