"""Rows of the task ``membership`` on suspected texts: the share that is in the training data, and its controls."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from leakage_tasks.attacks.membership.finding import MembershipFinding
from leakage_tasks.metrics.aggregates import count, estimate_of, number_of
from leakage_tasks.metrics.membership_guard_values import columns
from leakage_tasks.metrics.membership_values import AllScores, scores_of
from leakage_tasks.metrics.metric import Metric, MetricSpec, ValidityCheck
from leakage_tasks.stats.membership import Estimate
from leakage_tasks.stats.share_used import ShareUsed, share_used

Row = Metric[MembershipFinding, Any]
BY_CLUSTER = "by-cluster Korn-Graubard, Zou-Donner"
CONTROLS = ValidityCheck(
    1,
    "the share of suspected texts is not calibrated: of known texts in their place, the interval is not as low as 0 or "
    "as high as 1: take members and non-members at random from the same texts, or more of both",
    "share-controls",
)
"""The check that warns of a share whose controls fail."""


@lru_cache(maxsize=2)
def _share(texts: tuple[AllScores, ...]) -> ShareUsed | None:
    """Return the share of the suspected texts; None for too few texts, or an attack that recognizes no member."""
    scores = list(columns([text.scores for text in texts]).values())
    _, members, clusters, chooses, suspected, _ = zip(*texts, strict=True)
    try:
        return share_used(scores, members, suspected, chooses, clusters)
    except ValueError:
        return None


def _shares(texts: list[AllScores]) -> ShareUsed | None:
    return _share(tuple(texts))


def _rows(spec: MetricSpec, estimate: Callable[[ShareUsed], Estimate], in_table: bool = False) -> list[Row]:
    value, interval = estimate_of(_shares, BY_CLUSTER, estimate)
    return spec.row(scores_of, value, _asks, in_table).with_ends(interval)


def _asks(finding: MembershipFinding) -> bool:
    return finding.suspected is not None


def share_rows() -> list[Row]:
    """Return the rows on suspected texts."""
    share = MetricSpec(
        "suspected_share",
        "share of the suspected texts that the model was trained on: (share guessed to be members minus FPR) over (TPR "
        "minus FPR), with the rates of known texts",
        "share",
        "0",
        "lower",
        title="Share of suspected texts used",
        headline=True,
        control="suspected_share_of_nonmembers",
        count="n_suspected",
    )
    zero = MetricSpec("suspected_share_of_nonmembers", "suspected_share of known non-members, 0 in truth", "share", "0")
    one = MetricSpec("suspected_share_of_members", "suspected_share of known members, 1 in truth", "share")
    tpr = MetricSpec("suspected_tpr", "share of known members that are guessed to be members", "share")
    fpr = MetricSpec("suspected_fpr", "share of known non-members that are guessed to be members", "share")
    holds = MetricSpec("suspected_share_valid", "1 if the controls hold 0 and 1; 0 if not", check=CONTROLS)
    number = MetricSpec("n_suspected", "suspected texts")
    return [
        *_rows(share, lambda shares: shares.share, in_table=True),
        *_rows(zero, lambda shares: shares.of_nonmembers, in_table=True),
        *_rows(one, lambda shares: shares.of_members),
        *_rows(tpr, lambda shares: shares.tpr),
        *_rows(fpr, lambda shares: shares.fpr),
        holds.row(scores_of, number_of(_shares, lambda shares: float(shares.controls_hold)), _asks),
        number.row(lambda finding: 1.0 if finding.suspected and finding.scores else None, count, _asks, in_table=True),
    ]
