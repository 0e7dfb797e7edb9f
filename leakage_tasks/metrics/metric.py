"""Metrics as declarations: value of a finding, aggregation of values, meaning of the number.

Every document yields every metric; a value that does not apply (the exposure of a control) is None and is skipped, and
an aggregate without values is None.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Generic, Literal, TypeVar

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.core.former_names import FIELDS, accept_former_arguments, accept_former_names
from leakage_tasks.core.records import Between
from leakage_tasks.metrics.aggregates import (
    CLOPPER_PEARSON,
    MEAN,
    Aggregate,
    Interval,
    One,
    count,
    mean,
    mean_between,
)

Found = TypeVar("Found")
"""Type variable for the result of one document from which a metric is computed, usually a :class:`Finding`."""
Value = Callable[[Found], One | None]
Applies = Callable[[Found], bool]
"""A function that returns True if a metric applies to a finding. It is equal for all findings of one attack, except for
natural secrets."""
Direction = Literal["lower", "higher"] | None
"""The direction that is better for the defender; None for controls and counts."""
MORE = "hidden_metrics"
"""Name of the row with the number of metrics that are not in the harness' table."""
FEW = 17
"""Minimum number of documents for a rate: with fewer documents and no hit, the 95 % interval would exceed 20 %."""


@dataclass(frozen=True)
class ValidityCheck:
    """A condition under which the metrics of a run must not be used as they are: the row's value is below ``below``.

    ``name`` is the value for ``leakage check --allow``. If ``fault`` is true, the metrics are then meaningless,
    otherwise uncertain. If ``low`` is true, metrics for which lower is better may be too low.
    """

    below: float
    words: str
    name: str
    fault: bool = False
    low: bool = False


def always(finding: Any) -> bool:
    """Return True. This is the default of :data:`Applies`: the metric applies to every finding."""
    return True


@accept_former_names(**FIELDS)
@dataclass(frozen=True)
class MetricSpec:
    """The declaration of a metric, which results files hold and reports read."""

    name: str
    description: str = ""
    """Meaning of the number."""
    unit: str = ""
    chance: str | None = None
    """Expected value for a model that never saw the canaries; None if it depends on the model."""
    direction: Direction = None
    interval: tuple[str, str] | None = None
    """Names of the metrics with its 95 % limits."""
    interval_kind: str = ""
    """Method of the interval."""
    title: str = ""
    """Title of a primary metric in reports."""
    headline: bool = False
    """True if reports show it by default."""
    control: str | None = None
    """For a primary metric: name of the metric of the controls."""
    count: str | None = None
    """For a primary metric: name of the metric with the number of documents."""
    parent: str = ""
    """Name of the metric over all canaries, of which this metric is the part for canaries planted ``copies`` times."""
    copies: Annotated[int, Between(1)] | None = None
    check: ValidityCheck | None = None
    """Check that warns if the run's metrics must not be used as they are."""

    @accept_former_arguments(brief="in_table")
    def row(
        self,
        value: Value[Found, One],
        aggregate: Aggregate[One],
        applies: Applies[Found] = always,
        in_table: bool = False,
    ) -> Metric[Found, One]:
        """Return the row of a results table with this declaration."""
        return Metric(**vars(self), value=value, aggregate=aggregate, applies=applies, in_table=in_table)

    def rate(self, value: Value[Found, float], applies: Applies[Found] = always) -> list[Metric[Found, Any]]:
        """Return a share of documents with its Clopper-Pearson interval: three rows."""
        return dataclasses.replace(self, unit="share").row(value, mean, applies).with_ends(CLOPPER_PEARSON)

    def average(
        self,
        value: Value[Found, float],
        applies: Applies[Found] = always,
        between: tuple[float, float] | None = None,
    ) -> list[Metric[Found, Any]]:
        """Return a mean over documents with its interval: three rows.

        Args:
            value: Returns a finding's value, None for a finding without a value.
            applies: Returns True if findings of an attack have the row.
            between: The smallest and largest possible value, if both are known: the interval of equal values then has a
                width above 0.
        """
        interval = MEAN if between is None else mean_between(*between)
        return self.row(value, mean, applies).with_ends(interval)


