"""Text that is part of every Python installation, so that no download is needed."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

_LONG_LINE = 30
_SLACK = 1.2
"""Factor by which the held-out text may exceed its share, because topics are not split."""


@dataclass(frozen=True)
class TextSplit:
    """Training text and held-out text; a line break separates topics."""

    training: str
    held_out: str

    @property
    def alphabet(self) -> list[str]:
        """All characters of both texts, in code point order."""
        return sorted(set(self.training) | set(self.held_out))


def pydoc_topics(*, characters: int | None = None, held_out: float = 0.1, seed: int = 0) -> TextSplit:
    """Return Python's help topics, drawn whole: first for the held-out text, then for the training text.

    ``held_out`` is the share of the held-out text, or a little more because topics are not split. ``characters`` limits
    the training text (default: no limit). A topic is skipped if most of its lines are in a larger topic (``try`` is
    part of ``compound``), so that the held-out text does not overlap with the training text. Equal Python versions and
    arguments give equal texts.
    """
    from pydoc_data.topics import topics

    names = _distinct_names(topics)
    random.Random(f"topics:{seed}").shuffle(names)
    total = sum(len(topics[name]) for name in names)
    held_out_names = _draw_topics(names, topics, held_out * total, _SLACK * held_out * total)
    rest = [name for name in names if name not in held_out_names]
    most = total if characters is None else characters
    return TextSplit(
        training=_join(topics[name] for name in sorted(_draw_topics(rest, topics, most, most))),
        held_out=_join(topics[name] for name in sorted(held_out_names)),
    )


def _draw_topics(names: list[str], topics: dict[str, str], enough: float, most: float) -> set[str]:
    """Choose names in order until their topics have ``enough`` characters; skip topics that would exceed ``most``."""
    chosen: set[str] = set()
    size = 0
    for name in names:
        if size < enough and size + len(topics[name]) <= most:
            chosen.add(name)
            size += len(topics[name])
    return chosen


def _distinct_names(topics: dict[str, str]) -> list[str]:
    names: list[str] = []
    seen: set[str] = set()
    for name in sorted(topics, key=lambda name: (-len(topics[name]), name)):
        lines = [line.strip() for line in topics[name].split("\n") if len(line.strip()) >= _LONG_LINE]
        if sum(line in seen for line in lines) * 2 <= len(lines):
            names.append(name)
            seen.update(lines)
    return sorted(names)


def _join(texts: Iterable[str]) -> str:
    return "\n".join(text.rstrip("\n") + "\n" for text in texts)
