"""How many rows a pass had best have, found out from the passes that are made anyway."""

from __future__ import annotations

from typing import Any

FEWEST = 256
"""Rows to begin with."""
SPREAD = 1024
"""Rows of a model that is spread over processes: they time the same pass differently, and must read the same rows."""
WORTH_IT = 0.95
"""What a row may take of the time it took with half as many in a pass, for more rows still to be tried."""
LOOKS = 2
"""Full passes that are timed for each number of rows; the quickest counts."""


def is_spread(model: Any) -> bool:
    """Whether the layers of a `transformers` model are spread over processes, which must all do the same then."""
    return any(getattr(model, name, None) not in (None, 1) for name in ("_tp_size", "_device_mesh"))


class PassSize:
    """The number of ``rows`` in a pass, doubled as long as that makes a row cheaper on this device.

    It changes how long a run takes and none of its figures. With ``fixed`` rows it stays at those.
    """

    def __init__(self, fixed: int | None = None) -> None:
        self.rows = fixed or FEWEST
        self._seen: list[float] = []
        self._before = float("inf")
        self._settled = fixed is not None

    def note(self, rows: int, seconds: float) -> None:
        """Take note of what a pass of so many rows took; passes that are not full say nothing."""
        if self._settled or rows < self.rows:
            return
        self._seen.append(seconds / rows)
        if len(self._seen) < LOOKS:
            return
        now = min(self._seen)
        self._seen.clear()
        if now < WORTH_IT * self._before:
            self._before = now
            self.rows *= 2
        else:
            self.rows //= 2
            self._settled = True
