"""The result of writing a text."""

from __future__ import annotations

from typing import NamedTuple


class WrittenText(NamedTuple):
    """The tokens of a text that a model wrote, without the end token; ``ended`` is true if the model ended it."""

    tokens: tuple[int, ...]
    ended: bool
