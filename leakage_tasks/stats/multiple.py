"""Several tests at once."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number by Holm (1979), in the order given, 1 at most.

    A claim is significant at α, with all of them together wrong in at most α of cases, where its own is α or less.
    """
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for done, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - done) * p_values[index]))
        corrected[index] = largest
    return corrected
