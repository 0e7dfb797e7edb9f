"""Metrics of the task ``contamination_test``: preference for the canonical order, and for items over twins.

The shuffles are the controls of the order, the twins those of the items.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from leakage_tasks.attacks.contamination.finding import (
    ContaminationFinding,
    OrderFinding,
    TextCost,
    TwinFinding,
    contamination_finding_from_json,
)
from leakage_tasks.metrics.aggregates import (
    PROBABILITY_BOUNDS,
    Aggregate,
    Interval,
    ProbabilityBounds,
    count,
    mean,
    of_defined,
)
from leakage_tasks.metrics.metric import Metric, MetricSpec, ValidityCheck
from leakage_tasks.metrics.scoring import Scoring, TaskSettings, Values, register_scoring
from leakage_tasks.metrics.tiers import Copies
from leakage_tasks.stats import exchangeable
from leakage_tasks.stats.intervals import LEVEL, clopper_pearson
from leakage_tasks.stats.membership import Estimate, auc
from leakage_tasks.stats.share_interval import share_interval

Row = Metric[ContaminationFinding, Any]
FEWEST_ORDERS = 20
"""Minimum number of equally likely orders for which a p-value of 5 % is possible."""
NULLS = ("order_preferred", "order_p")
"""Rows of an unanswered task."""
_ORDERS = ValidityCheck(
    FEWEST_ORDERS,
    f"underpowered: fewer than {FEWEST_ORDERS} orders cannot show p = 5 %: raise permutations",
    "underpowered",
)


class TwinCosts(NamedTuple):
    """Bits per token of an item and of its twin."""

    item: float
    twin: float


class TwinChances(NamedTuple):
    """Probability that the second half of an item, and of its twin, is written after the first half."""

    item: float
    twin: float


def _order(value: Callable[[OrderFinding], Any]) -> Callable[[ContaminationFinding], Any]:
    """Return a function that is None for findings on twins."""
    return lambda finding: value(finding) if isinstance(finding, OrderFinding) else None


def _twin(value: Callable[[TwinFinding], Any]) -> Callable[[ContaminationFinding], Any]:
    """Return a function that is None for findings on orders."""
    return lambda finding: value(finding) if isinstance(finding, TwinFinding) else None


def _shard(finding: OrderFinding) -> exchangeable.Shard:
    return finding.canonical, finding.shuffled


def _shares(shards: Sequence[exchangeable.Shard]) -> list[float]:
    """Return the share of each shard's shuffles that are less likely than its canonical order; ties count half."""
    rows = [(canonical, np.array(shuffled)) for canonical, shuffled in shards]
    return [float(np.mean((shuffled < canonical) + 0.5 * (shuffled == canonical))) for canonical, shuffled in rows]


def _preferred(shards: list[exchangeable.Shard]) -> float:
    return float(np.mean(_shares(shards)))


def _preferred_end(index: int, shards: list[exchangeable.Shard]) -> float:
    """Return an end of the interval over shards or, for one sequence, of Clopper and Pearson's over its shuffles."""
    shares = _shares(shards)
    if len(shares) == 1:
        trials = len(shards[0][1])
        return clopper_pearson(round(shares[0] * trials), trials)[index]
    return float(share_interval(len(shares), float(np.mean(shares)), float(np.var(shares)), LEVEL)[index])


def _gain(shards: list[exchangeable.Shard]) -> float:
    return float(np.mean(exchangeable.gains(shards)))


def _end(index: int, shards: list[exchangeable.Shard]) -> float | None:
    ends = exchangeable.t_interval(shards)
    return None if ends is None else ends[index]


def _mean_end(index: int, values: list[float]) -> float | None:
    """Return an end of Student's interval of a mean; None for fewer than two values or without variance."""
    return _end(index, [(value, (0.0,)) for value in values])


PREFERRED = Interval("by-shard t", of_defined(partial(_preferred_end, 0)), of_defined(partial(_preferred_end, 1)))
STUDENT = Interval("Student's t", of_defined(partial(_end, 0)), of_defined(partial(_end, 1)))
MEAN_T = Interval("Student's t", of_defined(partial(_mean_end, 0)), of_defined(partial(_mean_end, 1)))


