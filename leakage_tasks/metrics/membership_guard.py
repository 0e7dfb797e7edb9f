"""Rows of the task ``membership`` that guard its figures: blind baselines, and dataset inference with its controls.

A blind baseline does not use the model. If it separates the texts as well as an attack, the attack's AUC is no evidence
of training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from leakage_tasks.attacks.membership.blind.baselines import BASELINES
from leakage_tasks.attacks.membership.finding import MembershipFinding
from leakage_tasks.attacks.membership.registry import MembershipAttack, in_order
from leakage_tasks.metrics import membership_guard_values as guard
from leakage_tasks.metrics.aggregates import Aggregate, Interval, of_defined
from leakage_tasks.metrics.membership_conclusion import (
    OF_ATTACK,
    OF_BASELINE,
    TEXTS_DIFFER,
    on_membership,
)
from leakage_tasks.metrics.membership_guard_values import guarded
from leakage_tasks.metrics.membership_values import AllScores
from leakage_tasks.metrics.metric import Metric, MetricSpec, ValidityCheck

Row = Metric[MembershipFinding, Any]
EXPLAINED = ValidityCheck(
    1,
    f"inconclusive: the primary attack is not above the blind baselines, so {TEXTS_DIFFER}, or may differ: take "
    "members and non-members at random from the same texts, or more of both",
    "texts-differ",
    fault=True,
)
"""The check that refuses an AUC that the texts alone explain."""


def _with_blind(finding: MembershipFinding, baseline: str | None = None) -> bool:
    """Return True if the run has scores of the blind baseline, or of any one; suspected texts have none."""
    return bool(finding.suspected or (finding.blind if baseline is None else baseline in finding.blind))


def guard_rows(area: Aggregate[Any], interval: Interval) -> list[Row]:
    """Return the rows of blind baselines and of dataset inference, for the primary AUC and its interval."""
    return [*_against_blind(area, interval), *_dataset(), *map(_baseline, BASELINES), *map(_of_attack, in_order())]


def _against_blind(area: Aggregate[Any], interval: Interval) -> list[Row]:
    best = "AUC of the best blind baseline, a classifier of the texts without the model"
    above = "membership_auc minus blind_auc, on the same texts"
    test = (
        "p-value of the primary attack not above every blind baseline and chance: the largest of their one-sided "
        "p-values, bootstrap by cluster"
    )
    differ = "p-value of all blind baselines at chance, one-sided, corrected for their number (Holm)"
    fine = f"1 if the verdict is conclusive; 0 if {TEXTS_DIFFER}, or may differ, so that the AUC must not be quoted"
    blind_area, blind_ends = guard.BLIND_AUC
    difference, ends = guard.ABOVE_BLIND
    return [
        *MetricSpec("blind_auc", best, chance="0.5")
        .row(guarded, blind_area, _with_blind, in_table=True)
        .with_ends(blind_ends),
        *MetricSpec("membership_above_blind", above, chance="0", direction="lower")
        .row(guarded, difference, _with_blind, in_table=True)
        .with_ends(ends),
        MetricSpec("membership_above_blind_p", test, "p").row(guarded, guard.ABOVE_BLIND_P, _with_blind, in_table=True),
        MetricSpec("blind_p", differ, "p").row(guarded, guard.BLIND_P, _with_blind, in_table=True),
        MetricSpec("conclusive", fine, check=EXPLAINED).row(guarded, _conclusive(area, interval), _with_blind),
    ]


def _conclusive(area: Aggregate[Any], interval: Interval) -> Aggregate[AllScores]:
    """Return the aggregation that is 0 if the verdict is inconclusive, else 1."""

    def read(texts: list[AllScores]) -> float:
        attacks, blind = ([guard.part(text, of) for text in texts] for of in ("scores", "blind"))
        rows = {
            "membership_auc": area(attacks),
            "membership_auc_ci_low": interval.low(attacks),
            "membership_above_blind_p": guard.ABOVE_BLIND_P(texts),
            "blind_p": guard.BLIND_P(texts),
            "dataset_p": guard.DATASET_P(attacks),
            "dataset_p_blind": guard.DATASET_BLIND(blind),
            "dataset_p_null": guard.DATASET_NULL(attacks),
        }
        return float(on_membership(rows).short != "inconclusive")

    return of_defined(read)


def _dataset() -> list[Row]:
    whole = (
        "p-value of the members, as a data set, not in the training data (dataset inference): the larger one of "
        "Welch's t-test and the permutation test, each twice the median over random splits"
    )
    blind = "dataset_p with blind baselines in place of attacks; if it is small, the texts differ without the model"
    null = "dataset_p between random halves of the non-members, twice the median; it must not be small"
    rate = "share of these halvings with p of 5 % or less"
    least = (
        "share of the members that the model was trained on, at least: share of members guessed minus share of "
        "non-members guessed, over 1 minus the latter; quote the lower end of its interval"
    )
    attacks, only_blind = partial(guarded, blind=False), partial(guarded, attacks=False)
    share, ends = guard.LEAST_SHARE
    named: list[tuple[str, str, Callable[..., Any], Aggregate[Any], bool]] = [
        ("dataset_p", whole, attacks, guard.DATASET_P, True),
        ("dataset_p_blind", blind, only_blind, guard.DATASET_BLIND, True),
        ("dataset_p_null", null, attacks, guard.DATASET_NULL, True),
        ("dataset_p_welch", "dataset_p of Welch's t-test alone", attacks, guard.DATASET_WELCH, False),
        ("dataset_p_permutation", "dataset_p of the permutation test alone", attacks, guard.DATASET_PERMUTATION, False),
        ("dataset_false_positives", rate, attacks, guard.FALSE_POSITIVES, False),
    ]
    rows: list[Row] = [
        MetricSpec(name, words, "p" if name != "dataset_false_positives" else "share").row(
            value, aggregate, _with_blind, in_table=shown
        )
        for name, words, value, aggregate, shown in named
    ]
    bound = MetricSpec("dataset_share_least", least, "share", "0", "lower", count="n_members")
    return [*rows, *bound.row(attacks, share, _with_blind).with_ends(ends)]


def _baseline(name: str) -> Row:
    words = f"AUC of the blind baseline {name} on the texts of the primary figures"
    row = MetricSpec(f"{OF_BASELINE}{name.replace('-', '_')}", words, chance="0.5")
    only_blind = partial(guarded, attacks=False, baseline=name)
    return row.row(only_blind, guard.auc_of_baseline(name), partial(_with_blind, baseline=name))


def _of_attack(attack: MembershipAttack) -> Row:
    words = f"p-value of the attack {attack.name} not above every blind baseline and chance, on all texts"
    return MetricSpec(f"{OF_ATTACK}{attack.row}", words, "p").row(
        guarded,
        guard.p_above_blind(attack.name),
        lambda finding: attack.name in finding.scores and _with_blind(finding),
    )


def with_guard(rows: Sequence[Row], area: Aggregate[Any], interval: Interval) -> list[Row]:
    """Return the task's rows and the rows of the guard; ``membership_auc`` names the blind baseline as its control."""
    named = [replace(row, control="blind_auc") if row.name == "membership_auc" else row for row in rows]
    return [*named, *guard_rows(area, interval)]
