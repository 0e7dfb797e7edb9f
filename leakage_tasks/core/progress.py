"""Bars that show how far a long run has come."""

from __future__ import annotations

import sys
from typing import Any

from tqdm import tqdm

SHOWN_AT_ONCE, KEPT = 0.5, 10.0
"""Seconds between two drawings of a bar: on a screen, where each takes the place of the last, and in a file."""


def progress(
    total: float, what: str | None = None, *, unit: str = "batch", shown: bool = True, **more: Any
) -> tqdm[None]:
    """A bar over ``total`` units; none unless it is ``shown``, and under TQDM_DISABLE.

    It is drawn seldom where standard error is a file or a pipe, which keeps every drawing.
    """
    # TQDM_DISABLE counts only where nothing is said of "disable".
    hidden = {} if shown else {"disable": True}
    return tqdm(total=total, desc=what, unit=unit, mininterval=_interval(), **hidden, **more)


def _interval() -> float:
    on_screen = sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel.")
    return SHOWN_AT_ONCE if on_screen else KEPT
