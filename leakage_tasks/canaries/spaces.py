"""Templates with slots and the randomness space R that they span; sizes are exact integers."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

from leakage_tasks.canaries.alphabets import BUILT_IN, TOKENIZER_KINDS, Alphabet
from leakage_tasks.core.errors import SpaceError

Filling = tuple[str, ...]
"""One string per slot, in the order of the slots."""

MAX_SLOTS = 10_000
"""The maximum number of slots in one ``{name:n}``."""
EXACT_SIZE = 10_000
"""Size from which results and messages state a space by its rounded logarithm alone."""

_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True)
class Space:
    """A template with its slots: ``pieces[0] slots[0] pieces[1] … slots[-1] pieces[-1]``.

    R is the product of the slots' alphabets; a filling is a tuple with one string per slot.
    """

    pieces: tuple[str, ...]
    slots: tuple[Alphabet, ...]

    @cached_property
    def size(self) -> int:
        """|R|, as an exact integer."""
        return prod(len(slot) for slot in self.slots)

    @cached_property
    def prefix(self) -> str:
        """The template's text before the first slot."""
        return self.pieces[0]

    @cached_property
    def spans(self) -> tuple[slice, ...] | None:
        """The characters of each slot in a filled text; None if a slot has values of several lengths."""
        spans, start = [], 0
        for slot, piece in zip(self.slots, self.pieces, strict=False):
            if len(slot.lengths) > 1:
                return None
            start += len(piece)
            spans.append(slice(start, start := start + len(slot.values[0])))
        return tuple(spans)

    @property
    def ends_early(self) -> bool:
        """True if a filled text may be the beginning of another filled text, or if this is unknown."""
        if self.spans is not None:
            return False
        # If no value contains the first character of the end, all texts contain it equally often, so its last
        # occurrence marks the end of a text.
        end = self.pieces[-1][:1]
        return not end or any(end in value for slot in self.slots for value in slot.values)

    def fill(self, filling: Sequence[str]) -> str:
        """Return the template's text with ``filling`` in its slots. Raises SpaceError if the filling is outside R."""
        self.check(filling)
        return self.begin(filling)

    def begin(self, head: Sequence[str]) -> str:
        """Return the text before the first slot that is still open when ``head`` fills the first slots."""
        parts = [self.pieces[0]]
        for value, piece in zip(head, self.pieces[1:], strict=False):
            parts += (value, piece)
        return "".join(parts)

    def check(self, filling: Sequence[str]) -> None:
        """Raise SpaceError unless ``filling`` is in R."""
        if len(filling) != len(self.slots):
            raise SpaceError(
                f"a filling of {len(filling)} slots for a template of {len(self.slots)}: give one value per slot",
                reason="does not have one value for each slot",
            )
        for slot, value in zip(self.slots, filling, strict=True):
            slot.position(value)

    def index(self, filling: Sequence[str]) -> int:
        """Return the index of ``filling`` in :meth:`enumerate`, from 0 (mixed radix, last slot fastest)."""
        self.check(filling)
        index = 0
        for slot, value in zip(self.slots, filling, strict=True):
            index = index * len(slot) + slot.position(value)
        return index

    def at(self, index: int) -> Filling:
        """Return the filling with this index; inverse of :meth:`index`."""
        if not 0 <= index < self.size:
            raise SpaceError(f"index {index} is outside a space of {self.size} fillings")
        values = []
        for slot in reversed(self.slots):
            index, position = divmod(index, len(slot))
            values.append(slot.values[position])
        return tuple(reversed(values))

    def enumerate(self) -> Iterator[Filling]:
        """Yield every filling once, in the order of :meth:`index`."""
        return product(*(slot.values for slot in self.slots))

    def texts(self) -> Iterator[str]:
        """Yield every filled text, in the order of :meth:`enumerate`."""
        parts: list[tuple[str, ...]] = [(self.pieces[0],)]
        for slot, piece in zip(self.slots, self.pieces[1:], strict=True):
            parts += (slot.values, (piece,))
        return map("".join, product(*parts))

    def sample(self, n: int, seed: int | str) -> list[Filling]:
        """Return ``n`` fillings, independent and uniform over R, determined by the seed."""
        stream = random.Random(f"space:{seed}")
        size = self.size
        return [self.at(stream.randrange(size)) for _ in range(n)]


def parse_template(
    template: str,
    alphabets: Mapping[str, Alphabet] | None = None,
    *,
    slots_needed: bool = True,
    field: str = "",
) -> Space:
    """Parse a template such as ``"My pin is {digits:4}."`` to a :class:`Space`.

    ``{name}`` is one slot and ``{name:n}`` is n slots; ``{{`` and ``}}`` are braces.

    Args:
        template: The template.
        alphabets: Alphabets in addition to the built-in ones, which they can replace.
        slots_needed: False to accept a template without slots.
        field: The name of the template's field for error messages.

    Raises:
        SpaceError: If the template is invalid.
    """
    subject = f"{field or 'template'} {template!r}"
    known = {**BUILT_IN, **(alphabets or {})}
    pieces, slots, piece, end = [], [], "", 0
    for match in _FIELD.finditer(template):
        piece += template[end : match.start()]
        end = match.end()
        if match.group() in ("{{", "}}"):
            piece += match.group()[0]
            continue
        if match.group(1) is None:
            fault = f"a single {match.group()!r} at {match.start()}: write it twice"
            raise SpaceError(f"{subject}: {fault}", reason=f"has {fault}", subject=field)
        try:
            alphabet, count = _slot(match.group(1), known)
        except SpaceError as error:
            reason = "has a slot of an unknown space, or with a count that is not a number"
            raise SpaceError(f"{subject}: {error}", reason=reason, subject=field) from None
        for number in range(count):
            pieces.append(alphabet.joiner if number else piece)
            slots.append(alphabet)
        piece = ""
    if not slots and slots_needed:
        fault = "has no slot: put in one such as {digits:4}"
        raise SpaceError(f"{subject} {fault}", reason=fault, subject=field)
    return Space((*pieces, piece + template[end:]), tuple(slots))


def slot_names(template: str) -> list[str]:
    """Return the distinct names in a template's slots, in order."""
    names = (match.group(1).partition(":")[0] for match in _FIELD.finditer(template) if match.group(1))
    return list(dict.fromkeys(names))


def literal(text: str) -> str:
    """Escape text for use in a template."""
    return text.replace("{", "{{").replace("}", "}}")


def _slot(field: str, known: Mapping[str, Alphabet]) -> tuple[Alphabet, int]:
    name, colon, count = field.partition(":")
    if name not in known:
        hint = "; {words}, {terms} and {tokens} are a tokenizer's: name one" if name in TOKENIZER_KINDS else ""
        raise SpaceError(f"unknown space {name!r}: use one of {', '.join(known)}{hint}")
    number = int(count) if count.isascii() and count.isdecimal() and len(count) <= len(str(MAX_SLOTS)) else 0
    if colon and not 0 < number <= MAX_SLOTS:
        expected = f"a count from 1 to {MAX_SLOTS}, as in {{{name}:4}}"
        raise SpaceError(f"{{{field}}} must give {expected}")
    return known[name], number if colon else 1
