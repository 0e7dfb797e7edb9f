"""Correction of p-values for multiple tests."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number by Holm's method (1979), in the order of the input, at most 1.

    If hypotheses with corrected values of α or less are rejected, any true hypothesis is rejected with probability ≤ α.
    """
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for done, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - done) * p_values[index]))
        corrected[index] = largest
    return corrected
