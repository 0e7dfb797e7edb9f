"""Verdicts from intervals, and tests that compare groups of measurements."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import fmean

from leakage_tasks.research.framework.report import Claim

SIGNIFICANCE = 0.05
"""Groups differ significantly if p is below this value."""


def decide(holds: bool, fails: bool) -> bool | None:
    """Return True if a claim ``holds``, False if it ``fails``, and None if neither is shown."""
    return True if holds else False if fails else None


def decide_all(verdicts: Collection[bool | None]) -> bool | None:
    """Return the verdict on several claims together: False if one fails, None if one is inconclusive."""
    return decide(all(verdicts), False in verdicts)


def ranked(
    words: str, one: Sequence[float], other: Sequence[float], *, above: bool, digits: int, unit: str = ""
) -> Claim:
    """Return the claim that group ``one`` ranks ``above`` the ``other`` (or below it), by a two-sided Mann-Whitney test
    at 0.05.

    Args:
        words: the claim's text.
        one: measurements of the first group.
        other: measurements of the second group.
        above: True if the claim is that ``one`` is higher.
        digits: decimals of the means in the evidence.
        unit: unit of the means, with a space before it.
    """
    from scipy import stats

    if not one or not other:
        return Claim(words, None, "not measured")
    test = stats.mannwhitneyu(one, other)
    ahead = float(test.statistic) - len(one) * len(other) / 2
    means = f"{fmean(one):.{digits}f} against {fmean(other):.{digits}f}{unit}"
    evidence = f"{means}; p = {test.pvalue:.2g}, n = {len(one)}, {len(other)}"
    holds = None if test.pvalue >= SIGNIFICANCE else ahead > 0 if above else ahead < 0
    return Claim(words, holds, evidence, float(test.pvalue))


def no_difference(words: str, groups: Sequence[Sequence[float]], shown: str) -> Claim:
    """Return the claim that groups do not differ significantly: the Kruskal-Wallis test does not reject equality at
    0.05.

    The evidence begins with ``shown``. No test can prove equality.
    """
    from scipy import stats

    if len(groups) < 2 or min(map(len, groups)) < 2:
        return Claim(words, None, f"{shown}; too few models")
    if len({value for values in groups for value in values}) == 1:
        return Claim(words, True, f"{shown}; all equal")
    test = stats.kruskal(*groups)
    return Claim(
        words, bool(test.pvalue >= SIGNIFICANCE), f"{shown}; p = {test.pvalue:.2g}, n = {sum(map(len, groups))}"
    )


def combined(words: str, p_values: Sequence[float], shown: str) -> Claim:
    """Return the claim of an effect that several tests support together, by Fisher's combined test at 0.05."""
    from scipy import stats

    if not p_values:
        return Claim(words, None, "not measured")
    p = float(stats.combine_pvalues(p_values).pvalue)
    return Claim(words, True if p < SIGNIFICANCE else None, f"{shown}; p = {p:.2g}, n = {len(p_values)}", p)
