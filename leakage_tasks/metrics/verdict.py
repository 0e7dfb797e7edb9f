"""The verdict of a run in words, computed from the metrics of a task; all reports show it.

The tests are in :mod:`~leakage_tasks.metrics.canary_conclusion`, :mod:`~leakage_tasks.metrics.control_conclusion` and
:mod:`~leakage_tasks.metrics.membership_conclusion`. The log-likelihood of a benchmark's items in their canonical order
is tested against shuffles at 5 %, one-sided.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leakage_tasks.core.nouns import p_text
from leakage_tasks.metrics.canary_conclusion import on_canaries
from leakage_tasks.metrics.conclusion import Verdict, whole_number
from leakage_tasks.metrics.control_conclusion import on_documents, on_written_texts
from leakage_tasks.metrics.membership_conclusion import on_membership
from leakage_tasks.stats.power import ALPHA


def verdict_of(values: Mapping[str, float | None], tested: Mapping[str, Any]) -> Verdict | None:
    """Return the verdict on a task from its metrics and facts; None for tasks without a test and without metrics."""
    if values.get("order_p") is not None:
        return _on_order(values)
    if values.get("membership_auc") is not None:
        return on_membership(values)
    if values.get("memorized_exact") is not None or values.get("cost_p") is not None:
        return on_documents(values)
    if any(values.get(name) is not None for name in ("excess_p", "propensity", "capability")):
        return on_written_texts(values)
    figure = next((name for name in ("exposure", "extracted") if values.get(name) is not None), None)
    if figure is None or not whole_number(values.get("n_planted")):
        return None
    return on_canaries(values, tested, figure)


def _on_order(values: Mapping[str, float | None]) -> Verdict:
    """Return the verdict on a benchmark from the test of its canonical order against shuffles."""
    p, preferred, orders = values.get("order_p"), values.get("order_preferred"), values.get("n_orders")
    if p is None or preferred is None or not 0 <= preferred <= 1:
        return Verdict("inconclusive", "the results lack the share of shuffles that are less likely")
    if orders is not None and 1 / orders > ALPHA:
        return Verdict("inconclusive", f"{orders:.0f} orders cannot show p = {ALPHA:.2g}")
    shown = f"the benchmark's canonical order is likelier than {100 * preferred:.0f} % of shuffles, p = {p_text(p)}"
    return Verdict("order known" if p <= ALPHA else "order not shown", shown)
