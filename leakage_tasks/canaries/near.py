"""Near copies: texts with a canary's secret among other words, which a search for exact duplicates does not find."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.spaces import literal, slot_names
from leakage_tasks.core.errors import OptionError

FEWEST_WORDS = 100
"""Minimum number of words that the data must have, so that near copies differ from each other."""
_WORD = re.compile(r"[^\W\d_]+")
_SLOT = re.compile(r"\{\{|\}\}|\{[^{}]*\}")


def with_near_copies(canaries: Sequence[Canary], changed: int, words: Sequence[str], seed: int) -> list[Canary]:
    """Return ``canaries``, with every repetition of a planted canary but the first replaced by a near copy.

    A near copy is a canary of kind ``near`` with its canary's secret and a template in which some words are replaced.
    (Shilov et al., "The mosaic memory of large language models", 2024, arXiv:2405.15523, replace tokens anywhere in a
    copy; here the secret stays unchanged, because its exposure is measured.)

    Args:
        canaries: The canaries of a manifest.
        changed: The number of words to replace in each copy.
        words: The words that can replace others, in lower case.
        seed: The seed of the random choices.

    Raises:
        OptionError: For a template with fewer words or fewer different near copies than needed, for too few ``words``,
            and if there are near copies already.
    """
    if changed < 1:
        raise OptionError(f"--near-copies is {changed}: give the number of words to change in a copy, 1 or more")
    if any(canary.kind == "near" for canary in canaries):
        raise OptionError("--near-copies: the manifest has near copies already: plant it without the option")
    if len(words) < FEWEST_WORDS:
        raise OptionError(
            f"--near-copies: the data have {len(words)} words that occur twice, {FEWEST_WORDS} are needed: "
            "plant into more data, or without the option"
        )
    result: list[Canary] = []
    for canary in canaries:
        if not canary.planted or canary.kind in ("natural", "supporting"):
            result.append(canary)
            continue
        _check_number(canary, changed, words)
        result.append(replace(canary, repetitions=1))
        taken = {canary.template}
        for number in range(1, canary.repetitions):
            result.append(_near_copy(canary, f"{canary.id}-near-{number}", changed, words, seed, taken))
    return result


def near_counts(canaries: Iterable[Canary]) -> Counter[str]:
    """Return the number of near copies of each canary, by its id."""
    return Counter(canary.supports for canary in canaries if canary.kind == "near" and canary.supports is not None)


def _check_number(canary: Canary, changed: int, words: Sequence[str]) -> None:
    """Raise OptionError if the canary has fewer different near copies than its repetitions need."""
    needed, spans = canary.repetitions - 1, _word_spans(canary.template)
    if not needed:
        return
    if len(spans) < changed:
        raise OptionError(
            f"--near-copies is {changed}: {canary.id} has {len(spans)} words around its secret: give a lower number"
        )
    # Entry k is the number of texts in which k of the words so far are replaced.
    known, texts = set(words), [1] + [0] * changed
    for start, end in spans:
        others = len(known) - (canary.template[start:end].lower() in known)
        texts = [1, *(more + others * fewer for fewer, more in pairwise(texts))]
    if texts[changed] < needed:
        raise OptionError(
            f"--near-copies is {changed}: {canary.id} needs {needed:,} near copies, and {len(known):,} words of the "
            f"data make {texts[changed]:,}: give a higher number, more data, or canaries with fewer repetitions"
        )


def _near_copy(canary: Canary, name: str, changed: int, words: Sequence[str], seed: int, taken: set[str]) -> Canary:
    stream = random.Random(f"near:{seed}:{name}")
    spans = _word_spans(canary.template)
    template = canary.template
    while template in taken:
        chosen = sorted(stream.sample(spans, changed), reverse=True)
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


def _word_spans(template: str) -> list[tuple[int, int]]:
    """Return the spans of the template's words that consist of letters and do not touch a slot."""
    slots = [match.span() for match in _SLOT.finditer(template)]
    edges = {edge for span in slots for edge in span}
    inside = [range(*span) for span in slots]
    spans = [match.span() for match in _WORD.finditer(template)]
    return [
        (start, end) for start, end in spans if not {start, end} & edges and not any(start in slot for slot in inside)
    ]
