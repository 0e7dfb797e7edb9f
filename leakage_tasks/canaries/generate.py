"""Generation of canaries: planted canaries, their supporting canaries, and controls, which are never planted."""

from __future__ import annotations

import hashlib
import random
import re
import warnings
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from math import prod

from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.spaces import Filling, parse_template, slot_names
from leakage_tasks.core.errors import OptionError

UNIQUE = "{unique}"
_UNIQUE = re.compile(r"\{\{|\}\}|\{unique\}")
PUBLIC = ("The random number of {unique} is {digits:9}.", "The random number of {unique}: {digits:9}.")
"""Templates of the canaries in the README (seed 0) and in the demo; their secrets are public."""
PUBLIC_NUMBER = 16
CONSONANTS = "bdfgklmnprstvz"
VOWELS = "aeiou"
SYLLABLES, NONCE_SYLLABLES = 3, 4


def make_canaries(
    template: str,
    count: int,
    *,
    repetitions: Sequence[int] = (1,),
    controls: int = 0,
    seed: int = 0,
    alphabets: Mapping[str, Alphabet] | None = None,
    known: str | None = None,
    label: str | None = None,
    tags: Sequence[str] | None = None,
    source: str | None = None,
    supporting: int = 0,
    supporting_labels: Sequence[str] | None = None,
    supporting_slots: int | None = None,
    id_prefix: str = "",
    nonce: str = "",
) -> list[Canary]:
    """Make ``count`` planted canaries, each followed by its supporting canaries, then ``controls`` never-planted ones.

    ``{unique}`` becomes a word of its own in each canary. Secrets are uniform over the template's space, and distinct
    if the space is large enough. Each canary draws from its own random stream, so a larger ``count`` or ``controls``
    does not change earlier canaries. A supporting canary (Elmahdy et al., "Privacy leakage in text classification")
    keeps its canary's values except the last ones, which are random, and has another class. Warns if several
    canaries share a prefix and would compete for it.

    Args:
        template: The text around the secret, with slots.
        count: The number of planted canaries.
        repetitions: Numbers of copies, assigned to the canaries in turn.
        controls: The number of canaries that are never planted.
        seed: The seed of all random streams.
        alphabets: Alphabets in addition to the built-in ones, by name.
        known: The part of the template that the attacker knows (default: all).
        label: The class of the canaries and controls.
        tags: A slot tag for each word of the text.
        source: The sentence that a translation model reads (see :class:`Canary`).
        supporting: The number of supporting canaries of each canary.
        supporting_labels: The classes that supporting canaries get in turn.
        supporting_slots: The number of last slots that supporting canaries change (default: half of them).
        id_prefix: The text before every id.
        nonce: The beginning of every unique word.

    Raises:
        OptionError: If the numbers or classes do not fit.
        SpaceError: If the template is invalid.

    Examples:
        >>> from leakage_tasks import make_canaries
        >>> pins = make_canaries("pin of {unique}: {digits:4}", 2, controls=1, seed=1)
        >>> [(pin.id, pin.repetitions) for pin in pins]
        [('canary-0', 1), ('canary-1', 1), ('control-0', 0)]
    """
    tagged = None if tags is None else tuple(tags)
    maker = _Maker(template, seed, alphabets or {}, known, label, tagged, source, id_prefix, nonce)
    check_counts(count, controls, supporting, repetitions)
    _check_unique(template, maker.alphabets)
    planted = [maker.make(f"canary-{index}", repetitions[index % len(repetitions)]) for index in range(count)]
    families = planted
    if supporting or supporting_labels or supporting_slots is not None:
        labels = list(islice(cycle(_other_classes(label, supporting, supporting_labels)), supporting))
        changed = _changed_slots(len(planted[0].secret) if planted else 1, supporting_slots)
        families = []
        for canary in planted:
            families += [canary, *supporting_canaries(canary, labels, changed=changed, seed=seed)]
        maker.secrets.update(family.secret for family in families if family.supports is not None)
    twins = [maker.make(f"control-{index}", 0) for index in range(controls)]
    _check_controls(families, twins)
    if source is None or UNIQUE not in source:
        _warn(template, families + twins)
    return families + twins


