"""Extraction from a model that only generates text: draw many texts and count those that contain the secret."""

from __future__ import annotations

import math
from collections import Counter

from leakage_tasks.attacks.finding import GUESSES, AttackResult, Guess, grade_guesses
from leakage_tasks.attacks.registry import AttackRequest, register
from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.option import Option
from leakage_tasks.targets.calls import Calls
from leakage_tasks.targets.protocols import WritesTexts
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig

TEXTS = Option("texts", int, 20, "number of texts that the model writes after each canary's beginning", minimum=1)
TEMPERATURE = Option(
    "temperature", float, 1.0, "the sampling temperature; 1 is the model's own distribution", minimum=1e-3
)
NO_TEXT = "choose a model that generates text, or has logits"


def _most_calls(request: AttackRequest) -> Calls:
    tokens = longest(request.canary.attack_space)
    return Calls(steps=min(request.values[TEXTS.name], request.budget) * tokens, rounds=tokens)


@register(
    "sample-text",
    "extraction",
    WritesTexts,
    auto=2,
    affordable=lambda request: request.target.only_writes,
    remedy=NO_TEXT,
    options=(TEXTS, TEMPERATURE),
    classes=["regurgitation"],
    most_calls=_most_calls,
)
def sample_text(request: AttackRequest) -> AttackResult:
    """Return the fillings that a model generates most often, and the number of texts with the secret.

    The model generates ``texts`` independent continuations of the text before the first slot, which are split into
    slots. The number of texts with the secret is binomial; its success probability is that of extraction by one query
    (Hayes et al., "Measuring memorization in language models via probabilistic extraction", 2024, arXiv:2410.19482: (n,
    p)-discoverable). A guess's score is −log2 of its share. ``budget`` bounds ``texts``. Raises TargetError for a
    template that begins with its secret, and for a model that cannot sample.
    """
    space, secret = request.canary.attack_space, request.canary.secret
    number = min(request.values[TEXTS.name], request.budget)
    scheme = DecodingConfig(temperature=request.values[TEMPERATURE.name], top_p=1.0)
    texts = request.target.write(opening(space, "sample-text"), longest(space), number, scheme, request.seed)
    read = [read_filling(space, text, secret) for text in texts]
    counts = Counter(values for values in read if all(values))
    best = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:GUESSES]
    guesses = [Guess(values, space.fill(values), -math.log2(count / number)) for values, count in best]
    graded = grade_guesses(guesses, secret)
    return {
        **graded,
        "model_calls": number,
        "extra": {"nodes": 0, "texts": number, "hits": counts[secret], "ranked": len(counts)},
    }


def opening(space: Space, attack: str) -> str:
    """Return the prompt for a model that only generates text. Raises TargetError if no text precedes the secret."""
    if not space.prefix.strip():
        raise TargetError(
            f"attack={attack} needs text before the first slot on a model that only generates text: leave known=all, "
            "or add text before the secret to the template"
        )
    return space.prefix.rstrip()


def longest(space: Space) -> int:
    """Return the length in characters of the longest filling with the text between and after its slots."""
    return sum(max(map(len, slot.values)) for slot in space.slots) + sum(map(len, space.pieces[1:])) + 1


def read_filling(space: Space, text: str, secret: Filling) -> Filling:
    """Return the secret if the text after :func:`opening` begins with it, otherwise :func:`read_slots`.

    Values of several lengths without text between them, such as tokens, can be read in several ways. The secret's way
    is one of them, although a longer value may begin in one of its slots.
    """
    continued, head = _continued(space, text), space.begin(secret[:-1])[len(space.prefix) :]
    found = continued.startswith(head) and _longest_value(space.slots[-1], continued[len(head) :]) == secret[-1]
    return secret if found else read_slots(space, text)


def read_slots(space: Space, text: str) -> Filling:
    """Return the slots' values in the text after :func:`opening`; empty for a slot without a value of its alphabet."""
    text = _continued(space, text)
    values: list[str] = []
    for slot, piece in zip(space.slots, space.pieces[1:], strict=True):
        values.append(_longest_value(slot, text))
        text = text[len(values[-1]) :].removeprefix(piece)
    return tuple(values)


def _continued(space: Space, text: str) -> str:
    """Return the text from the first slot on: without the white space that :func:`opening` leaves out."""
    return text.removeprefix(space.prefix[len(space.prefix.rstrip()) :])


def _longest_value(slot: Alphabet, text: str) -> str:
    """Return the longest value of a slot with which the text begins, or an empty text."""
    return max((value for value in slot.values if text.startswith(value)), key=len, default="")
