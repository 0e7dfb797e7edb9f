"""Values of hypothesis strategies that depend on a stream alone: on no database, nor on what was drawn before."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy

_TRIES = (2_000, 20_000, 200_000)
"""Bytes to draw from, more where they did not suffice."""


def draw(stream: Random, strategy: SearchStrategy[Any]) -> Any:
    """A value of a strategy; None where the random bytes made none."""
    feed, held = _taker(strategy)
    for size in _TRIES:
        held.clear()
        feed(stream.randbytes(size))
        if held:
            return held.pop()
    return None


@cache
def _taker(strategy: SearchStrategy[Any]) -> tuple[Any, list[Any]]:
    held: list[Any] = []

    @settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def take(value: Any) -> None:
        held.append(value)

    decorated: Any = take
    return decorated.hypothesis.fuzz_one_input, held
