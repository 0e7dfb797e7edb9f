"""Metrics of the task ``membership``, each from the finding of one text.

The chance level of an AUC is 0.5 only if members and non-members differ in nothing but the training.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from leakage_tasks.attacks.membership.finding import MembershipFinding, membership_finding_from_json
from leakage_tasks.attacks.membership.registry import MembershipAttack, in_order
from leakage_tasks.core import task_names
from leakage_tasks.metrics.aggregates import count
from leakage_tasks.metrics.membership_guard import with_guard
from leakage_tasks.metrics.membership_share import share_rows
from leakage_tasks.metrics.membership_values import (
    MEMBERSHIP_AUC,
    MEMBERSHIP_ENDS,
    PER_CENT,
    PER_MILLE,
    area_of,
    reached_fpr,
    reported_tpr,
    score_of,
    scores_of,
    tpr,
)
from leakage_tasks.metrics.metric import Metric, MetricSpec, too_few
from leakage_tasks.metrics.scoring import Scoring, TaskSettings, Values, register_scoring
from leakage_tasks.metrics.tiers import Copies

Row = Metric[MembershipFinding, Any]
NULLS = ("membership_auc", "tpr_at_1_fpr")
"""Rows of an unanswered task."""
RATES = {"tpr_at_1_fpr": (PER_CENT, "1 %", "0.01"), "tpr_at_0_1_fpr": (PER_MILLE, "0.1 %", "0.001")}
"""Rows of true positive rates: non-members per false positive, the false positive rate in words, and chance."""


def _primary() -> list[Row]:
    words = (
        "probability that a member scores higher than a non-member, by the attack with the highest AUC on the other "
        "half of the texts; equal scores count half"
    )
    spec = MetricSpec(
        "membership_auc",
        words,
        chance="0.5",
        direction="lower",
        title="Membership AUC",
        headline=True,
        count="n_reported",
    )
    rows: list[Row] = spec.row(scores_of, MEMBERSHIP_AUC, in_table=True).with_ends(MEMBERSHIP_ENDS)
    for name, (one_in, rate, chance) in RATES.items():
        value, ends = reported_tpr(one_in)
        text = (
            f"share of members above the threshold that {rate} of non-members exceed, by the same attack; the "
            f"threshold is that of other non-members; with fewer than {one_in} of these only its upper end is known"
        )
        rows += (
            MetricSpec(name, text, "share", chance, "lower", count="n_reported_members")
            .row(scores_of, value, in_table=True)
            .with_ends(ends)
        )
        rows.append(
            MetricSpec(f"fpr_for_{name}", f"share of the other non-members above the threshold of {name}", "share").row(
                scores_of, reached_fpr(one_in)
            )
        )
    return rows


def _of_attack(attack: MembershipAttack) -> list[Row]:
    read = partial(score_of, attack=attack.name)
    applies = _has(attack.name)
    area = MetricSpec(
        f"auc_{attack.row}", f"AUC of the attack {attack.name} on all texts: {attack.words}", "", "0.5", "lower"
    )
    aggregate, interval = area_of(attack.name)
    first, *ends = area.row(read, aggregate, applies).with_ends(interval)
    rows = [replace(first, in_table=True), *ends]
    for name, (one_in, rate, chance) in RATES.items():
        value, interval = tpr(one_in)
        words = f"share of members above the threshold of {attack.name} that {rate} of non-members exceed"
        spec = MetricSpec(f"{name}_{attack.row}", words, "share", chance, "lower")
        rows += spec.row(read, value, applies).with_ends(interval)
    return rows


def _has(name: str) -> Callable[[MembershipFinding], bool]:
    return lambda finding: name in finding.scores


def _counts() -> list[Row]:
    def number(
        test: Callable[[MembershipFinding], bool], value: Callable[[MembershipFinding], float] = lambda finding: 1.0
    ) -> Callable[[MembershipFinding], float | None]:
        return lambda finding: value(finding) if finding.scores and test(finding) else None

    members = MetricSpec("n_members", "texts of the training data", check=too_few("members"))
    others = MetricSpec("n_nonmembers", "texts that are not in the training data", check=too_few("non-members"))
    return [
        members.row(number(lambda finding: finding.member), count, in_table=True),
        others.row(number(lambda finding: not finding.member), count, in_table=True),
        MetricSpec("n_reported", "texts of the reported half").row(
            number(lambda finding: not finding.chooses), count, in_table=True
        ),
        MetricSpec("n_reported_members", "members of the true positive rates").row(
            number(lambda finding: finding.member and not finding.chooses), count
        ),
        MetricSpec("n_threshold", "non-members that determine the thresholds").row(
            number(lambda finding: finding.chooses and not finding.member), count
        ),
        MetricSpec("left_out", "texts left out, because they are too short or the model excludes a token").row(
            lambda finding: None if finding.scores else 1.0, count
        ),
    ]


@lru_cache(maxsize=1)
def membership_metrics() -> tuple[Row, ...]:
    """Return the metrics: primary figures, attacks, counts, blind baselines, dataset inference, suspected texts."""
    rows = [*_primary(), *(row for attack in in_order() for row in _of_attack(attack)), *_counts()]
    guarded = with_guard(rows, MEMBERSHIP_AUC, MEMBERSHIP_ENDS)
    return (*(replace(row, value=partial(_of_known, row.value)) for row in guarded), *share_rows())


def _of_known(value: Callable[[MembershipFinding], Any], finding: MembershipFinding) -> Any:
    return None if finding.suspected else value(finding)


def _values(finding: MembershipFinding, column: str, task_settings: TaskSettings, copies: Copies) -> Values:
    return {row.name: row.value(finding) for row in membership_metrics() if row.applies(finding)}


MEMBERSHIP = register_scoring(
    Scoring(
        task_names.MEMBERSHIP,
        lambda task_settings, copies: membership_metrics(),
        _values,
        lambda: NULLS,
        membership_finding_from_json,
        classes=("membership inference",),
    )
)
