"""Bars that show how far a long run has come."""

from __future__ import annotations

import sys
from typing import Any

from tqdm import tqdm


def progress(total: float, what: str | None = None, *, unit: str = "batch", **more: Any) -> tqdm[None]:
    """A bar over ``total`` units; redrawn seldom where standard error is a file, which keeps every redrawing."""
    interval = 0.5 if sys.stderr.isatty() else 10.0
    return tqdm(total=total, desc=what, unit=unit, mininterval=interval, **more)
