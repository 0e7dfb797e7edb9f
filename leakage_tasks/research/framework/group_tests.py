"""When a claim holds: verdicts of intervals, and the test that one group's figures are the higher or the lower ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import fmean

from leakage_tasks.research.framework.report import Claim

LEAST_P = 0.05
"""A p below it tells groups apart."""


def told(holds: bool, fails: bool) -> bool | None:
    """A verdict: whether a claim ``holds``, ``fails``, or neither is shown (None)."""
    return True if holds else False if fails else None


def all_told(verdicts: Collection[bool | None]) -> bool | None:
    """The verdict on several claims at once: it fails with one, and cannot be told where one cannot."""
    return told(all(verdicts), False in verdicts)


def ranked(
    words: str, one: Sequence[float], other: Sequence[float], *, above: bool, digits: int, unit: str = ""
) -> Claim:
    """That ``one`` ranks ``above`` the ``other``, or below: Mann and Whitney's test, two-sided at 0.05.

    The evidence gives means with so many ``digits`` and their ``unit``.
    """
    from scipy import stats

    if not one or not other:
        return Claim(words, None, "not measured")
    found = stats.mannwhitneyu(one, other)
    ahead = float(found.statistic) - len(one) * len(other) / 2
    means = f"{fmean(one):.{digits}f} against {fmean(other):.{digits}f}{unit}"
    evidence = f"{means}; p = {found.pvalue:.2g}, n = {len(one)}, {len(other)}"
    holds = None if found.pvalue >= LEAST_P else ahead > 0 if above else ahead < 0
    return Claim(words, holds, evidence, float(found.pvalue))
