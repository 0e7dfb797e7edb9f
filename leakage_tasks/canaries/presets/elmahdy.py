"""The canaries of Elmahdy, Inan and Sim, "Privacy leakage in text classification" (2022), section 7 and Table 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle

from leakage_tasks.canaries.alphabets import Alphabet, lines_of
from leakage_tasks.canaries.canary import Canary, Kind
from leakage_tasks.canaries.generate import check_repetitions, stream_of, supporting_canaries
from leakage_tasks.canaries.option_texts import supporting_error, supporting_number, supporting_of
from leakage_tasks.canaries.presets.registry import COUNTED, PresetRequest, register_preset
from leakage_tasks.canaries.presets.sentences import slotted, twins, words_of
from leakage_tasks.canaries.spaces import Filling, literal
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
    """Make ``count`` canaries of 10 random words, each followed by its supporting canaries, then ``controls``.

    The first 10 − ``unknown`` words are the canary's template, the last ``unknown`` its slots over ``words``; the ten
    words do not depend on ``unknown``. Supporting canaries have their canary's template and other values in the slots.
    Controls have other random words and are never planted. With ``sentences``, canaries are organic: each is a sentence
    with unknown last words; controls are sentences with other, random last words.

    Args:
        words: The words of the canaries.
        count: The number of planted canaries.
        label: The class of the canaries and controls.
        classes: The classes of supporting canaries.
        unknown: The number of unknown last words.
        repetitions: Numbers of copies, assigned to the canaries in turn.
        supporting: ``"all"`` for a supporting canary in every class but ``label``, ``"one"`` for one random other
            class, a number of random other classes, or ``"none"``.
        supporting_repetitions: The number of copies of each supporting canary.
        controls: The number of controls.
        sentences: Sentences for organic canaries.
        seed: The seed of all random choices.
        id_prefix: The text before every id.

    Returns:
        The canaries and controls.

    Raises:
        OptionError: For invalid arguments; the message names the command-line option.
    """
    _check(words, count, controls, unknown, repetitions, supporting_repetitions)
    others = [name for name in dict.fromkeys(classes) if name != label]
    chosen = _how_many(supporting, others, label)
    maker = _Maker(words, unknown, label, seed)
    names = [f"{id_prefix}canary-{index}" for index in range(count)]
    if sentences is None:
        made = maker.random(names, [])
    elif not sentences:
        raise OptionError("--sentences holds no sentence: give a file with one sentence per line")
    else:
        made = maker.organic(names, sentences)
        if count > len(sentences):
            raise OptionError(f"--count is {count}, but there are {len(sentences)} sentences: give more of them")
    copies = cycle(repetitions)
    planted = [replace(canary, repetitions=next(copies)) for canary in made]
    families = []
    for canary in planted:
        labels = others if chosen == len(others) else stream_of(seed, f"{canary.id}-classes").sample(others, chosen)
        families += [canary, *supporting_canaries(canary, labels, repetitions=supporting_repetitions, seed=seed)]
    if sentences is not None:
        models = planted or maker.organic([f"{id_prefix}canary-{index}" for index in range(len(sentences))], sentences)
        return families + twins(models, controls, seed=seed, prefix=id_prefix, taken=families)
    names = [f"{id_prefix}control-{index}" for index in range(controls)]
    others_made = maker.random(names, [canary.text for canary in families])
    return families + [replace(canary, repetitions=0, planted=False) for canary in others_made]


@register_preset("elmahdy", *COUNTED, "supporting_repetitions", "unknown", "sentences")
def _requested(request: PresetRequest) -> list[Canary]:
    options = request.pick("count", "unknown", "supporting_repetitions")
    if "sentences" in request.given:
        options["sentences"] = lines_of(request.given["sentences"], "sentences", OptionError)
    options["supporting"] = supporting_of(request.given.get("supporting", "all"))
    return elmahdy_canaries(request.alphabet("words"), classes=request.classes, **options, **request.shared)


@dataclass(frozen=True)
class _Maker:
    """Maker of canaries, with the arguments that all canaries of one call share."""

    words: Alphabet
    unknown: int
    label: str | None
    seed: int

    def random(self, names: Sequence[str], taken: Sequence[str]) -> list[Canary]:
        """Make a canary of random words for each name; all texts are distinct and not in ``taken``."""
        shown, made, known = set(taken), [], LENGTH - self.unknown
        for name in names:
            stream = stream_of(self.seed, name)
            text = ""
            while not text or text in shown:
                chosen = [stream.choice(self.words.values) for _ in range(LENGTH)]
                text = self.words.joiner.join(chosen)
            shown.add(text)
            head = "".join(literal(word) + self.words.joiner for word in chosen[:known])
            slots = f"{{{self.words.name}:{self.unknown}}}" if self.unknown > 1 else f"{{{self.words.name}}}"
            made.append(self._canary(name, head + slots, tuple(chosen[known:]), "random"))
        return made

    def organic(self, names: Sequence[str], sentences: Sequence[str]) -> list[Canary]:
        """Make a canary from a sentence for each name, until the sentences are used up."""
        made = []
        for name, sentence in zip(names, sentences, strict=False):
            first = len(words_of(sentence)) - self.unknown + 1
            made.append(self._canary(name, *slotted(sentence, self.words, first, self.unknown), "organic"))
        return made

    def _canary(self, name: str, template: str, secret: Filling, kind: Kind) -> Canary:
        return Canary(name, template, secret, kind=kind, alphabets={self.words.name: self.words}, label=self.label)


def _check(
    words: Alphabet, count: int, controls: int, unknown: int, repetitions: Sequence[int], supporting_repetitions: int
) -> None:
    if not 1 <= unknown <= LENGTH:
        raise OptionError(f"--unknown is {unknown}: give 1 to {LENGTH}, the words of a canary")
    if count < 0 or controls < 0 or not count + controls:
        raise OptionError(f"--count is {count} and --controls {controls}: make at least one canary")
    check_repetitions(repetitions, "10,100")
    if supporting_repetitions < 1:
        raise OptionError(f"--supporting-repetitions is {supporting_repetitions}: give 1 or more")
    if len(words) ** LENGTH < 2 * (count + controls):
        raise OptionError(f"the tokenizer has {len(words)} whole words, too few for canaries of {LENGTH}: use another")


def _how_many(supporting: str | int, others: Sequence[str], label: str | None) -> int:
    number = supporting_number(supporting, len(others))
    if number is None or number < 0:
        raise supporting_error(supporting)
    if number and (label is None or not others):
        raise OptionError(
            "--supporting needs the canaries' class and other classes: give --data and --label-column, or --label "
            "and --supporting-labels a,b,c, or --supporting 0"
        )
    if number > len(others):
        raise OptionError(
            f"--supporting is {number}, but there are {len(others)} classes other than {label!r}: give a lower number"
        )
    return number
