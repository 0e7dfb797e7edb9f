"""The number of forward passes of a run, from its number of rows."""

from __future__ import annotations

from collections.abc import Sequence

SLACK = 1.5
"""Ratio of the passes of merged searches to the smallest possible number."""
MERGED = 0.75
"""Two searches count as merged if together they take at most this share of their separate passes."""


def passes_of_run(rows: float, depths: Sequence[float], at_once: float, merged: bool, slack: float = SLACK) -> float:
    """Return the forward passes of searches that read ``rows`` rows in total, at most ``at_once`` per pass.

    ``depths`` holds the passes of each search when it runs alone. ``merged`` searches advance together: they take at
    least as many passes as the longest search alone, and as many as their rows fill. Other searches run in sequence.
    With a ``slack`` of 1, the result is the smallest possible number.
    """
    if not depths:
        return 0.0
    return slack * max(max(depths), rows / at_once) if merged else float(sum(depths))
