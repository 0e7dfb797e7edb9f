"""The conclusion of a test on a task's metrics, as the verdicts state it."""

from __future__ import annotations

from typing import Literal, NamedTuple

Short = Literal[
    "above chance",
    "not above chance",
    "above the controls",
    "not above the controls",
    "order known",
    "order not shown",
    "above the best blind baseline",
    "inconclusive",
]
_MOST = 1e9
"""Maximum number of canaries or documents in results."""
OTHERS = 0.01
"""The joint level of the tests beside the primary metric's: on canaries planted more often, or on further prompts."""


class Conclusion(NamedTuple):
    """A conclusion, the result of the test or the reason why there is no test, and the part of the data that it is true
    of."""

    short: Short
    because: str
    where: str = ""


def whole_number(value: float | None) -> int:
    """Return a number of canaries or documents; 0 for an invalid value."""
    return round(value) if value is not None and 0 < value <= _MOST else 0
