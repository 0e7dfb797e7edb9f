"""The number of calls of a model that an attack makes at most."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Calls:
    """The most calls of a model for one canary.

    ``texts`` are whole texts to score. ``steps`` are tokens that continue a text whose beginning is known. ``rounds``
    is the number of calls that need the result of the call before, so that they cannot share a forward pass.
    """

    texts: int = 0
    steps: int = 0
    rounds: int = 1

    def __add__(self, other: Calls) -> Calls:
        return Calls(self.texts + other.texts, self.steps + other.steps, self.rounds + other.rounds)

    def times(self, number: int) -> Calls:
        """Return the calls of ``number`` attacks, one after the other."""
        return Calls(self.texts * number, self.steps * number, self.rounds * number)
