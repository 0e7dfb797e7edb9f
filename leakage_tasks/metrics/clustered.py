"""Metrics over values of windows, with intervals over documents."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from leakage_tasks.attacks.suffix.finding import SelectedView
from leakage_tasks.metrics.aggregates import Aggregate, Interval, ShareEnds, mean, of_defined
from leakage_tasks.metrics.metric import Applies, Metric, MetricSpec, always
from leakage_tasks.stats.clusters import clustered_mean, clustered_share
from leakage_tasks.stats.intervals import clopper_pearson

Row = Metric[SelectedView, Any]
Measure = Callable[[SelectedView], float | None]


class OfDocument(NamedTuple):
    """A value of one window, and the number of its document."""

    value: float
    document: int


class EndsOfDocument(NamedTuple):
    """Membership of a pair in a share at the lower and the upper end of its value, and the number of its document."""

    low: float
    high: float
    document: int


@of_defined
def window_mean(values: list[OfDocument]) -> float:
    """Return the mean over windows."""
    return statistics.fmean(value.value for value in values)


@of_defined
def document_count(values: list[OfDocument]) -> float:
    """Return the number of documents."""
    return len({value.document for value in values})


Ends = tuple[float, float] | tuple[None, None]
FEWEST_DOCUMENTS = 2
"""Minimum number of documents for the interval of a mean and for a comparison."""


def _ends(of: Callable[[Sequence[float], Sequence[int]], Ends], end: int) -> Aggregate[OfDocument]:
    return of_defined(lambda values: of(*zip(*values, strict=True))[end])


def _interval(kind: str, of: Callable[[Sequence[float], Sequence[int]], Ends]) -> Interval:
    return Interval(kind, _ends(of, 0), _ends(of, 1))


SHARE = _interval("by-document Korn-Graubard", clustered_share)
"""Interval of a share of windows."""


def _share_of_pairs(values: Sequence[float], documents: Sequence[int]) -> tuple[float, float]:
    """Return the interval by document, or by pair if all pairs are of one document and describe it alone."""
    return clustered_share(values, documents if len(set(documents)) >= FEWEST_DOCUMENTS else range(len(values)))


def _share_end(end: int) -> Aggregate[EndsOfDocument]:
    return of_defined(lambda values: _share_of_pairs([each[end] for each in values], [each[2] for each in values])[end])


PAIR_SHARE = _interval("by-document Korn-Graubard (a single document: Clopper-Pearson)", _share_of_pairs)
"""Interval of a share of pairs; it is Clopper and Pearson's if each pair is a document of its own, too."""
PAIR_SHARE_ENDS = Interval(PAIR_SHARE.kind, _share_end(0), _share_end(1))
"""Interval of a share if the membership of some pairs is unknown; they count only for the upper end."""


def mean_between(least: float, most: float | None) -> Interval:
    """Return the bootstrap interval by document of the mean of values from ``least`` to ``most`` (None: unlimited).

    A single document has no interval. The bootstrap of equal values has no width. By Clopper and Pearson, a share of up
    to 1 − 0.025^(1/n) of further documents may differ from n documents, within the bounds.
    """

    def of(values: Sequence[float], documents: Sequence[int]) -> Ends:
        if len(set(documents)) < FEWEST_DOCUMENTS:
            return None, None
        if len(set(values)) > 1 or most is None:
            return clustered_mean(values, documents)
        other = clopper_pearson(0, len(set(documents)))[1]
        return values[0] - other * (values[0] - least), values[0] + other * (most - values[0])

    return _interval("by-document bootstrap", of)


def by_document(value: Measure, control: bool) -> Callable[[SelectedView], OfDocument | None]:
    """Return a function that adds the document to the value of a window: of controls, or of the data."""

    def of(selected: SelectedView) -> OfDocument | None:
        if selected.finding.control is not control:
            return None
        number = value(selected)
        return None if number is None else OfDocument(number, _document(selected))

    return of


def _document(selected: SelectedView) -> int:
    # A pair that is not cut from text is a document of its own.
    return selected.pair if selected.finding.document is None else selected.finding.document


def share_rows(
    spec: MetricSpec,
    value: Measure,
    applies: Applies[SelectedView] = always,
    ends: Callable[[SelectedView], ShareEnds | None] | None = None,
) -> list[Row]:
    """Return a share of pairs with its interval by document: three rows.

    Args:
        spec: Name, description and direction.
        value: Returns 1 for a pair in the share, 0 for another, None for a pair without a value.
        applies: Returns True if the results have the rows.
        ends: Returns the membership at both ends of its value, if some are unknown.
    """
    row = replace(spec, unit="share").row(value, mean, applies)
    if ends is None:
        return row.with_ends(PAIR_SHARE, by_document(value, False))

    def of_document(selected: SelectedView) -> EndsOfDocument | None:
        found = ends(selected)
        return None if found is None else EndsOfDocument(*found, _document(selected))

    return row.with_ends(PAIR_SHARE_ENDS, of_document)


def clustered(
    spec: MetricSpec,
    value: Measure,
    interval: Interval,
    *,
    controls: bool,
    applies: Applies[SelectedView] = always,
    control_applies: Applies[SelectedView] | None = None,
    in_table: bool = False,
    value_in_table: bool = False,
) -> list[Row]:
    """Return the rows of one figure: its value and interval, also of the controls if there are any.

    Args:
        spec: Name, description, unit and direction.
        value: Returns the value of a window, None if it has no value.
        interval: Method of the interval.
        controls: True if the run has controls.
        applies: Returns True if the results have the row.
        control_applies: The same for the rows of the controls; by default ``applies``.
        in_table: True if the harness' table shows the figure with its interval.
        value_in_table: True if it shows the figure, and that of the controls, without their intervals.

    Returns:
        Three rows, or six.
    """
    name = f"control_{spec.name}"
    declared = replace(spec, control=name) if controls and spec.headline else spec
    first, *ends = declared.row(by_document(value, False), window_mean, applies, in_table).with_ends(interval)
    rows = [replace(first, in_table=in_table or value_in_table), *ends]
    if not controls:
        return rows
    words = f"{spec.name} of documents that the model never saw"
    control = MetricSpec(name, words, spec.unit).row(by_document(value, True), window_mean, control_applies or applies)
    shown, *ends = control.with_ends(interval)
    return [*rows, replace(shown, in_table=value_in_table), *ends]
