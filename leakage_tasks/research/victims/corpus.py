"""Text every Python carries, so that a lab needs no download."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

_LONG_LINE = 30
_SLACK = 1.2
"""How far whole topics may take the held-out text past its share."""


@dataclass(frozen=True)
class TextSplit:
    """Text to train on and text the model never sees, topics separated by a line break."""

    training: str
    held_out: str

    @property
    def alphabet(self) -> list[str]:
        """Every character of either text, in code point order."""
        return sorted(set(self.training) | set(self.held_out))


def pydoc_topics(*, characters: int | None = None, held_out: float = 0.1, seed: int = 0) -> TextSplit:
    """Python's own help topics, drawn whole: first into the held-out text, then into the training text.

    ``held_out`` is the first one's share of all there is (a little more may come of whole topics);
    ``characters`` is the most the second may hold (default: all the rest). The help repeats whole sections
    (``try`` stands within ``compound``): a topic most of which already stands in a larger one is left out,
    else the held-out text would partly be training text. The same Python version and arguments give the
    same text.
    """
    from pydoc_data.topics import topics

    names = _distinct_names(topics)
    random.Random(f"topics:{seed}").shuffle(names)
    total = sum(len(topics[name]) for name in names)
    kept_back = _draw_topics(names, topics, held_out * total, _SLACK * held_out * total)
    rest = [name for name in names if name not in kept_back]
    most = total if characters is None else characters
    return TextSplit(
        training=_join(topics[name] for name in sorted(_draw_topics(rest, topics, most, most))),
        held_out=_join(topics[name] for name in sorted(kept_back)),
    )


def _draw_topics(names: list[str], topics: dict[str, str], enough: float, most: float) -> set[str]:
    """Names in turn until their topics hold ``enough``, passing over those that would make it ``most``."""
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
