"""Metrics as declarations: how a value comes from a finding, how values aggregate, what the number means.

Every document yields every metric; a value that does not apply (a control's exposure) is None and is skipped,
and an aggregate over nothing is None.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.core.former_names import FIELDS, current_fields
from leakage_tasks.metrics.aggregates import (
    BOOTSTRAP,
    CLOPPER_PEARSON,
    Aggregate,
    Interval,
    One,
    bootstrap_between,
    count,
    mean,
)

P = ParamSpec("P")
Result = TypeVar("Result")
Found = TypeVar("Found")
"""What a metric is computed from for one document, most often a :class:`Finding`."""
Value = Callable[[Found], One | None]
Applies = Callable[[Found], bool]
"""Whether a finding has the metric at all: one attack's all do, but for what natural secrets do not tell."""
Direction = Literal["lower", "higher"] | None
"""What is better for the defender; None for controls and counts."""
MORE = "hidden_metrics"
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


def always(found: Any) -> bool:
    """The usual :data:`Applies`."""
    return True


class _FormerArguments(type):
    """The class of classes that take keyword arguments by their former names, too."""

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        return super().__call__(*arguments, **current_fields(named))


def _former_arguments(method: Callable[P, Result]) -> Callable[P, Result]:
    """Return ``method`` so that it takes keyword arguments by their former names, too."""

    @functools.wraps(method)
    def taking_both(*arguments: Any, **named: Any) -> Result:
        return method(*arguments, **current_fields(named))

    return taking_both


@dataclass(frozen=True)
class MetricSpec(metaclass=_FormerArguments):
    """What a metric declares about itself, which results files hold and reports go by."""

    name: str
    description: str = ""
    """What the number is."""
    unit: str = ""
    chance: str | None = None
    """What it is for a model that never saw the canaries; None where that depends on the model."""
    direction: Direction = None
    interval: tuple[str, str] | None = None
    """The names of the metrics with its 95 % limits."""
    interval_kind: str = ""
    """How these are got."""
    title: str = ""
    """What a headline is shown under."""
    headline: bool = False
    """Whether it is shown without being asked for."""
    control: str | None = None
    """The row of its controls, beside a headline."""
    count: str | None = None
    """The row of the number of documents that it rests on, beside a headline."""
    parent: str = ""
    """The row about all canaries, of which this one about those planted ``copies`` times is part."""
    copies: int | None = None
    check: ValidityCheck | None = None
    """What flags a run."""

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Return the value of a field by its former name."""
            if name in FIELDS:
                return getattr(self, FIELDS[name])
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    @_former_arguments
    def row(
        self,
        value: Value[Found, One],
        aggregate: Aggregate[One],
        applies: Applies[Found] = always,
        in_table: bool = False,
    ) -> Metric[Found, One]:
        """The row of a results table that is declared so."""
        return Metric(**vars(self), value=value, aggregate=aggregate, applies=applies, in_table=in_table)

    def rate(self, value: Value[Found, float], applies: Applies[Found] = always) -> list[Metric[Found, Any]]:
        """A share of documents with its Clopper-Pearson interval: three rows."""
        return dataclasses.replace(self, unit="share").row(value, mean, applies).with_ends(CLOPPER_PEARSON)

    def average(
        self,
        value: Value[Found, float],
        applies: Applies[Found] = always,
        between: tuple[float, float] | None = None,
    ) -> list[Metric[Found, Any]]:
        """Return a mean over documents with its bootstrap interval: three rows.

        Args:
            value: Returns a finding's value, None for a finding without one.
            applies: Returns whether findings of an attack have the row.
            between: The least and the largest value that there can be, if both are known: values that are all alike
                then have an interval of some width.
        """
        interval = BOOTSTRAP if between is None else bootstrap_between(*between)
        return self.row(value, mean, applies).with_ends(interval)


@dataclass(frozen=True, kw_only=True)
class Metric(MetricSpec, Generic[Found, One]):
    """One row of a results table: what it declares, and how its value comes from what was found.

    ``applies`` says which attacks' results have the row. The harness' table has those that are ``in_table``; a task
    without any has them all there.
    """

    value: Value[Found, One]
    aggregate: Aggregate[One]
    applies: Applies[Found]
    in_table: bool

    @property
    def higher_is_better(self) -> bool | None:
        """The harness' form of ``direction``."""
        return None if self.direction is None else self.direction == "higher"

    def declaration(self) -> dict[str, Any]:
        """What it declares by name, JSON-able and without its name and what is as usual."""
        spec = MetricSpec(**{field.name: getattr(self, field.name) for field in dataclasses.fields(MetricSpec)})
        said = dataclasses.asdict(spec)
        return {name: value for name, value in said.items() if name != "name" and value not in ("", None, False)}

    def with_ends(
        self, interval: Interval, value: Value[Found, Any] | None = None, applies: Applies[Found] | None = None
    ) -> list[Metric[Found, Any]]:
        """The row and the two ends of its 95 % interval, which may have values and results of their own."""
        names = (f"{self.name}_ci_low", f"{self.name}_ci_high")
        words = f"95 % {interval.kind} interval of {self.name}"
        ends = [
            MetricSpec(name, f"{words}, {end} end", self.unit, direction=self.direction).row(
                value or self.value, aggregate, applies or self.applies, self.in_table
            )
            for name, end, aggregate in zip(names, ("lower", "upper"), (interval.low, interval.high), strict=True)
        ]
        return [dataclasses.replace(self, interval=names, interval_kind=interval.kind), *ends]


def limited_words(used: int, whole: int, documents: str) -> str:
    """Return why a run over a part of its documents has no headline."""
    return f"the run was limited to {used:,} of {whole:,} {documents} (--limit or --samples): run all of them"


HEADLINE = partial(MetricSpec, headline=True, count="n_planted")
"""What a headline of the canary tasks declares."""


def too_few(documents: str) -> ValidityCheck:
    """The alarm of a count that is too small for a rate."""
    return ValidityCheck(
        FEW, f"underpowered: with fewer than {FEW} {documents} a rate of 20 % can show as 0", "underpowered"
    )


def one(found: Any) -> float:
    """The value of a count."""
    return 1.0


NO_CONTROLS = ValidityCheck(
    1, "no controls: nothing shows what chance is, nor a fault of the tool or of the planting", "no-controls"
)


def planted(value: Value[Finding, One]) -> Value[Finding, One]:
    """``value`` for planted canaries only."""
    return lambda found: value(found) if found.planted else None


def controls(value: Value[Finding, One]) -> Value[Finding, One]:
    """``value`` for controls only."""
    return lambda found: None if found.planted else value(found)


COUNTS: list[Metric[Finding, Any]] = [
    MetricSpec("n_planted", "canaries planted", check=too_few("canaries")).row(planted(one), count, in_table=True),
    MetricSpec("n_controls", "controls, never planted", check=NO_CONTROLS).row(controls(one), count, in_table=True),
]
"""How many canaries and controls a result rests on."""
NOISE: Metric[Finding, Any] = MetricSpec(
    "noise_bits",
    "rounding noise of a canary's log-perplexity in the model's precision, a standard deviation; mean over canaries",
    "bits",
).row(lambda found: found.noise_bits, mean, lambda found: found.noise_bits is not None)
"""The noise of a model that computes in 16 bits or fewer; in float32 there is no such row."""
