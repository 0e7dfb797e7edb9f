"""The written form of a natural secret in its context, and the template that it becomes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from leakage_tasks.canaries.alphabets import BUILT_IN, Alphabet
from leakage_tasks.canaries.detect import DetectedSecret
from leakage_tasks.canaries.spaces import Filling, literal

Alphabets = Mapping[str, tuple[Alphabet, ...]]
"""The alphabets of each part of a kind of secrets."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_UP_TO_A_WORD = re.compile(r"\S*\s+(?=\S)")


@dataclass(frozen=True)
class WrittenForm:
    """A secret as it is written, ``written``, after its context ``before``.

    ``parts`` are start, end and name of the parts of ``written`` that an attacker must guess. Check characters are left
    out: ``check_length`` of them follow after ``separator``.
    """

    before: str = field(repr=False)
    written: str = field(repr=False)
    parts: tuple[tuple[int, int, str], ...]
    separator: str = ""
    check_length: int = 0

    @classmethod
    def of(cls, text: str, detected: DetectedSecret, context: int) -> WrittenForm:
        """Return the form of a secret in ``text`` with at most ``context`` characters of context."""
        start, check = detected.start, detected.check_start
        end = detected.hidden[1] if check < detected.end else detected.end
        parts = tuple((first - start, last - start, name) for first, last, name in detected.parts)
        return cls(_before(text, start, context), text[start:end], parts, text[end:check], detected.end - check)

    def template(self, alphabets: Alphabets) -> tuple[str, Filling, dict[str, Alphabet]]:
        """Return template, filling and the alphabets that are not built in."""
        template, filling, used, end = literal(self.before), [], {}, 0
        level = self._level(alphabets)
        for start, stop, name in self.parts:
            alphabet = alphabets[name][min(level, len(alphabets[name]) - 1)]
            used[alphabet.name] = alphabet
            slots, values = _slots(self.written[start:stop], alphabet)
            template += literal(self.written[end:start]) + slots
            filling += values
            end = stop
        own = {name: alphabet for name, alphabet in used.items() if name not in BUILT_IN}
        return template + literal(self.written[end:]), tuple(filling), own

    def _level(self, alphabets: Alphabets) -> int:
        """Return the number of the first alphabets that contain the characters of all parts; the last are largest."""
        pieces = [(alphabets[name], self.written[start:stop]) for start, stop, name in self.parts]
        levels = max(len(choices) for choices, _ in pieces)
        return next(
            (
                level
                for level in range(levels)
                if all(
                    _contains(choices[min(level, len(choices) - 1)], choices[-1], piece) for choices, piece in pieces
                )
            ),
            levels - 1,
        )


def _contains(alphabet: Alphabet, largest: Alphabet, piece: str) -> bool:
    """Return True if ``alphabet`` has all characters of ``piece`` that ``largest`` has; others are format."""
    return all(character in alphabet for character in piece if character in largest)


def _slots(piece: str, alphabet: Alphabet) -> tuple[str, list[str]]:
    """Return the slots of a part and their values: one slot for the part if the alphabet has longer values, else one
    for each of its characters."""
    if max(alphabet.lengths) > 1:
        return f"{{{alphabet.name}}}", [piece]
    runs = re.split(rf"([{re.escape(''.join(alphabet.values))}]+)", piece)
    slots = (f"{{{alphabet.name}:{len(run)}}}" if index % 2 else literal(run) for index, run in enumerate(runs))
    return "".join(slots), list("".join(runs[1::2]))


def _before(text: str, start: int, context: int) -> str:
    """Return the context of a secret that begins at ``start``."""
    first = max(0, start - context)
    before = text[first:start]
    lines = before.split("\n")
    shown = lines.pop()
    while lines and not shown.strip():
        shown = f"{lines.pop()}\n{shown}"
    if len(shown) == len(before) and first:
        begun = _UP_TO_A_WORD.match(text, first - 1, start)
        shown = text[begun.end() : start] if begun else shown
    return _SURROGATE.split(shown)[-1]