@dataclass
class _Maker:
    """Maker of the canaries of one call, with the words and secrets used so far."""

    template: str
    seed: int
    alphabets: Mapping[str, Alphabet]
    known: str | None
    label: str | None
    tags: tuple[str, ...] | None
    source: str | None
    id_prefix: str
    nonce: str
    words: set[str] = field(default_factory=set)
    secrets: set[Filling] = field(default_factory=set)

    def make(self, name: str, repetitions: int) -> Canary:
        """Make a planted canary, or a control if ``repetitions`` is 0."""
        stream = stream_of(self.seed, self.id_prefix + name)
        suffix = unique_word(stream, self.words)
        self.words.add(suffix)
        word = self.nonce + suffix
        template = _put_word(self.template, word)
        used = {key: self.alphabets[key] for key in slot_names(template) if key in self.alphabets}
        space = parse_template(template, used)
        if len(self.secrets) >= space.size:
            self.secrets.clear()
        secret = space.at(stream.randrange(space.size))
        while secret in self.secrets:
            secret = space.at(stream.randrange(space.size))
        self.secrets.add(secret)
        return Canary(
            id=self.id_prefix + name,
            template=template,
            secret=secret,
            repetitions=repetitions,
            planted=repetitions > 0,
            alphabets=used,
            known=None if self.known is None else _put_word(self.known, word),
            label=self.label,
            tags=self.tags,
            source=None if self.source is None else _put_word(self.source, word),
        )


def supporting_canaries(
    canary: Canary, labels: Sequence[str], *, changed: int | None = None, repetitions: int | None = None, seed: int = 0
) -> list[Canary]:
    """Make a copy of ``canary`` for each of ``labels``, with other values in its last slots.

    The new values are random, never the canary's own, and distinct while enough values exist (Elmahdy et al., section
    7).

    Args:
        canary: The canary to support.
        labels: The classes of the supporting canaries.
        changed: The number of last slots with other values (default: all).
        repetitions: The number of copies of each supporting canary (default: the canary's).
        seed: The seed of the random values.

    Raises:
        OptionError: If every changed slot has a single value.
    """
    unchanged = 0 if changed is None else len(canary.secret) - changed
    slots = canary.space.slots[unchanged:]
    others = prod(len(slot) for slot in slots) - 1
    if not others:
        raise OptionError("--supporting: the last slots have no other values: choose a larger alphabet")
    copies = repetitions or canary.repetitions
    usual = replace(canary, repetitions=copies, kind="supporting", supports=canary.id)
    taken: set[Filling] = {canary.secret}
    made = []
    for index, label in enumerate(labels):
        name = f"{canary.id}-supporting-{index}"
        stream = stream_of(seed, name)
        if len(taken) > others:
            taken = {canary.secret}
        secret = canary.secret
        while secret in taken:
            secret = canary.secret[:unchanged] + tuple(stream.choice(slot.values) for slot in slots)
        taken.add(secret)
        made.append(replace(usual, id=name, secret=secret, label=label))
    return made


def stream_of(seed: int, name: str) -> random.Random:
    """Return the random stream of the canary with this id."""
    return random.Random(f"canary:{seed}:{name}")


def public(canaries: Iterable[Canary]) -> bool:
    """Return True if this package's README or demo publishes the text of one of ``canaries``."""
    made = (make_canaries(template, PUBLIC_NUMBER, controls=PUBLIC_NUMBER, seed=0) for template in PUBLIC)
    shared = {canary.text for group in made for canary in group}
    return any(canary.text in shared for canary in canaries)


def unique_word(stream: random.Random, taken: Container[str]) -> str:
    """Draw a word of consonant-vowel syllables that is not in ``taken``.

    The word has three syllables (343,000 words), or more if ``taken`` contains most of these words.
    """
    tries = 0
    while True:
        syllables = SYLLABLES + tries // 100
        word = "".join(stream.choice(CONSONANTS) + stream.choice(VOWELS) for _ in range(syllables))
        if word not in taken:
            return word
        tries += 1


