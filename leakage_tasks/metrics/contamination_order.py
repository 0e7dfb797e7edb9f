"""Rows of ``contamination_test`` on the canonical order of a benchmark. The shuffles are its controls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from leakage_tasks.attacks.contamination.finding import ContaminationFinding, OrderFinding
from leakage_tasks.metrics.aggregates import Interval, count, estimate_of, of_defined
from leakage_tasks.metrics.metric import Metric, MetricSpec, ValidityCheck
from leakage_tasks.stats import exchangeable
from leakage_tasks.stats.intervals import clopper_pearson
from leakage_tasks.stats.membership import Estimate
from leakage_tasks.stats.share_interval import share_interval

Row = Metric[ContaminationFinding, Any]
FEWEST_ORDERS = 20
"""Minimum number of equally likely orders for which a p-value of 5 % is possible."""
_ORDERS = ValidityCheck(
    FEWEST_ORDERS,
    f"underpowered: fewer than {FEWEST_ORDERS} orders cannot show p = 5 %: raise permutations",
    "underpowered",
)


def _order(value: Callable[[OrderFinding], Any]) -> Callable[[ContaminationFinding], Any]:
    return lambda finding: value(finding) if isinstance(finding, OrderFinding) else None


def _shard(finding: OrderFinding) -> exchangeable.Shard:
    return finding.canonical, finding.shuffled


def _shares(shards: Sequence[exchangeable.Shard]) -> list[float]:
    """Return the share of each shard's shuffles that are less likely than its canonical order; ties count half."""
    rows = [(canonical, np.array(shuffled)) for canonical, shuffled in shards]
    return [float(np.mean((shuffled < canonical) + 0.5 * (shuffled == canonical))) for canonical, shuffled in rows]


def _preferred(shards: list[exchangeable.Shard]) -> Estimate:
    """Return the mean share, with its interval over shards or, for one sequence, Clopper and Pearson's over its
    shuffles."""
    shares = _shares(shards)
    mean = float(np.mean(shares))
    if len(shares) == 1:
        trials = len(shards[0][1])
        return Estimate(mean, *clopper_pearson(round(mean * trials), trials))
    return Estimate(mean, *share_interval(len(shares), mean, float(np.var(shares))))


def _gain(shards: list[exchangeable.Shard]) -> float:
    return float(np.mean(exchangeable.gains(shards)))


def _end(index: int, shards: list[exchangeable.Shard]) -> float | None:
    ends = exchangeable.t_interval(shards)
    return None if ends is None else ends[index]


PREFERRED, PREFERRED_ENDS = estimate_of(_preferred, "by-shard t")
STUDENT = Interval("Student's t", of_defined(partial(_end, 0)), of_defined(partial(_end, 1)))


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
        *in_table(preferred.row(shard, PREFERRED).with_ends(PREFERRED_ENDS)),
        *in_table(
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


def in_table(rows: list[Row]) -> list[Row]:
    """Return the rows, with each in the harness' table."""
    return [replace(row, in_table=True) for row in rows]
