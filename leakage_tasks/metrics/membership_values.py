"""Values of one text for the metrics of ``membership``, and their aggregation over texts.

The texts that choose decide which attack is the primary one and where the thresholds lie; the primary figures are of
the other texts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from leakage_tasks.attacks.membership.finding import MembershipFinding
from leakage_tasks.attacks.membership.registry import in_order
from leakage_tasks.core.log import warn_once
from leakage_tasks.metrics.aggregates import Aggregate, Interval, estimate_of, number_of, of_defined
from leakage_tasks.stats.clusters import clustered_share
from leakage_tasks.stats.membership import Estimate, auc, clustered_auc, threshold_ends, tpr_at_low_fpr

PER_CENT, PER_MILLE = 100, 1000
"""Number of non-members per false positive: false positive rates of 1 % and of 0.1 %."""


class ScoredText(NamedTuple):
    """The score of one text by one attack, with the text's class, cluster and part."""

    score: float
    member: bool
    cluster: int
    chooses: bool


Pairs = tuple[tuple[str, float], ...]
"""Scores as pairs of the attack's or baseline's name and the score."""


class AllScores(NamedTuple):
    """The scores of one text by attacks and by ``blind`` baselines, with the text's class, cluster and part."""

    scores: Pairs
    member: bool
    cluster: int
    chooses: bool
    suspected: bool = False
    blind: Pairs = ()


Texts = Sequence[ScoredText]


def score_of(finding: MembershipFinding, attack: str) -> ScoredText | None:
    """Return the score of a text by an attack, None without a score."""
    score = finding.scores.get(attack)
    return None if score is None else ScoredText(score, finding.member, finding.cluster, finding.chooses)


def scores_of(finding: MembershipFinding) -> AllScores | None:
    """Return a text's scores by attacks, None for a text that is left out."""
    if not finding.scores:
        return None
    scores = tuple(finding.scores.items())
    return AllScores(scores, finding.member, finding.cluster, finding.chooses, bool(finding.suspected))


def of_class(texts: Texts, member: bool) -> list[ScoredText]:
    """Return the texts of one class."""
    return [text for text in texts if text.member is member]


def _scores(texts: Texts) -> list[float]:
    return [text.score for text in texts]


def _clusters(texts: Texts) -> list[int]:
    return [text.cluster for text in texts]


def informs(texts: Texts) -> bool:
    """Return True if the texts have both classes and different scores."""
    return len(set(_scores(texts))) > 1 and len({text.member for text in texts}) > 1


@lru_cache(maxsize=64)
def _auc(texts: tuple[ScoredText, ...]) -> Estimate | None:
    if not informs(texts):
        return None
    members, others = of_class(texts, True), of_class(texts, False)
    return clustered_auc(_scores(members), _scores(others), _clusters(members), _clusters(others))


def _area(attack: str, texts: Texts) -> Estimate | None:
    area = _auc(tuple(texts))
    if area is None and len(texts) > 1:
        warn_once(f"membership: {attack} gives all {len(texts)} texts one score, so it has no AUC: leave it out")
    return area


BY_CLUSTER = "by-cluster Newcombe"


def area_of(attack: str) -> tuple[Aggregate[ScoredText], Interval]:
    """Return the aggregation of the AUC of one attack on all texts, and its interval."""
    return estimate_of(partial(_area, attack), BY_CLUSTER)


def of_attack(texts: Sequence[AllScores], attack: str) -> list[ScoredText]:
    """Return the scores of one attack."""
    return [
        ScoredText(score, text.member, text.cluster, text.chooses)
        for text in texts
        for name, score in text.scores
        if name == attack
    ]


@lru_cache(maxsize=8)
def _chosen(texts: tuple[AllScores, ...]) -> str | None:
    names = {name for text in texts for name, _ in text.scores}
    areas: dict[str, float] = {}
    for name in [*(attack.name for attack in in_order() if attack.name in names), *sorted(names)]:
        choosing = [text for text in of_attack(texts, name) if text.chooses]
        if name not in areas and informs(choosing):
            areas[name] = auc(_scores(of_class(choosing, True)), _scores(of_class(choosing, False))).value
    return max(areas, key=areas.__getitem__, default=None)


