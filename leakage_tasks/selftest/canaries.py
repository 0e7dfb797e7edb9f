"""The self-test's own canaries: fresh, never planted, and spaces small enough to be scored as a whole."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from math import prod

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.generate import make_canaries
from leakage_tasks.canaries.spaces import Filling, Space, literal

TEMPLATE, SOURCE = "The random number is {digits:9}.", "The number is random."
WORD_TEMPLATE = "the random number is {digit_words:9}"
"""For classifiers and taggers, whose words are read one by one."""
SMALL = 256
"""Fillings of a space that is scored as a whole."""


def fresh_canaries(
    template: str, number: int, seed: int, source: str | None = None, labels: Sequence[str] = ()
) -> list[Canary]:
    """``number`` canaries that were never planted; ``labels`` are dealt out in turn. Raises OptionError, SpaceError."""
    with warnings.catch_warnings():
        # A space of fewer fillings than canaries makes some alike, which the test of chance allows for.
        warnings.simplefilter("ignore")
        made = make_canaries(template, 0, controls=number, seed=seed, source=source, id_prefix="selftest-")
    return [replace(canary, label=labels[n % len(labels)] if labels else None) for n, canary in enumerate(made)]


def narrowed(canary: Canary, most: int = SMALL) -> Canary:
    """The canary with only so many of its last slots open that no more than ``most`` fillings are left."""
    slots = canary.space.slots
    fixed = next((n for n in range(len(slots)) if prod(map(len, slots[n:])) <= most), len(slots) - 1)
    source = canary.source_space
    return replace(
        canary,
        template=_template(canary.space, canary.secret, fixed),
        secret=canary.secret[fixed:],
        alphabets={slot.name: slot for slot in slots[fixed:]},
        source=_template(source, canary.secret, fixed) if source is not None and source.slots else canary.source,
    )


def others_of(canary: Canary, number: int, seed: int) -> list[Canary]:
    """Canaries of one space, with ``number`` secrets that differ as far as there are so many."""
    fillings = dict.fromkeys(canary.space.sample(4 * number, f"{seed}:{canary.id}:others"))
    return [replace(canary, id=f"{canary.id}-{n}", secret=each) for n, each in enumerate(list(fillings)[:number])]


def _template(space: Space, secret: Filling, fixed: int) -> str:
    """A template in which the first ``fixed`` slots hold the secret's values and the others are open."""
    parts = [literal(space.pieces[0])]
    for place, (slot, piece) in enumerate(zip(space.slots, space.pieces[1:], strict=True)):
        parts += (literal(secret[place]) if place < fixed else f"{{{slot.name}}}", literal(piece))
    return "".join(parts)
