"""Rows by how often canaries were planted: a tier is those planted equally often.

What one copy gives away is the headline. All tiers together are a mixture that the auditor chose, not a figure of the
model.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.attacks.finding import Finding
from leakage_tasks.metrics.aggregates import FEWEST, Aggregate, One, count
from leakage_tasks.metrics.metric import Metric, ValidityCheck, Value

Copies = Mapping[int, int]
"""By how often canaries were planted, how many there are."""


@dataclass(frozen=True)
class Ends:
    """How an interval is got: by ``kind``, its ends from what ``value`` takes of each finding."""

    value: Value[Finding, Any]
    low: Aggregate[Any]
    high: Aggregate[Any]
    kind: str


@dataclass(frozen=True)
class Tier:
    """The ``number`` canaries that were planted ``copies`` times; ``first`` is the tier of the fewest copies."""

    copies: int
    number: int
    first: bool

    @property
    def words(self) -> str:
        """``planted once``, ``planted 4 times``."""
        return planted_words(self.copies)

    def name(self, row: str) -> str:
        """The name of the tier's part of a row."""
        return f"{row}_x{self.copies}"

    def value(self, of: Value[Finding, One]) -> Value[Finding, One]:
        """``of`` for the tier's canaries only."""

        def value(found: Finding) -> One | None:
            own = found.planted and found.repetitions == self.copies and found.kind != NATURAL
            return of(found) if own else None

        return value

    def only(self, row: Metric[Finding, Any]) -> Metric[Finding, Any]:
        """A row about the tier's canaries only, under the name that it has."""
        return dataclasses.replace(row, value=self.value(row.value), words=f"{row.words}; of canaries {self.words}")

    def part(self, row: Metric[Finding, Any]) -> Metric[Finding, Any]:
        """The same under a name of its own, without an alarm."""
        return dataclasses.replace(self.only(row), name=self.name(row.name), alarm=None)

    def rows(self, of: Metric[Finding, float], ends: Ends, title: str, control: str) -> list[Metric[Finding, Any]]:
        """The tier's part of a row about all canaries, with its ends and its count; no ends of too few canaries."""
        name, few = self.name(of.name), self.number < FEWEST
        interval = (f"{name}_ci_low", f"{name}_ci_high")
        why = f"; fewer than {FEWEST} give no interval" if few else ""
        figure = dataclasses.replace(
            of,
            name=name,
            value=self.value(of.value),
            words=f"{of.words}; of canaries {self.words}{why}",
            interval=None if few else interval,
            interval_kind="" if few else ends.kind,
            title=f"{title}, {self.words}",
            headline=self.first,
            control=control,
            count=self.name("n"),
            of=of.name,
            copies=self.copies,
            brief=True,
        )
        return [figure, *([] if few else self._ends(figure, interval, ends)), self._count(of, few)]

    def _ends(
        self, figure: Metric[Finding, float], names: tuple[str, str], ends: Ends
    ) -> Iterator[Metric[Finding, Any]]:
        for name, aggregate, end in zip(names, (ends.low, ends.high), ("lower", "upper"), strict=True):
            words = f"95 % {ends.kind} interval of {figure.name}, {end} end"
            yield Metric(name, self.value(ends.value), aggregate, figure.better, words, figure.unit, brief=True)

    def _count(self, of: Metric[Finding, float], few: bool) -> Metric[Finding, float]:
        why = f"underpowered: fewer than {FEWEST} canaries {self.words}, too few for an interval"
        alarm = ValidityCheck(FEWEST, why, "underpowered") if self.first else None
        # The number says why there is no interval; of more canaries it is one row too many.
        value = self.value(lambda found: None if of.value(found) is None else 1.0)
        return Metric(self.name("n"), value, count, None, f"canaries {self.words}", alarm=alarm, brief=few)


def tiers(copies: Copies) -> list[Tier]:
    """The tiers, the fewest copies first."""
    return [Tier(times, number, not at) for at, (times, number) in enumerate(sorted(copies.items()))]


def of_headline(rows: Iterable[Metric[Finding, Any]], name: str, first: Tier) -> list[Metric[Finding, Any]]:
    """``rows``, the one of this name about the canaries of the first tier alone."""
    return [first.only(row) if row.name == name else row for row in rows]


def pooled_brief(rows: Sequence[Metric[Finding, Any]], *names: str) -> list[Metric[Finding, Any]]:
    """``rows`` for a run without tiers: those of these names, of all canaries, stand in the table with their ends."""
    shown = {*names, *(end for row in rows if row.name in names for end in row.interval or ())}
    return [dataclasses.replace(row, brief=row.brief or row.name in shown) for row in rows]


def copies_of(canaries: Iterable[tuple[bool, str, int]]) -> Copies:
    """How many canaries there are of each number of copies, given of each whether it is planted, its kind and copies.

    Natural secrets are no tier: how often they occur is not the auditor's choice, and may tell one from all others.
    """
    return Counter(copies for planted, kind, copies in canaries if planted and kind != NATURAL)


def planted_words(copies: int) -> str:
    """How often, in words."""
    return "planted once" if copies == 1 else f"planted {copies:,} times"
