"""Rows by how often canaries were planted: a tier is those planted equally often.

What one copy gives away is the headline. All tiers together are a mixture that the auditor chose, not a figure of the
model.
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
from leakage_tasks.metrics.metric import Metric, MetricSpec, ValidityCheck, Value, always

Copies = Mapping[int | str, int]
"""By how often canaries were planted, how many there are; :data:`.CONTEXT` for those read in the context only. By the
name of a family how many of it were planted, however often."""


@dataclass(frozen=True)
class Tier:
    """The ``number`` canaries that were planted ``copies`` times; ``first`` is the tier of the fewest copies.

    Those whose secret training read and never had in its loss are a tier of their own, :data:`.CONTEXT`, and never
    the first.
    """

    copies: int
    number: int
    first: bool

    @property
    def words(self) -> str:
        """``planted once``, ``planted 4 times``."""
        return planted_words(self.copies)

    @property
    def ending(self) -> str:
        """What ends the names of its rows."""
        return "context" if self.copies == CONTEXT else f"x{self.copies}"

    def value(self, of: Value[Finding, One]) -> Value[Finding, One]:
        """``of`` for the tier's canaries only."""

        def value(found: Finding) -> One | None:
            own = found.planted and found.tier == self.copies and found.kind != NATURAL
            return of(found) if own else None

        return value

    def only(self, row: Metric[Finding, Any]) -> Metric[Finding, Any]:
        """A row about the tier's canaries only, under the name that it has."""
        return dataclasses.replace(
            row, value=self.value(row.value), description=f"{row.description}; of canaries {self.words}"
        )

    def part(self, row: Metric[Finding, Any]) -> Metric[Finding, Any]:
        """The same under a name of its own, without an alarm."""
        return dataclasses.replace(self.only(row), name=f"{row.name}_{self.ending}", check=None)

    def rows(
        self, of: Metric[Finding, float], interval: Interval, bounds: Value[Finding, Any]
    ) -> list[Metric[Finding, Any]]:
        """The tier's part of a row about all canaries, with its count and with the ends of its interval.

        These come of ``bounds``, and of too few canaries there are none.
        """
        few, own = self.number < FEWEST, self.part(of)
        figure = dataclasses.replace(
            own,
            description=f"{own.description}{f'; fewer than {FEWEST} give no interval' if few else ''}",
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
        # The number says why there is no interval; of more canaries it is one row too many.
        counted = self.value(lambda found: None if of.value(found) is None else 1.0)
        return [
            *shown,
            MetricSpec(f"n_{self.ending}", f"canaries {self.words}", check=alarm).row(counted, count, in_table=few),
        ]


def tiers(copies: Copies) -> list[Tier]:
    """The tiers, the fewest copies first, that of the context last."""
    numbers = [(times, number) for times, number in copies.items() if isinstance(times, int)]
    listed = sorted(numbers, key=lambda number: (number[0] == CONTEXT, number[0]))
    return [Tier(times, number, not at and times != CONTEXT) for at, (times, number) in enumerate(listed)]


def of_headline(rows: Iterable[Metric[Finding, Any]], name: str, first: Tier) -> list[Metric[Finding, Any]]:
    """``rows``, the one of this name about the canaries of the first tier alone."""
    return [first.only(row) if row.name == name else row for row in rows]


def pooled_brief(rows: Sequence[Metric[Finding, Any]], *names: str) -> list[Metric[Finding, Any]]:
    """``rows`` for a run without tiers: those of these names, of all canaries, stand in the table with their ends."""
    shown = {*names, *(end for row in rows if row.name in names for end in row.interval or ())}
    return [dataclasses.replace(row, in_table=row.in_table or row.name in shown) for row in rows]


Grouped = tuple[bool, str, int | None, str]
"""Whether a canary is planted, its kind, its tier if it has one, and its family, empty for none."""


def copies_of(canaries: Iterable[Grouped]) -> Copies:
    """How many canaries there are of each tier, and of each family.

    Natural secrets are no tier: how often they occur is not the auditor's choice, and may tell one from all others.
    """
    open_ = [(tier, family) for planted, kind, tier, family in canaries if planted and kind != NATURAL]
    tiers_: Counter[int | str] = Counter(tier for tier, _ in open_ if tier is not None)
    return tiers_ + Counter(family for _, family in open_ if family)


def planted_words(copies: int) -> str:
    """How often, in words; for :data:`.CONTEXT` how they were read."""
    if copies == CONTEXT:
        return "read in the context only"
    return "planted once" if copies == 1 else f"planted {copies:,} times"
