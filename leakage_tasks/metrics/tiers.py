"""Metrics per repetition count: a tier holds the canaries planted equally often.

The tier with the fewest copies is the primary metric. A pool of all tiers depends on the auditor's choice of repetition
counts, not on the model alone.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.attacks.finding import CONTEXT, Finding
from leakage_tasks.metrics.aggregates import FEWEST, Interval, One, count
from leakage_tasks.metrics.metric import Metric, MetricSpec, ValidityCheck, Value, always, names_with_ends

Copies = Mapping[int | str, int]
"""Number of canaries by tier or family. A tier's key is its repetition count, or :data:`.CONTEXT` for canaries that
training read only as context; a family's key is its name."""


@dataclass(frozen=True)
class Tier:
    """The ``number`` canaries that were planted ``copies`` times; ``first`` is the tier of the fewest copies.

    Canaries whose secret was in the training data but never in its loss form a tier, :data:`.CONTEXT`, which is never
    the first.
    """

    copies: int
    number: int
    first: bool

    @property
    def words(self) -> str:
        """Description of the tier in words: ``planted once``, ``planted 4 times``."""
        return planted_words(self.copies)

    @property
    def ending(self) -> str:
        """Suffix of the names of the tier's metrics."""
        return "context" if self.copies == CONTEXT else f"x{self.copies}"

    def value(self, of: Value[Finding, One]) -> Value[Finding, One]:
        """Return a function like ``of`` that is None for canaries outside the tier."""

        def value(finding: Finding) -> One | None:
            in_tier = finding.planted and finding.tier == self.copies and finding.kind != NATURAL
            return of(finding) if in_tier else None

        return value

    def only(self, row: Metric[Finding, Any]) -> Metric[Finding, Any]:
        """Return a metric restricted to the tier's canaries, with an unchanged name."""
        return dataclasses.replace(
            row, value=self.value(row.value), description=f"{row.description}; of canaries {self.words}"
        )

    def part(self, row: Metric[Finding, Any]) -> Metric[Finding, Any]:
        """Return a metric restricted to the tier's canaries, with the tier's suffix in its name and without a check."""
        return dataclasses.replace(self.only(row), name=f"{row.name}_{self.ending}", check=None)

    def rows(
        self, of: Metric[Finding, float], interval: Interval, bounds: Value[Finding, Any]
    ) -> list[Metric[Finding, Any]]:
        """Return the tier's part of a metric on all canaries, with its count and the ends of its interval.

        The interval is computed from ``bounds``; it is omitted if there are too few canaries.
        """
        few, part = self.number < FEWEST, self.part(of)
        figure = dataclasses.replace(
            part,
            description=f"{part.description}{f'; fewer than {FEWEST} give no interval' if few else ''}",
            interval=None,
            interval_kind="",
            title=f"{of.title.removesuffix(', pooled')}, {self.words}",
            headline=self.first,
            count=f"n_{self.ending}",
            parent=of.name,
            copies=self.copies,
            in_table=True,
        )
        shown = [figure] if few else figure.with_ends(interval, self.value(bounds), always)
        why = f"underpowered: fewer than {FEWEST} canaries {self.words}, too few for an interval"
        alarm = ValidityCheck(FEWEST, why, "underpowered") if self.first else None
        # The count explains a missing interval; with an interval it is not needed.
        counted = self.value(lambda finding: None if of.value(finding) is None else 1.0)
        return [
            *shown,
            MetricSpec(f"n_{self.ending}", f"canaries {self.words}", check=alarm).row(counted, count, in_table=few),
        ]


def tiers(copies: Copies) -> list[Tier]:
    """Return the tiers by number of copies, the context's last."""
    numbers = [(times, number) for times, number in copies.items() if isinstance(times, int)]
    listed = sorted(numbers, key=lambda number: (number[0] == CONTEXT, number[0]))
    return [Tier(times, number, not at and times != CONTEXT) for at, (times, number) in enumerate(listed)]


def of_headline(rows: Iterable[Metric[Finding, Any]], name: str, first: Tier) -> list[Metric[Finding, Any]]:
    """Return ``rows``; the metric of this name is restricted to canaries of the first tier."""
    return [first.only(row) if row.name == name else row for row in rows]


def pooled_brief(rows: Sequence[Metric[Finding, Any]], *names: str) -> list[Metric[Finding, Any]]:
    """Return ``rows`` for a run without tiers: the pooled metrics of these names are in the table with their
    intervals."""
    shown = names_with_ends(rows, names)
    return [dataclasses.replace(row, in_table=row.in_table or row.name in shown) for row in rows]


Grouped = tuple[bool, str, int | None, str]
"""The data that assign a canary to a group: True if it is planted, its kind, its tier or None, and its family or ""."""


def copies_of(canaries: Iterable[Grouped]) -> Copies:
    """Return the number of canaries of each tier and family.

    Natural secrets form no tier: the auditor does not choose how often they occur, and the number may identify one.
    """
    open_ = [(tier, family) for planted, kind, tier, family in canaries if planted and kind != NATURAL]
    tiers_: Counter[int | str] = Counter(tier for tier, _ in open_ if tier is not None)
    return tiers_ + Counter(family for _, family in open_ if family)


def planted_words(copies: int | None) -> str:
    """Return the repetition count in words. For :data:`.CONTEXT` and None, describe the training exposure instead."""
    if copies is None:
        return "absent from the training data"
    if copies == CONTEXT:
        return "read only as context"
    return "planted once" if copies == 1 else f"planted {copies:,} times"
