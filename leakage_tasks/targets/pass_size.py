"""Tuning of the batch size of forward passes from the run's own timings."""

from __future__ import annotations

from typing import Any

FEWEST = 256
"""Initial number of rows."""
SPREAD = 1024
"""Rows of a model spread over processes. Their timings differ, but all must read equal batches, so it is fixed."""
WORTH_IT = 0.95
"""Highest ratio of the time per row to that with half as many rows for which the batch size is doubled again."""
LOOKS = 2
"""Full passes timed for each number of rows; the fastest counts."""


def is_spread(model: Any) -> bool:
    """Return whether the layers of a `transformers` model are spread over processes, which must act in step."""
    return any(getattr(model, name, None) not in (None, 1) for name in ("_tp_size", "_device_mesh"))


class PassSize:
    """The number of ``rows`` in a forward pass, doubled as long as this lowers the time per row on this device.

    It affects the duration of a run, never its results. A number of rows given as ``fixed`` is never changed.
    """

    def __init__(self, fixed: int | None = None) -> None:
        self.rows = fixed or FEWEST
        self._seen: list[float] = []
        self._before = float("inf")
        self._settled = fixed is not None

    def note(self, rows: int, seconds: float) -> None:
        """Record the duration of a pass of ``rows`` rows; passes that are not full are ignored."""
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