def nonce_of(seed: int) -> str:
    """Return the word that ids and unique words of a manifest share, one of 24 million; the seed determines it."""
    stream = random.Random(hashlib.sha256(f"nonce:{seed}".encode()).digest())
    return "".join(stream.choice(CONSONANTS) + stream.choice(VOWELS) for _ in range(NONCE_SYLLABLES))


def _put_word(template: str, word: str) -> str:
    return _UNIQUE.sub(lambda match: word if match.group() == UNIQUE else match.group(), template)


def check_counts(count: int, controls: int, supporting: int, repetitions: Sequence[int]) -> None:
    """Raise OptionError for negative numbers of canaries, for no canaries, and for repetitions below 1."""
    for name, number in (("--count", count), ("--controls", controls), ("--supporting", supporting)):
        check_number(name, number)
    if not count + controls:
        raise OptionError("--count and --controls are both 0: make at least one canary")
    check_repetitions(repetitions, "1,10")


def check_number(option: str, number: int) -> None:
    """Raise OptionError for a negative number."""
    if number < 0:
        raise OptionError(f"{option} is {number}: give 0 or more")


def check_repetitions(repetitions: Sequence[int], example: str) -> None:
    """Raise OptionError if there are no repetitions or a number is below 1; the message shows ``example``."""
    if not repetitions or min(repetitions) < 1:
        written = ",".join(map(str, repetitions))
        raise OptionError(f"--repetitions is {written!r}: give whole numbers of 1 or more, such as {example}")


def _other_classes(label: str | None, supporting: int, labels: Sequence[str] | None) -> list[str]:
    if not supporting:
        raise OptionError(
            "--supporting-labels and --supporting-slots go with --supporting N: give the number of supporting canaries"
        )
    if label is None:
        raise OptionError("--supporting needs the canaries' own class: give --label")
    others = [name for name in dict.fromkeys(labels or ()) if name != label]
    if not others:
        raise OptionError(f"--supporting needs classes other than {label!r}: name them with --supporting-labels a,b,c")
    return others


def _changed_slots(slots: int, changed: int | None) -> int:
    if changed is None:
        return max(1, slots // 2)
    if not 1 <= changed <= slots:
        raise OptionError(f"--supporting-slots is {changed}: give 1 to {slots}, the template's slots")
    return changed


def _check_unique(template: str, alphabets: Mapping[str, Alphabet]) -> None:
    if "unique" in alphabets:
        raise OptionError("a space cannot be called 'unique', which is each canary's own word: rename it")
    if "unique" in slot_names(_put_word(template, "x")):
        raise OptionError(f"template {template!r}: {{unique}} is one word and takes no count: write {{unique}}")
    # Parse the user's own template first, so that a message about it quotes it unchanged.
    parse_template(template, {**alphabets, "unique": Alphabet("unique", ("x",))})


def _check_controls(planted: Sequence[Canary], controls: Sequence[Canary]) -> None:
    texts = {canary.text for canary in planted}
    for control in controls:
        if control.text in texts:
            raise OptionError(
                f"the space holds {control.space.size} fillings, too few to keep {len(controls)} controls apart from "
                f"{len(planted)} planted canaries: use a larger space or put {{unique}} into the template"
            )


def _warn(template: str, canaries: Sequence[Canary]) -> None:
    planted = sum(canary.planted and canary.supports is None for canary in canaries)
    if planted > 1 and slot_names(template)[0] != "unique":
        fault = "has {unique} only after its first slot" if "unique" in slot_names(template) else "has no {unique}"
        warnings.warn(
            f"the template {fault}: {planted} canaries share a prefix and compete for it, so each is harder "
            "to find than it would be alone: put {unique} before the first slot, or plant one canary of a fixed text",
            stacklevel=3,
        )
    secrets = [canary.secret for canary in canaries if canary.supports is None]
    if len(set(secrets)) < len(secrets):
        size = canaries[0].space.size
        warnings.warn(f"the space holds {size} fillings for {len(secrets)} canaries: some share a secret", stacklevel=3)
