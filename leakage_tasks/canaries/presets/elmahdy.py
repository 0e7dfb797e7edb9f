"""The canaries of Elmahdy, Inan and Sim, "Privacy leakage in text classification" (2022), section 7 and Table 1."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.generate import supporting_canaries
from leakage_tasks.canaries.presets.sentences import slotted, twins, words_of
from leakage_tasks.canaries.spaces import literal
from leakage_tasks.core.errors import OptionError

LENGTH = 10
REPETITIONS = (100,)


def elmahdy_canaries(
    words: Alphabet,
    count: int = 1,
    *,
    label: str | None = None,
    classes: Sequence[str] = (),
    unknown: int = 1,
    repetitions: Sequence[int] = REPETITIONS,
    supporting: str | int = "all",
    supporting_repetitions: int = 1,
    controls: int = 0,
    sentences: Sequence[str] | None = None,
    seed: int = 0,
    id_prefix: str = "",
) -> list[Canary]:
    """``count`` canaries of 10 random words, each followed by its supporting ones, then ``controls``.

    The first 10 − ``unknown`` words are the canary's own template, the last ``unknown`` its slots over ``words``;
    the ten words are the same whatever ``unknown`` is. ``repetitions`` are dealt out in turn. Supporting canaries
    keep the template and fill the slots anew, one in every class of ``classes`` but ``label`` (``"all"``), in one
    other class (``"one"``), in so many (a number), or there are none (``"none"``); which classes is random.
    Controls have random words of their own and are never planted. With ``sentences`` canaries are organic instead:
    a sentence each, its last words unknown; controls are sentences with other, random last words.

    Raises OptionError, naming the command line's option, for what cannot be.
    """
    _check(words, count, controls, unknown, repetitions, supporting_repetitions)
    others = [name for name in dict.fromkeys(classes) if name != label]
    chosen = _how_many(supporting, others, label)
    if sentences is not None and not sentences:
        raise OptionError("--sentences holds no sentence: give a file with one a line")
    if sentences is None:
        makers = [f"{id_prefix}canary-{place}" for place in range(count)]
        planted = _random_canaries(words, makers, unknown, label, seed, [])
    else:
        planted = _organic_canaries(words, sentences[:count], unknown, label, id_prefix)
        if count > len(sentences):
            raise OptionError(f"--count is {count}, but there are {len(sentences)} sentences: give more of them")
    planted = [
        replace(canary, repetitions=repetitions[place % len(repetitions)], planted=True)
        for place, canary in enumerate(planted)
    ]
    families = []
    for canary in planted:
        labels = others if chosen == len(others) else _stream(seed, f"{canary.id}-classes").sample(others, chosen)
        families += [canary, *supporting_canaries(canary, labels, repetitions=supporting_repetitions, seed=seed)]
    return families + _controls(words, families, planted, controls, unknown, label, sentences, seed, id_prefix)


def _controls(
    words: Alphabet,
    families: Sequence[Canary],
    planted: Sequence[Canary],
    count: int,
    unknown: int,
    label: str | None,
    sentences: Sequence[str] | None,
    seed: int,
    id_prefix: str,
) -> list[Canary]:
    if sentences is not None:
        own = planted or _organic_canaries(words, sentences, unknown, label, id_prefix)
        return twins(own, count, seed=seed, prefix=id_prefix, taken=families)
    names = [f"{id_prefix}control-{place}" for place in range(count)]
    made = _random_canaries(words, names, unknown, label, seed, [canary.text for canary in families])
    return [replace(canary, repetitions=0, planted=False) for canary in made]


def _random_canaries(
    words: Alphabet, names: Sequence[str], unknown: int, label: str | None, seed: int, taken: Sequence[str]
) -> list[Canary]:
    shown, made = set(taken), []
    for name in names:
        stream = _stream(seed, name)
        text = ""
        while not text or text in shown:
            chosen = [stream.choice(words.values) for _ in range(LENGTH)]
            text = words.joiner.join(chosen)
        shown.add(text)
        head = "".join(literal(word) + words.joiner for word in chosen[: LENGTH - unknown])
        template = f"{head}{{{words.name}:{unknown}}}" if unknown > 1 else f"{head}{{{words.name}}}"
        secret = tuple(chosen[LENGTH - unknown :])
        made.append(Canary(name, template, secret, alphabets={words.name: words}, label=label))
    return made


def _organic_canaries(
    words: Alphabet, sentences: Sequence[str], unknown: int, label: str | None, id_prefix: str
) -> list[Canary]:
    made = []
    for place, sentence in enumerate(sentences):
        first = len(words_of(sentence)) - unknown + 1
        template, secret = slotted(sentence, words, first, unknown)
        name = f"{id_prefix}canary-{place}"
        made.append(Canary(name, template, secret, kind="organic", alphabets={words.name: words}, label=label))
    return made


def _stream(seed: int, name: str) -> random.Random:
    return random.Random(f"canary:{seed}:{name}")


def _check(
    words: Alphabet, count: int, controls: int, unknown: int, repetitions: Sequence[int], supporting_repetitions: int
) -> None:
    if not 1 <= unknown <= LENGTH:
        raise OptionError(f"--unknown is {unknown}: give 1 to {LENGTH}, the words of a canary")
    if count < 0 or controls < 0 or not count + controls:
        raise OptionError(f"--count is {count} and --controls {controls}: ask for one canary or more")
    if not repetitions or min(repetitions) < 1:
        given = ",".join(map(str, repetitions))
        raise OptionError(f"--repetitions is {given!r}: give whole numbers of 1 or more, such as 10,100")
    if supporting_repetitions < 1:
        raise OptionError(f"--supporting-repetitions is {supporting_repetitions}: give 1 or more")
    if len(words) ** LENGTH < 2 * (count + controls):
        raise OptionError(f"the tokenizer has {len(words)} whole words, too few for canaries of {LENGTH}: use another")


def _how_many(supporting: str | int, others: Sequence[str], label: str | None) -> int:
    """The number of supporting canaries of each canary."""
    known = {"none": 0, "one": 1, "all": max(1, len(others))}
    number = known.get(supporting) if isinstance(supporting, str) else supporting
    if number is None or number < 0:
        raise OptionError(f"--supporting is {supporting!r}: give all, one, none or a number of classes")
    if number and (label is None or not others):
        raise OptionError(
            "--supporting needs the canaries' class and others: give --data and --label-column, or --label and "
            "--supporting-labels a,b,c, or --supporting none"
        )
    if number > len(others):
        raise OptionError(f"--supporting is {number}, but there are {len(others)} classes beside {label!r}: give fewer")
    return number
