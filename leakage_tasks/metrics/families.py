"""Rows by family: what canaries that resemble the data give away, beside those made to be remembered."""

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
    """For each family of a run its part of a row about all canaries, with count, interval and its controls' ``value``.

    The interval's ends come of ``bounds``. Whatever their number of copies canaries are pooled, as in ``of``.
    """
    rows: list[Metric[Finding, Any]] = []
    for family in (each for each in FAMILIES if each in copies):
        ending = family.replace("-", "_")
        own: Callable[[Value[Finding, Any]], Value[Finding, Any]] = partial(_only, family)
        figure = dataclasses.replace(
            of,
            name=f"{of.name}_{ending}",
            description=f"{of.description}; of {family} canaries",
            title=f"{of.title.removesuffix(', pooled')}, {family}",
            control=f"control_{of.name}_{ending}",
            count=f"n_{ending}",
            interval=None,
            interval_kind="",
            value=own(of.value),
            in_table=True,
        )
        rows += figure.with_ends(interval, own(planted(bounds)))
        rows += [
            MetricSpec(f"control_{of.name}_{ending}", f"the same of {family} controls", of.unit, of.chance).row(
                own(controls(value)), mean, of.applies, in_table=True
            ),
            MetricSpec(f"n_{ending}", f"{family} canaries planted").row(
                own(planted(lambda found: None if value(found) is None else 1.0)), count, of.applies
            ),
        ]
    return rows


def _only(family: str, value: Value[Finding, Any]) -> Value[Finding, Any]:
    """``value`` for canaries of the family only."""
    return lambda found: value(found) if found.family == family else None
