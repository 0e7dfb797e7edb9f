"""Metrics per family: the leakage of canaries that resemble the data, next to canaries made to be memorized."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.canaries.canary import FAMILIES
from leakage_tasks.metrics.aggregates import Interval, One, count, mean
from leakage_tasks.metrics.metric import Metric, MetricSpec, Value, controls, planted
from leakage_tasks.metrics.tiers import Copies


def family_rows(
    copies: Copies,
    of: Metric[Finding, float],
    interval: Interval,
    bounds: Value[Finding, One],
    value: Value[Finding, float],
) -> list[Metric[Finding, Any]]:
    """Return each family's part of a metric of a run, with count, interval and the ``value`` of the family's controls.

    The ends of the interval are computed from ``bounds``. Canaries of all repetition counts are pooled, as in ``of``.
    """
    rows: list[Metric[Finding, Any]] = []
    for family in (each for each in FAMILIES if each in copies):
        ending = family.replace("-", "_")
        restricted: Callable[[Value[Finding, Any]], Value[Finding, Any]] = partial(_only, family)
        figure = dataclasses.replace(
            of,
            name=f"{of.name}_{ending}",
            description=f"{of.description}; of {family} canaries",
            title=f"{of.title.removesuffix(', pooled')}, {family}",
            control=f"control_{of.name}_{ending}",
            count=f"n_{ending}",
            interval=None,
            interval_kind="",
            value=restricted(of.value),
            in_table=True,
        )
        rows += figure.with_ends(interval, restricted(planted(bounds)))
        rows += [
            MetricSpec(f"control_{of.name}_{ending}", f"the same of {family} controls", of.unit, of.chance).row(
                restricted(controls(value)), mean, of.applies, in_table=True
            ),
            MetricSpec(f"n_{ending}", f"{family} canaries planted").row(
                restricted(planted(lambda finding: None if value(finding) is None else 1.0)), count, of.applies
            ),
        ]
    return rows


def _only(family: str, value: Value[Finding, Any]) -> Value[Finding, Any]:
    return lambda finding: value(finding) if finding.family == family else None
