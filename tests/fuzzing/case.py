"""What a surface gives to be judged, and what is found out about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

GOOD = ("success", "declined")
BAD = ("traceback", "wrong", "hang", "memory", "died", "leftover", "changed", "message")
"""``wrong``: what was done is not what was promised. ``message``: an error that no terminal should show."""


@dataclass(frozen=True)
class Call:
    """One input, written to a folder already, and how it is fed to the code.

    ``run`` may return an exit code. ``outputs`` are names in the folder that it may write, where it succeeds;
    ``secrets`` may stand in no error.
    """

    run: Callable[[], int | None]
    outputs: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


Maker = Callable[[Random, Path], Call]
"""What a surface is: from a stream and an empty folder to an input."""


@dataclass(frozen=True)
class Outcome:
    """``kind`` is of ``GOOD`` or ``BAD``; ``where`` tells like findings from others."""

    kind: str
    where: str = ""
    detail: str = ""


class Declined(Exception):
    """An error of ours that the command line told in one line."""


class Wrong(AssertionError):
    """A promise that a surface checks and that was not kept."""


def ensure(kept: bool, promise: str) -> None:
    """Raise Wrong unless a promise was kept."""
    if not kept:
        raise Wrong(promise)


def stream_of(seed: int, surface: str, number: int) -> Random:
    """All that input ``number`` of a surface depends on."""
    return Random(f"{seed}:{surface}:{number}")
