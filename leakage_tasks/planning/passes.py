"""How many passes a run takes, from the rows it reads: the one place that says how rows come together."""

from __future__ import annotations

from collections.abc import Sequence

SLACK = 1.5
"""Passes of merged searches over the fewest there could be."""
MERGED = 0.75
"""Two searches that take no more than this share of their own passes together are merged."""


def passes_of_run(rows: float, depths: Sequence[float], at_once: float, merged: bool, slack: float = SLACK) -> float:
    """Passes of searches that read ``rows`` in all, no more than ``at_once`` a pass; alone each takes its ``depths``.

    Merged searches advance together: no fewer passes than the longest takes alone, nor than its rows fill. Others go
    one after another. The fewest there can be have a ``slack`` of 1.
    """
    if not depths:
        return 0.0
    return slack * max(max(depths), rows / at_once) if merged else float(sum(depths))
