"""Rows of ``contamination_test`` on items next to their rewritten twins, which are the controls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from leakage_tasks.attacks.contamination.finding import ContaminationFinding, TextCost, TwinFinding
from leakage_tasks.metrics.aggregates import (
    PROBABILITY_BOUNDS,
    Aggregate,
    ProbabilityBounds,
    count,
    estimate_of,
    mean,
    of_defined,
)
from leakage_tasks.metrics.contamination_order import Row, in_table
from leakage_tasks.metrics.metric import MetricSpec
from leakage_tasks.stats.membership import Estimate, paired_auc

MOST_TIED = 500
"""Maximum number of differences whose signs are counted if some have equal sizes; for more differences the normal
approximation is accurate."""


class TwinCosts(NamedTuple):
    """Bits per token of an item and of its twin."""

    item: float
    twin: float


class TwinChances(NamedTuple):
    """Probability that the second half of an item, and of its twin, is written after the first half."""

    item: float
    twin: float


def _twin(value: Callable[[TwinFinding], Any]) -> Callable[[ContaminationFinding], Any]:
    return lambda finding: value(finding) if isinstance(finding, TwinFinding) else None


def _costs(finding: TwinFinding) -> TwinCosts:
    return TwinCosts(finding.item.rate, finding.twin.rate)


def _chances(finding: TwinFinding) -> TwinChances | None:
    item, twin = finding.item.p_z, finding.twin.p_z
    return None if item is None or twin is None else TwinChances(item, twin)


def signed_rank_p(differences: Sequence[float]) -> float:
    """Return the p-value of Wilcoxon's one-sided signed-rank test that differences are above 0; 1 if all are 0.

    Differences of 0 are left out. If some differences have equal sizes, the p-value of up to :data:`MOST_TIED`
    differences is exact.
    """
    changes = [difference for difference in differences if difference]
    sizes = np.abs(changes)
    if not changes:
        return 1.0
    if len(set(sizes.tolist())) == len(changes) or len(changes) > MOST_TIED:
        return float(stats.wilcoxon(changes, alternative="greater").pvalue)
    # Ranks of equal sizes may be halves.
    ranks = np.round(2 * stats.rankdata(sizes)).astype(int)
    chances = np.ones(1)
    for rank in ranks:
        chances = (np.append(chances, np.zeros(rank)) + np.append(np.zeros(rank), chances)) / 2
    return min(1.0, float(chances[ranks[np.array(changes) > 0].sum() :].sum()))


def _twin_p(pairs: list[TwinCosts]) -> float:
    return signed_rank_p([pair.twin - pair.item for pair in pairs])


def _written_p(pairs: list[TwinChances]) -> float:
    return signed_rank_p([pair.item - pair.twin for pair in pairs])


def _auc(pairs: list[TwinCosts]) -> Estimate:
    return paired_auc([-pair.item for pair in pairs], [-pair.twin for pair in pairs])


_AUC, _AUC_ENDS = estimate_of(_auc, "Newcombe for pairs")


def _bounds(cost: TextCost) -> ProbabilityBounds | None:
    return None if cost.p_near is None else ProbabilityBounds(*cost.p_near)


def _bound(name: str) -> Aggregate[ProbabilityBounds]:
    return of_defined(lambda values: mean([getattr(value, name) for value in values]))


def _near_rows() -> list[Row]:
    """Return the rows of the probability that the second half of a text is nearly written."""
    words = "probability that the second half of an item is written up to the edit distance near, lower bound, mean"
    item = _twin(lambda finding: _bounds(finding.item))
    twin = _twin(lambda finding: _bounds(finding.twin))
    near = MetricSpec("p_near", words, "probability", direction="lower", control="twin_p_near", count="n_twins")
    return [
        *near.row(item, _bound("low")).with_ends(PROBABILITY_BOUNDS),
        MetricSpec("p_near_high", "upper bound of p_near, mean", "probability").row(item, _bound("high")),
        *MetricSpec("twin_p_near", "lower bound of the same for the twins", "probability")
        .row(twin, _bound("low"))
        .with_ends(PROBABILITY_BOUNDS),
    ]


def twin_rows(near: bool) -> list[Row]:
    """Return the rows of the comparison of items with their twins; ``near`` is true if nearly written text counts."""
    costs, lower = _twin(_costs), partial(MetricSpec, direction="lower")
    gain = "bits per token (per byte if the model reports no tokens) that an item costs less than its twin, mean"
    area = "probability that an item costs fewer bits per token than a twin"
    test = "p of items costing less than their twins by chance, Wilcoxon's signed-rank test"
    written = "probability that the second half of an item is written after the first half, mean"
    return [
        *in_table(
            lower("twin_gain", gain, "bits", chance="0").average(
                _twin(lambda finding: _costs(finding).twin - _costs(finding).item)
            )
        ),
        *in_table(
            lower("twin_auc", area, "AUC", chance="0.5", title="Contamination, items", headline=True, count="n_twins")
            .row(costs, _AUC)
            .with_ends(_AUC_ENDS)
        ),
        MetricSpec("twin_p", test, "p", direction="higher").row(costs, of_defined(_twin_p), in_table=True),
        *lower("p_z", written, "probability", control="twin_p_z", count="n_twins").average(
            _twin(lambda finding: finding.item.p_z), between=(0, 1)
        ),
        *MetricSpec("twin_p_z", "the same for the twins", "probability").average(
            _twin(lambda finding: finding.twin.p_z), between=(0, 1)
        ),
        *(_near_rows() if near else []),
        MetricSpec(
            "p_z_p",
            "p of p_z being as much above twin_p_z by chance, Wilcoxon's signed-rank test",
            "p",
            direction="higher",
        ).row(_twin(_chances), of_defined(_written_p)),
        MetricSpec("n_twins", "items with a rewritten twin").row(_twin(lambda finding: 1.0), count, in_table=True),
    ]
