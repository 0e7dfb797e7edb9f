"""Canaries made from sentences by replacing some of their words with slots."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.generate import stream_of
from leakage_tasks.canaries.spaces import Filling, Space, literal
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.nouns import counted

_WORD = re.compile(r"\w\S*?(?=[^\w\s]*(?:\s|$))")


def words_of(sentence: str) -> list[str]:
    """Return a sentence's words without final punctuation."""
    return _WORD.findall(sentence)


def slotted(sentence: str, alphabet: Alphabet, first: int, count: int = 1) -> tuple[str, Filling]:
    """Return the sentence as a template with some words as slots, and the values of the slots.

    The other text stays unchanged, including spaces. If the words fit a lower-case alphabet only in lower case, the
    sentence is lower-cased.

    Args:
        sentence: The sentence.
        alphabet: The alphabet of the slots.
        first: The number of the first word that becomes a slot, from 1.
        count: The number of slots.

    Raises:
        OptionError: For words that do not exist or are not in the alphabet.
    """
    words = list(_WORD.finditer(sentence))
    if not 1 <= first <= len(words) - count + 1:
        raise OptionError(
            f"{sentence!r} has {counted(len(words), 'word')}: it cannot have {counted(count, 'slot')} from word "
            f"{first} on"
        )
    chosen = words[first - 1 : first - 1 + count]
    missing = [word.group() for word in chosen if word.group() not in alphabet]
    if missing:
        lower = sentence.lower()
        fits = all(word.group().lower() in alphabet for word in chosen)
        if fits and lower != sentence and all(value == value.lower() for value in alphabet.values):
            return slotted(lower, alphabet, first, count)
        origin = dict(alphabet.origin).get("tokenizer")
        where = f"tokenizer {origin!r}" if origin else f"alphabet {alphabet.name!r}"
        raise OptionError(
            f"{where} has no whole token {missing[0]!r}, the target in {sentence!r}: "
            "choose another tokenizer, or leave the canary out"
        )
    template, end = "", 0
    for word in chosen:
        template += literal(sentence[end : word.start()]) + f"{{{alphabet.name}}}"
        end = word.end()
    return template + literal(sentence[end:]), tuple(word.group() for word in chosen)


def twins(
    canaries: Sequence[Canary], count: int, *, seed: int, prefix: str, taken: Iterable[Canary] = ()
) -> list[Canary]:
    """Make controls with the canaries' templates and labels in turn, each with an unused uniform secret.

    Args:
        canaries: The canaries whose templates are used.
        count: The number of controls.
        seed: The seed of the random secrets.
        prefix: The text before every id.
        taken: Further canaries whose texts must not be used.

    Raises:
        OptionError: If all fillings of a template occur in ``canaries`` or ``taken``.
    """
    shown = {canary.text for canary in (*canaries, *taken)}
    made = []
    for index in range(count):
        model = canaries[index % len(canaries)]
        name = f"{prefix}control-{index}"
        secret = _unseen(model.space, shown, stream_of(seed, name))
        if secret is None:
            raise OptionError(f"--controls: all fillings of {model.template!r} are planted: use a larger alphabet")
        made.append(replace(model, id=name, secret=secret, repetitions=0, planted=False))
    return made


def _unseen(space: Space, shown: Set[str], stream: random.Random) -> Filling | None:
    """Return a uniform filling whose text is not in ``shown``, or None if there is no such filling."""
    if space.size <= len(shown):
        free = [filling for filling in space.enumerate() if space.fill(filling) not in shown]
        return stream.choice(free) if free else None
    while True:
        filling = space.at(stream.randrange(space.size))
        if space.fill(filling) not in shown:
            return filling