def order_rows() -> list[Row]:
    """Return the rows of the test of the order."""
    shard = _order(_shard)
    preferred = MetricSpec(
        "order_preferred",
        "share of shuffles that are less likely than the canonical order, mean over shards",
        "share",
        chance="0.5",
        direction="lower",
        title="Contamination, order",
        headline=True,
        count="n_shards",
    )
    gain = "log-likelihood of a shard in its canonical order minus the mean of its shuffles, mean over shards"
    exact = "p of the canonical orders being so likely by chance, exact test over all shards"
    return [
        *_in_table(preferred.row(shard, of_defined(_preferred)).with_ends(PREFERRED)),
        *_in_table(
            MetricSpec("order_gain", gain, "bits", chance="0", direction="lower")
            .row(shard, of_defined(_gain))
            .with_ends(STUDENT)
        ),
        MetricSpec("order_p", exact, "p", direction="higher").row(
            shard, of_defined(exchangeable.order_p), in_table=True
        ),
        MetricSpec("order_t_p", "p of the same by a one-sided t-test over shards", "p", direction="higher").row(
            shard, of_defined(exchangeable.t_p), in_table=True
        ),
        MetricSpec("n_shards", "shards of consecutive items").row(_order(lambda finding: 1.0), count, in_table=True),
        MetricSpec("n_items", "items in shards").row(
            _order(lambda finding: float(finding.items)), of_defined(sum), in_table=True
        ),
        MetricSpec("n_orders", "equally likely combinations of orders", check=_ORDERS).row(
            shard, of_defined(exchangeable.combinations)
        ),
        MetricSpec("windows", "windows in which the model reads a shard, largest number").row(
            _order(lambda finding: float(finding.windows) or None), of_defined(max)
        ),
    ]


def _costs(finding: TwinFinding) -> TwinCosts:
    return TwinCosts(finding.item.rate, finding.twin.rate)


def _chances(finding: TwinFinding) -> TwinChances | None:
    item, twin = finding.item.p_z, finding.twin.p_z
    return None if item is None or twin is None else TwinChances(item, twin)


def signed_rank_p(differences: Sequence[float]) -> float:
    """Return the p-value of Wilcoxon's one-sided signed-rank test that differences are above 0; 1 if all are 0."""
    return float(stats.wilcoxon(differences, alternative="greater").pvalue) if any(differences) else 1.0


def _twin_p(pairs: list[TwinCosts]) -> float:
    return signed_rank_p([pair.twin - pair.item for pair in pairs])


def _written_p(pairs: list[TwinChances]) -> float:
    return signed_rank_p([pair.item - pair.twin for pair in pairs])


def _auc(pairs: list[TwinCosts]) -> Estimate:
    return auc([-pair.item for pair in pairs], [-pair.twin for pair in pairs])


def _auc_part(name: str) -> Aggregate[TwinCosts]:
    return of_defined(lambda pairs: getattr(_auc(pairs), name))


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
        *_in_table(
            lower("twin_gain", gain, "bits", chance="0")
            .row(_twin(lambda finding: _costs(finding).twin - _costs(finding).item), mean)
            .with_ends(MEAN_T)
        ),
        *_in_table(
            lower("twin_auc", area, "AUC", chance="0.5", title="Contamination, items", headline=True, count="n_twins")
            .row(costs, _auc_part("value"))
            .with_ends(Interval("Newcombe", _auc_part("low"), _auc_part("high")))
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


def _in_table(rows: list[Row]) -> list[Row]:
    return [replace(row, in_table=True) for row in rows]


@lru_cache(maxsize=4)
def contamination_rows(twins: bool, near: bool = False) -> tuple[Row, ...]:
    """Return the task's metrics.

    Args:
        twins: True if items have twins.
        near: True if the run has an edit distance up to which second halves are nearly written.
    """
    return (*order_rows(), *(twin_rows(near) if twins else []))


def _rows(task_settings: TaskSettings, copies: Copies | None = None) -> Sequence[Row]:
    return contamination_rows(task_settings.get("twins") is not None, bool(task_settings.get("near")))


def _values(finding: ContaminationFinding, column: str, task_settings: TaskSettings, copies: Copies) -> Values:
    return {row.name: row.value(finding) for row in _rows(task_settings)}


CONTAMINATION_TEST = register_scoring(
    Scoring("contamination_test", _rows, _values, partial(list, NULLS), contamination_finding_from_json)
)
