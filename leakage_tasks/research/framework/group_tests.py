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


def no_difference(words: str, groups: Sequence[Sequence[float]], shown: str) -> Claim:
    """That groups do not differ significantly: Kruskal and Wallis' test does not reject it at 0.05; no test shows more.

    The evidence begins with what is ``shown``.
    """
    from scipy import stats

    if len(groups) < 2 or min(map(len, groups)) < 2:
        return Claim(words, None, f"{shown}; too few models to tell")
    if len({value for values in groups for value in values}) == 1:
        return Claim(words, True, f"{shown}; all alike")
    found = stats.kruskal(*groups)
    return Claim(words, bool(found.pvalue >= LEAST_P), f"{shown}; p = {found.pvalue:.2g}, n = {sum(map(len, groups))}")


def combined(words: str, p_values: Sequence[float], shown: str) -> Claim:
    """That something is the case of some, each of which has a p of its own: Fisher's combined test, at 0.05."""
    from scipy import stats

    if not p_values:
        return Claim(words, None, "not measured")
    p = float(stats.combine_pvalues(p_values).pvalue)
    return Claim(words, True if p < LEAST_P else None, f"{shown}; p = {p:.2g}, n = {len(p_values)}", p)
