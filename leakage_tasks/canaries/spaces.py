"""Templates and the randomness space R they span: slots anywhere, sizes as exact integers."""

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
"""One string a slot, in the order of the slots."""

MAX_SLOTS = 10_000
"""The most slots one ``{name:n}`` may ask for."""

_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True)
class Space:
    """A template with its slots: ``pieces[0] slots[0] pieces[1] … slots[-1] pieces[-1]``.

    R is the product of the slots' alphabets; a filling is a tuple with one string a slot.
    """

    pieces: tuple[str, ...]
    slots: tuple[Alphabet, ...]

    @cached_property
    def size(self) -> int:
        """|R|, exact whatever its magnitude."""
        return prod(len(slot) for slot in self.slots)

    @cached_property
    def prefix(self) -> str:
        """The template's text before the first slot."""
        return self.pieces[0]

    @property
    def ends_early(self) -> bool:
        """Whether a filled text may be the beginning of another one; never wrongly false."""
        if all(len(slot.lengths) == 1 for slot in self.slots):
            return False
        # The end's first character stands as often in every text, where no value has it: the last one is in one place.
        end = self.pieces[-1][:1]
        return not end or any(end in value for slot in self.slots for value in slot.values)

    def fill(self, filling: Sequence[str]) -> str:
        """The template's text with ``filling`` in its slots. Raises SpaceError if it is outside R."""
        self.check(filling)
        return self.begin(filling)

    def begin(self, head: Sequence[str]) -> str:
        """The text up to the first slot that ``head``, the values of the slots before it, leaves open."""
        parts = [self.pieces[0]]
        for value, piece in zip(head, self.pieces[1:], strict=False):
            parts += (value, piece)
        return "".join(parts)

    def check(self, filling: Sequence[str]) -> None:
        """Raise SpaceError unless ``filling`` is in R."""
        if len(filling) != len(self.slots):
            raise SpaceError(
                f"a filling of {len(filling)} slots for a template of {len(self.slots)}: give one a slot",
                reason="has not one value for each slot",
            )
        for slot, value in zip(self.slots, filling, strict=True):
            slot.position(value)

    def index(self, filling: Sequence[str]) -> int:
        """Place of ``filling`` in :meth:`enumerate`'s order, from 0 (mixed radix, last slot fastest)."""
        self.check(filling)
        place = 0
        for slot, value in zip(self.slots, filling, strict=True):
            place = place * len(slot) + slot.position(value)
        return place

    def at(self, index: int) -> Filling:
        """The filling at place ``index``; inverse of :meth:`index`."""
        if not 0 <= index < self.size:
            raise SpaceError(f"index {index} is outside a space of {self.size} fillings")
        values = []
        for slot in reversed(self.slots):
            index, place = divmod(index, len(slot))
            values.append(slot.values[place])
        return tuple(reversed(values))

    def enumerate(self) -> Iterator[Filling]:
        """Every filling once, in the order of :meth:`index`."""
        return product(*(slot.values for slot in self.slots))

    def texts(self) -> Iterator[str]:
        """Every filled text, in the order of :meth:`enumerate`."""
        parts: list[tuple[str, ...]] = [(self.pieces[0],)]
        for slot, piece in zip(self.slots, self.pieces[1:], strict=True):
            parts += (slot.values, (piece,))
        return map("".join, product(*parts))

    def sample(self, n: int, seed: int | str) -> list[Filling]:
        """``n`` fillings, independent and uniform over R; the same for the same seed."""
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
    """Read ``"My pin is {digits:4}."`` into a :class:`Space`.

    ``{name}`` is one slot and ``{name:n}`` is n of them; ``{{`` and ``}}`` are braces. ``alphabets`` adds
    to (and may replace) the built-in ones. Raises SpaceError for what is no template, and, unless
    ``slots_needed`` is false, for one without a slot; they are about ``field``, if it is given.
    """
    told = f"{field or 'template'} {template!r}"
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
            raise SpaceError(f"{told}: {fault}", reason=f"has {fault}", subject=field)
        try:
            alphabet, count = _slot(match.group(1), known)
        except SpaceError as error:
            reason = "has a slot of an unknown space, or with a count that is no number"
            raise SpaceError(f"{told}: {error}", reason=reason, subject=field) from None
        for place in range(count):
            pieces.append(alphabet.joiner if place else piece)
            slots.append(alphabet)
        piece = ""
    if not slots and slots_needed:
        fault = "has no slot: put in one such as {digits:4}"
        raise SpaceError(f"{told} {fault}", reason=fault, subject=field)
    return Space((*pieces, piece + template[end:]), tuple(slots))


def slot_names(template: str) -> list[str]:
    """The names in a template's slots, in order, each once."""
    names = (match.group(1).partition(":")[0] for match in _FIELD.finditer(template) if match.group(1))
    return list(dict.fromkeys(names))


def literal(text: str) -> str:
    """Text as it stands in a template."""
    return text.replace("{", "{{").replace("}", "}}")


def _slot(field: str, known: Mapping[str, Alphabet]) -> tuple[Alphabet, int]:
    name, colon, count = field.partition(":")
    if name not in known:
        hint = "; {words}, {terms} and {tokens} are a tokenizer's: name one" if name in TOKENIZER_KINDS else ""
        raise SpaceError(f"unknown space {name!r}: use one of {', '.join(known)}{hint}")
    number = int(count) if count.isdecimal() and len(count) <= len(str(MAX_SLOTS)) else 0
    if colon and not 0 < number <= MAX_SLOTS:
        expected = f"a count from 1 to {MAX_SLOTS}, as in {{{name}:4}}"
        raise SpaceError(f"{{{field}}} must give {expected}")
    return known[name], number if colon else 1
