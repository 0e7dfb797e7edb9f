"""Metrics of near-verbatim extraction: bounds on the probability of a draw within a small edit distance."""

from __future__ import annotations

from functools import partial
from typing import Any

from leakage_tasks.attacks.suffix.finding import SelectedView
from leakage_tasks.metrics.aggregates import ProbabilityBounds, ShareEnds, mean
from leakage_tasks.metrics.clustered import PAIR_PROBABILITY, by_document, share_rows
from leakage_tasks.metrics.metric import Metric, MetricSpec
from leakage_tasks.metrics.suffix_values import LIKELY, likely, likely_at, probability_of
from leakage_tasks.stats.intervals import clopper_pearson


def near_rows(draws: tuple[int, ...]) -> list[Metric[SelectedView, Any]]:
    """Return the rows of near-verbatim extraction, with (n, 0.5)-discoverability for each number n of ``draws``."""
    words = "probability of a draw within the edit distance near of the suffix, lower bound, mean"
    lower = MetricSpec("p_near", words, "probability", direction="lower", title="p_near", headline=True, count="n").row(
        p_near, mean, _bounded
    )
    high = MetricSpec("p_near_high", "upper bound of p_near, mean", "probability", direction="lower")
    among = "share of suffixes with a draw within the edit distance near"
    return [
        *lower.with_ends(PAIR_PROBABILITY, by_document(p_near_ends)),
        high.row(p_near_high, mean, _bounded),
        *share_rows(MetricSpec("drawn_near", among, direction="lower"), drawn_near, _drawn),
        *(row for number in draws for row in _discoverable(number)),
    ]


def p_near(selected: SelectedView) -> float | None:
    """Return the lower bound of the probability of a near-verbatim draw; None without bounds."""
    return probability_of(selected.view.near_bits) if _bounded(selected) else None


def p_near_high(selected: SelectedView) -> float | None:
    """Return the upper bound of the probability of a near-verbatim draw; None without bounds."""
    return probability_of(selected.view.near_high_bits) if _bounded(selected) else None


def p_near_ends(selected: SelectedView) -> ProbabilityBounds | None:
    """Return both ends of the probability of a near-verbatim draw; None without bounds.

    The upper end is the smaller of the upper bound and the upper end of the 95 % Clopper-Pearson interval of the share
    of near-verbatim draws.
    """
    low, high, view = p_near(selected), p_near_high(selected), selected.view
    if low is None or high is None:
        return None
    sampled = 1.0 if view.near_hits is None else clopper_pearson(view.near_hits, view.samples)[1]
    return ProbabilityBounds(low, max(low, min(high, sampled)))


def drawn_near(selected: SelectedView) -> float | None:
    """Return 1 if a draw was near-verbatim; None without draws."""
    return None if selected.view.near_hits is None else float(selected.view.near_hits > 0)


def discoverable_near(draws: int, selected: SelectedView) -> float | None:
    """Return 1 if ``draws`` draws contain a near-verbatim draw with probability 0.5 or more by the lower bound."""
    return likely(draws, p_near(selected))


def discoverable_near_ends(draws: int, selected: SelectedView) -> ShareEnds | None:
    """Return :func:`discoverable_near` at both ends of the probability of a near-verbatim draw."""
    return likely_at(draws, p_near_ends(selected))


def _bounded(selected: SelectedView) -> bool:
    return selected.kind in ("headline", "length") and selected.view.near_edits is not None


def _discoverable(draws: int) -> list[Metric[SelectedView, Any]]:
    words = (
        f"share of suffixes for which {draws:,} draw{'s contain one' if draws > 1 else ' is'} within the edit distance "
        f"near with a probability of {LIKELY} or more, lower bound"
    )
    spec = MetricSpec(f"discoverable_near_{draws}", words, direction="lower")
    return share_rows(spec, partial(discoverable_near, draws), _headline, partial(discoverable_near_ends, draws))


def _drawn(selected: SelectedView) -> bool:
    return _headline(selected) and selected.view.near_hits is not None


def _headline(selected: SelectedView) -> bool:
    return selected.kind == "headline" and _bounded(selected)