@accept_former_names(**FIELDS)
@dataclass(frozen=True, kw_only=True)
class Metric(MetricSpec, Generic[Found, One]):
    """One row of a results table: its declaration, and the function from a finding to its value.

    ``applies`` decides which attacks' results have the row. The harness' table shows the rows that are ``in_table``, or
    all rows of a task without such rows.
    """

    value: Value[Found, One]
    aggregate: Aggregate[One]
    applies: Applies[Found]
    in_table: bool

    @property
    def higher_is_better(self) -> bool | None:
        """``direction`` in the form that the harness expects."""
        return None if self.direction is None else self.direction == "higher"

    def declaration(self) -> dict[str, Any]:
        """Return the declaration as JSON values by field name, without the metric's name and without default values."""
        spec = MetricSpec(**{field.name: getattr(self, field.name) for field in dataclasses.fields(MetricSpec)})
        values = dataclasses.asdict(spec)
        return {name: value for name, value in values.items() if name != "name" and value not in ("", None, False)}

    def with_ends(
        self, interval: Interval, value: Value[Found, Any] | None = None, applies: Applies[Found] | None = None
    ) -> list[Metric[Found, Any]]:
        """Return the row and rows for both ends of its 95 % interval.

        The ends are computed from ``value``, by default the row's own value.
        """
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
    """Return the reason why a run over a part of its documents has no primary metric."""
    return f"the run was limited to {used:,} of {whole:,} {documents} (--limit or --samples): run all of them"


HEADLINE = partial(MetricSpec, headline=True, count="n_planted")
"""The declaration of a primary metric of the canary tasks."""


def names_with_ends(rows: Iterable[Metric[Any, Any]], names: Collection[str]) -> set[str]:
    """Return the names of the ``rows`` with these ``names``, and of the ends of their intervals."""
    shown = [row for row in rows if row.name in names]
    return {row.name for row in shown} | {end for row in shown for end in row.interval or ()}


def too_few(documents: str) -> ValidityCheck:
    """Return the check that warns of a count too small for a rate."""
    return ValidityCheck(
        FEW, f"underpowered: with fewer than {FEW} {documents} a rate of 20 % can show as 0", "underpowered"
    )


def one(finding: Any) -> float:
    """Return the value of a count: 1."""
    return 1.0


def with_count(rows: list[Metric[Found, Any]]) -> list[Metric[Found, Any]]:
    """Return the rows of a rate on canaries, and a row that counts the canaries with a value."""
    rate, *ends = rows

    def counted(finding: Found) -> float | None:
        return None if rate.value(finding) is None else 1.0

    spec = MetricSpec(f"n_{rate.name}", f"canaries planted with a value of {rate.name}")
    return [dataclasses.replace(rate, count=spec.name), *ends, spec.row(counted, count, rate.applies)]


NO_CONTROLS = ValidityCheck(
    1, "no controls: neither the level of chance nor a fault of the tool or of the planting can be seen", "no-controls"
)


def planted(value: Value[Finding, One]) -> Value[Finding, One]:
    """Return a function like ``value`` that is None for controls."""
    return lambda finding: value(finding) if finding.planted else None


def controls(value: Value[Finding, One]) -> Value[Finding, One]:
    """Return a function like ``value`` that is None for planted canaries."""
    return lambda finding: None if finding.planted else value(finding)


COUNTS: list[Metric[Finding, Any]] = [
    MetricSpec("n_planted", "canaries planted", check=too_few("canaries")).row(planted(one), count, in_table=True),
    MetricSpec("n_controls", "controls, never planted", check=NO_CONTROLS).row(controls(one), count, in_table=True),
]
"""Metrics with the numbers of canaries and controls on which a result is based."""
NOISE: Metric[Finding, Any] = MetricSpec(
    "noise_bits",
    "rounding noise of a canary's log-perplexity in the model's precision, a standard deviation; mean over canaries",
    "bits",
).row(lambda finding: finding.noise_bits, mean, lambda finding: finding.noise_bits is not None)
"""Metric of the rounding noise, for models that compute in 16 bits or fewer; models in float32 have no such row."""
