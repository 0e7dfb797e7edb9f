"""Near copies: a canary's secret among other words, which no search for exact duplicates finds."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.spaces import literal, slot_names
from leakage_tasks.core.errors import OptionError

FEWEST_WORDS = 100
"""That the data must have, for near copies that differ from each other."""
_WORD = re.compile(r"[^\W\d_]+")
_SLOT = re.compile(r"\{\{|\}\}|\{[^{}]*\}")


def with_near_copies(canaries: Sequence[Canary], changed: int, words: Sequence[str], seed: int) -> list[Canary]:
    """``canaries``, each planted one as one exact copy and a near copy for each of its other repetitions.

    A near copy is a canary of kind ``near`` that supports its own: the same secret, in a template of which ``changed``
    words are replaced by others of ``words`` (Shilov et al., "The mosaic memory of large language models", 2024,
    arXiv:2405.15523, who replace tokens of a copy anywhere; here the secret stays, as its exposure is what is asked).
    Raises OptionError for a template with fewer words, for too few ``words``, and where there are near copies already.
    """
    if changed < 1:
        raise OptionError(f"--near-copies is {changed}: give the number of words to change in a copy, 1 or more")
    if any(canary.kind == "near" for canary in canaries):
        raise OptionError("--near-copies: the manifest has near copies already: plant it without the option")
    if len(words) < FEWEST_WORDS:
        raise OptionError(
            f"--near-copies: the data have {len(words)} words that occur twice, {FEWEST_WORDS} are needed"
        )
    found: list[Canary] = []
    for canary in canaries:
        if not canary.planted or canary.kind in ("natural", "supporting"):
            found.append(canary)
            continue
        found.append(replace(canary, repetitions=1))
        taken = {canary.template}
        for number in range(1, canary.repetitions):
            found.append(_near(canary, f"{canary.id}-near-{number}", changed, words, seed, taken))
    return found


def near_counts(canaries: Iterable[Canary]) -> Counter[str]:
    """How many near copies each canary has, by its id."""
    return Counter(canary.supports for canary in canaries if canary.kind == "near" and canary.supports is not None)


def _near(canary: Canary, name: str, changed: int, words: Sequence[str], seed: int, taken: set[str]) -> Canary:
    stream = random.Random(f"near:{seed}:{name}")
    places = _places(canary.template)
    if len(places) < changed:
        raise OptionError(
            f"--near-copies is {changed}: {canary.id} has {len(places)} words around its secret: give a lower number"
        )
    template = canary.template
    while template in taken:
        chosen = sorted(stream.sample(places, changed), reverse=True)
        template = canary.template
        for start, end in chosen:
            old = template[start:end]
            new = stream.choice([word for word in words if word != old.lower()])
            template = template[:start] + literal(new.capitalize() if old[0].isupper() else new) + template[end:]
    taken.add(template)
    used = {slot: canary.alphabets[slot] for slot in slot_names(template) if slot in canary.alphabets}
    return replace(
        canary, id=name, template=template, alphabets=used, known=None, repetitions=1, kind="near", supports=canary.id
    )


def _places(template: str) -> list[tuple[int, int]]:
    """Where the template has whole words of letters, none of which touches a slot."""
    slots = [match.span() for match in _SLOT.finditer(template)]
    ends = {place for span in slots for place in span}
    inside = [range(*span) for span in slots]
    spans = [match.span() for match in _WORD.finditer(template)]
    return [
        (start, end) for start, end in spans if not {start, end} & ends and not any(start in each for each in inside)
    ]
