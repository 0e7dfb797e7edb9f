"""The record of a verdict, and what the tests behind verdicts share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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


@dataclass(frozen=True)
class Verdict:
    """A verdict: ``short`` is the conclusion, ``because`` the result of the test or the reason why there is no test.

    ``where`` names the canaries above chance, or the prompts, if they are not those of the primary metric, and the
    secrets that are not tested.
    """

    short: Short
    because: str
    where: str = ""

    @property
    def label(self) -> str:
        """The verdict with the canaries above chance, without the reason."""
        return f"{self.short}{self.where and f', {self.where}'}"

    @property
    def words(self) -> str:
        """The verdict with its reason."""
        return f"{self.label}: {self.because}"


def whole_number(value: float | None) -> int:
    """Return a number of canaries or documents; 0 for an invalid value."""
    return round(value) if value is not None and 0 < value <= _MOST else 0
