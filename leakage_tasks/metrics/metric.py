"""Metrics as declarations: how a value comes from a finding, how values aggregate, what the number means.

Every document yields every metric; a value that does not apply (a control's exposure) is None and is skipped,
and an aggregate over nothing is None.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.metrics.aggregates import (
    Aggregate,
    One,
    bootstrap_high,
    bootstrap_low,
    count,
    mean,
    share_high,
    share_low,
)

Found = TypeVar("Found")
"""What a metric is computed from for one document, most often a :class:`Finding`."""
Value = Callable[[Found], One | None]
Applies = Callable[[Found], bool]
"""Whether a finding has the metric at all: one attack's all do, but for what natural secrets do not tell."""
Direction = Literal["lower", "higher"] | None
"""What is better for the defender; None for controls and counts."""
MORE = "more_rows"
"""The row that stands for those which the harness' table does without: how many they are."""
FEW = 17
"""Fewer documents than this are too few for a rate: were none of them a hit, its 95 % interval would reach 20 %."""


@dataclass(frozen=True)
class ValidityCheck:
    """Where a run's figures may not be read as they stand: the row's value is under ``below``, for the reason given.

    ``name`` is what ``leakage check --allow`` calls it. With ``fault`` they then mean nothing, rather than little; with
    ``low`` they may be too low where less is better.
    """

    below: float
    words: str
    name: str
    fault: bool = False
    low: bool = False


@dataclass(frozen=True, kw_only=True)
class MetricSpec:
    """What a metric declares about itself, which results files hold and reports go by.

    ``words`` says what the number is, ``unit`` its unit, ``chance`` what it is for a model that never saw the
    canaries (None where that depends on the model), ``interval`` the names of the metrics with its 95 % limits,
    ``interval_kind`` how these are got. A ``headline`` is shown without being asked for, under ``title``, with the row
    of its controls (``control``) and of the number of documents it rests on (``count``) beside it; ``alarm`` flags a
    run. A row about the canaries planted ``copies`` times is part ``of`` the row about all of them.
    """

    name: str
    words: str = ""
    unit: str = ""
    chance: str | None = None
    better: Direction = None
    interval: tuple[str, str] | None = None
    interval_kind: str = ""
    title: str = ""
    headline: bool = False
    control: str | None = None
    count: str | None = None
    of: str = ""
    copies: int | None = None
    alarm: ValidityCheck | None = None


@dataclass(frozen=True)
class Metric(Generic[Found, One]):
    """One row of a results table: how its value comes from what was found, and its :class:`MetricSpec`.

    ``applies`` says which attacks' results have the row. The harness' table has the ``brief`` ones; a task without any
    has them all there.
    """

    name: str
    value: Value[Found, One]
    aggregate: Aggregate[One]
    better: Direction
    words: str
    unit: str = ""
    chance: str | None = None
    interval: tuple[str, str] | None = None
    applies: Applies[Found] = lambda found: True
    title: str = ""
    headline: bool = False
    control: str | None = None
    count: str | None = None
    alarm: ValidityCheck | None = None
    of: str = ""
    copies: int | None = None
    brief: bool = False
    interval_kind: str = ""

    @property
    def higher_is_better(self) -> bool | None:
        """The harness' form of ``better``."""
        return None if self.better is None else self.better == "higher"

    @property
    def spec(self) -> MetricSpec:
        """What it declares about itself."""
        return MetricSpec(**{each.name: getattr(self, each.name) for each in dataclasses.fields(MetricSpec)})

    def declaration(self) -> dict[str, Any]:
        """The same by name, JSON-able and without its name and what is as usual."""
        said = dataclasses.asdict(self.spec)
        return {name: value for name, value in said.items() if name != "name" and value not in ("", None, False)}


def headline(
    rows: list[Metric[Found, Any]], title: str, *, control: str | None = None, count: str | None = None
) -> list[Metric[Found, Any]]:
    """``rows`` with the first of them, whose ends the others are, a headline under ``title``."""
    return [dataclasses.replace(rows[0], title=title, headline=True, control=control, count=count), *rows[1:]]


def rate(
    name: str,
    value: Value[Found, float],
    better: Direction,
    words: str,
    chance: str | None = None,
    applies: Applies[Found] = lambda found: True,
) -> list[Metric[Found, float]]:
    """A share of documents with its Clopper-Pearson interval: three metrics."""
    kind = "Clopper-Pearson"
    return _with_interval(name, value, better, words, "share", chance, share_low, share_high, kind, applies)


def average(
    name: str,
    value: Value[Found, float],
    better: Direction,
    words: str,
    unit: str,
    chance: str | None,
    applies: Applies[Found] = lambda found: True,
) -> list[Metric[Found, float]]:
    """A mean over documents with its bootstrap interval: three metrics."""
    kind = "bootstrap"
    return _with_interval(name, value, better, words, unit, chance, bootstrap_low, bootstrap_high, kind, applies)


def _with_interval(
    name: str,
    value: Value[Found, float],
    better: Direction,
    words: str,
    unit: str,
    chance: str | None,
    low: Aggregate[float],
    high: Aggregate[float],
    kind: str,
    applies: Applies[Found] = lambda found: True,
) -> list[Metric[Found, float]]:
    ends = (f"{name}_ci_low", f"{name}_ci_high")
    return [
        Metric(name, value, mean, better, words, unit, chance, ends, applies, interval_kind=kind),
        Metric(ends[0], value, low, better, f"95 % {kind} interval of {name}, lower end", unit, applies=applies),
        Metric(ends[1], value, high, better, f"95 % {kind} interval of {name}, upper end", unit, applies=applies),
    ]


def too_few(documents: str) -> ValidityCheck:
    """The alarm of a count that is too small for a rate."""
    return ValidityCheck(
        FEW, f"underpowered: with fewer than {FEW} {documents} a rate of 20 % can show as 0", "underpowered"
    )


def counts() -> list[Metric[Finding, float]]:
    """How many canaries and controls a result rests on."""
    few = too_few("canaries")
    none = ValidityCheck(
        1, "no controls: nothing shows what chance is, nor a fault of the tool or of the planting", "no-controls"
    )
    return [
        Metric(
            "n_planted",
            lambda found: 1.0 if found.planted else None,
            count,
            None,
            "canaries planted",
            alarm=few,
            brief=True,
        ),
        Metric(
            "n_controls",
            lambda found: None if found.planted else 1.0,
            count,
            None,
            "controls, never planted",
            alarm=none,
            brief=True,
        ),
    ]


def planted(value: Value[Finding, One]) -> Value[Finding, One]:
    """``value`` for planted canaries only."""
    return lambda found: value(found) if found.planted else None


def controls(value: Value[Finding, One]) -> Value[Finding, One]:
    """``value`` for controls only."""
    return lambda found: None if found.planted else value(found)
