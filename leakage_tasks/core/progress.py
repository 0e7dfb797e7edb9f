"""Progress bars for long runs."""

from __future__ import annotations

import sys
from typing import Any

from tqdm import tqdm

SHOWN_AT_ONCE, KEPT = 0.5, 10.0
"""Seconds between two updates of a bar: on a terminal, which overwrites the bar, and in a file, which keeps every
update."""


def progress(
    total: float, what: str | None = None, *, unit: str = "batch", shown: bool = True, **more: Any
) -> tqdm[None]:
    """Return a progress bar over ``total`` units, hidden unless ``shown`` or if TQDM_DISABLE is set.

    It is updated rarely if standard error is a file or a pipe, since these keep every update.
    """
    # tqdm reads TQDM_DISABLE only if the argument "disable" is absent.
    hidden = {} if shown else {"disable": True}
    return tqdm(total=total, desc=what, unit=unit, mininterval=_interval(), **hidden, **more)


def _interval() -> float:
    on_screen = sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel.")
    return SHOWN_AT_ONCE if on_screen else KEPT
