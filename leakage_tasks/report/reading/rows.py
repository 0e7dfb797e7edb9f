"""All rows of a task's results as the harness returns or writes them, those that its table does without among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.metrics.metric import MORE


def every_row(results: Mapping[str, Any], task: str, column: str = HEADLINE) -> dict[str, Any]:
    """By metric, what a task came to, given what ``lm_eval.simple_evaluate`` returns or a results file holds.

    ``column`` is the harness' filter; standard errors are left out. Raises KeyError for a task that did not run.
    """
    told = results.get("configs", {}).get(task, {}).get("leakage", {}).get(MORE, {}) if column == HEADLINE else {}
    named = ((name.rpartition(","), value) for name, value in results["results"][task].items())
    shown = {metric: value for (metric, _, of), value in named if of == column and not metric.endswith("_stderr")}
    return {**told, **{name: value for name, value in shown.items() if name != MORE}}


def headline_row(rows: Mapping[str, Any], metric: str) -> Any:
    """The value of the canaries that were planted the fewest times; of a metric without such rows its own."""
    copies = [name.removeprefix(f"{metric}_x") for name in rows if name.startswith(f"{metric}_x")]
    fewest = min((int(each) for each in copies if each.isdecimal()), default=None)
    return rows[metric if fewest is None else f"{metric}_x{fewest}"]
