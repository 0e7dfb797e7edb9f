"""A small NLU set: three intents told by their verbs, slots by where they stand."""

from __future__ import annotations

import random

from leakage_tasks.data.utterances import Utterance

_NAMES = ("anna", "boris", "clara", "dmitri", "eve", "felix")
_PLACES = ("oslo", "new york", "rome", "the old port")
_FORMS = (
    ("call", ("please call {name}", "call {name} in {place} now", "phone {name}")),
    ("weather", ("weather in {place}", "will it rain in {place} now")),
    ("book", ("book a table for {name}", "a table in {place} please", "book {place} for {name}")),
)


def made(count: int, seed: int = 0) -> list[Utterance]:
    """``count`` utterances, the intents by turns."""
    stream = random.Random(seed)
    return [_one(*_FORMS[number % len(_FORMS)], stream) for number in range(count)]


def _one(intent: str, forms: tuple[str, ...], stream: random.Random) -> Utterance:
    words: list[str] = []
    tags: list[str] = []
    for part in stream.choice(forms).split():
        kind = part.strip("{}")
        held = stream.choice(_NAMES if kind == "name" else _PLACES).split() if part != kind else [part]
        words += held
        tags += [f"{'I' if place else 'B'}-{kind}" for place in range(len(held))] if part != kind else ["O"]
    return Utterance(tuple(words), tuple(tags), intent)
