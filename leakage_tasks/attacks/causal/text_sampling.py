"""Extraction from a model that only writes: many texts drawn, and how many of them hold the secret."""

from __future__ import annotations

import math
from collections import Counter

from leakage_tasks.attacks.finding import GUESSES, AttackResult, Guess, grade_guesses
from leakage_tasks.attacks.registry import AttackRequest, register
from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.option import Option
from leakage_tasks.targets.protocols import WritesTexts
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig

TEXTS = Option("texts", int, 20, "how many texts are drawn from the model after each canary's beginning", minimum=1)
TEMPERATURE = Option(
    "temperature", float, 1.0, "what texts are drawn at; 1 is the model's own distribution", minimum=1e-3
)
NO_TEXT = "choose a model that generates text, or has logits"


@register(
    "sample-text",
    "extraction",
    WritesTexts,
    auto=2,
    affordable=lambda request: request.target.only_writes,
    remedy=NO_TEXT,
    options=(TEXTS, TEMPERATURE),
)
def sample_text(request: AttackRequest) -> AttackResult:
    """The fillings that a model writes most often, and how often it writes the secret.

    ``texts`` independent continuations of the text before the first slot are drawn and read slot by slot. How many of
    them hold the secret is binomial, with the probability of extraction by one query (Hayes et al., "Measuring
    memorization in language models via probabilistic extraction", 2024, arXiv:2410.19482: (n, p)-discoverable).
    A guess is scored by −log2 of its share. ``budget`` bounds ``texts``. Raises TargetError for a template that begins
    with its secret, and for a model that cannot be drawn from.
    """
    space, secret = request.canary.attack_space, request.canary.secret
    number = min(request.values[TEXTS.name], request.budget)
    scheme = DecodingConfig(temperature=request.values[TEMPERATURE.name], top_p=1.0)
    texts = request.target.write(opening(space, "sample-text"), longest(space), number, scheme, request.seed)
    read = [read_slots(space, text) for text in texts]
    counts = Counter(values for values in read if all(values))
    best = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:GUESSES]
    guesses = [Guess(values, space.fill(values), -math.log2(count / number)) for values, count in best]
    found = grade_guesses(guesses, secret)
    return {
        **found,
        "model_calls": number,
        "extra": {"nodes": 0, "texts": number, "hits": counts[secret], "ranked": len(counts)},
    }


def opening(space: Space, attack: str) -> str:
    """What a model that only writes goes on from. Raises TargetError where nothing stands before the secret."""
    if not space.prefix.strip():
        raise TargetError(
            f"attack={attack} needs text before the first slot on a model that only writes: leave known=all, or put "
            "some into the template"
        )
    return space.prefix.rstrip()


def longest(space: Space) -> int:
    """Characters of the longest filling and what stands around its slots."""
    return sum(max(map(len, slot.values)) for slot in space.slots) + sum(map(len, space.pieces[1:])) + 1


def read_slots(space: Space, text: str) -> Filling:
    """The values of the slots in what follows :func:`opening`; empty where the text lacks one of the alphabet."""
    text = text.removeprefix(space.prefix[len(space.prefix.rstrip()) :])
    values: list[str] = []
    for slot, piece in zip(space.slots, space.pieces[1:], strict=True):
        values.append(max((value for value in slot.values if text.startswith(value)), key=len, default=""))
        text = text[len(values[-1]) :].removeprefix(piece)
    return tuple(values)