def chosen_attack(texts: Sequence[AllScores]) -> str | None:
    """Return the attack with the highest AUC on the texts that choose, of equal ones the one with the fewest needs."""
    return _chosen(tuple(texts))


def _reported(texts: Sequence[AllScores]) -> Estimate | None:
    attack = chosen_attack(texts)
    return None if attack is None else _area(attack, [text for text in of_attack(texts, attack) if not text.chooses])


MEMBERSHIP_AUC, MEMBERSHIP_ENDS = estimate_of(_reported, BY_CLUSTER)
"""The AUC of the chosen attack on the other texts, and its interval."""


@lru_cache(maxsize=64)
def _rate(texts: tuple[ScoredText, ...], one_in: int) -> Estimate | None:
    members = of_class(texts, True)
    unseen = [text for text in of_class(texts, False) if text.chooses]
    choosing = _scores(unseen)
    if not members or not choosing or not informs(texts):
        return None
    few = len(choosing) < one_in
    threshold = max(choosing) if few else tpr_at_low_fpr(_scores(members), choosing, one_in).threshold
    rate = sum(text.score > threshold for text in members) / len(members)
    highest, lowest = threshold_ends(choosing, one_in, _clusters(unseen))
    low, high = (_share_above(end, members) for end in (highest, lowest))
    return Estimate(rate, low[0], high[1])


def _share_above(threshold: float, members: Texts) -> tuple[float, float]:
    """Return the interval of the share of members above a threshold; it is exact for an infinite one."""
    if math.isinf(threshold):
        return (0.0, 0.0) if threshold > 0 else (1.0, 1.0)
    return clustered_share([float(text.score > threshold) for text in members], _clusters(members))


def enough(texts: Texts, one_in: int) -> bool:
    """Return True if enough non-members choose for a threshold with ``one_in`` non-members per false positive."""
    return sum(text.chooses for text in of_class(texts, False)) >= one_in


def tpr(one_in: int) -> tuple[Aggregate[ScoredText], Interval]:
    """Return the aggregation of the true positive rate at a false positive rate of 1/``one_in``, and its interval.

    The threshold is taken from the non-members that choose; if they are fewer than ``one_in``, the rate is unknown. The
    interval allows for the error of the threshold (:func:`~leakage_tasks.stats.membership.threshold_ends`).
    """

    def rate(texts: Sequence[ScoredText]) -> Estimate | None:
        return _rate(tuple(texts), one_in) if enough(texts, one_in) else None

    _, ends = estimate_of(lambda texts: _rate(tuple(texts), one_in), "by-cluster Korn-Graubard, order statistics")
    return number_of(rate, lambda estimate: estimate.value), ends


def reported_tpr(one_in: int) -> tuple[Aggregate[AllScores], Interval]:
    """Return :func:`tpr` of the chosen attack on the members that do not choose."""
    value, ends = tpr(one_in)

    def of(aggregate: Aggregate[ScoredText]) -> Aggregate[AllScores]:
        def read(texts: list[AllScores]) -> float | None:
            attack = chosen_attack(texts)
            return None if attack is None else aggregate(_tested(of_attack(texts, attack)))

        return of_defined(read)

    return of(value), Interval(ends.kind, of(ends.low), of(ends.high))


def _tested(texts: Texts) -> list[ScoredText]:
    return [text for text in texts if not (text.member and text.chooses)]


def reached_fpr(one_in: int) -> Aggregate[AllScores]:
    """Return the aggregation of the share of the other non-members above the threshold of the chosen attack."""

    def read(texts: list[AllScores]) -> float | None:
        attack = chosen_attack(texts)
        if attack is None:
            return None
        scored = of_attack(texts, attack)
        # Non-members that do not choose take the place of the members.
        others = [text._replace(member=True) for text in of_class(scored, False) if not text.chooses]
        rate = _rate((*others, *(text for text in of_class(scored, False) if text.chooses)), one_in)
        return None if rate is None or not enough(scored, one_in) else rate.value

    return of_defined(read)
