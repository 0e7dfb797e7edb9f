"""The distinct natural secrets of a corpus: their occurrences, their written forms and their spaces."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from leakage_tasks.canaries.alphabets import BUILT_IN, Alphabet
from leakage_tasks.canaries.detect import DETECTORS, DetectedSecret, detector_of, find_secrets
from leakage_tasks.canaries.kinds.names import NAMES
from leakage_tasks.canaries.spaces import Filling, literal

FULL_HASH = 40
"""Number of digits of a git hash that is not abbreviated."""
FEWEST_WORDS = 10
"""Minimum number of distinct words of names in a corpus that make up their space."""
Alphabets = Mapping[str, tuple[Alphabet, ...]]
"""The alphabets of each part of a kind of secrets."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_UP_TO_A_WORD = re.compile(r"\S*\s+(?=\S)")


@dataclass(frozen=True)
class WrittenForm:
    """A secret as it is written, ``written``, after its context ``before``.

    ``parts`` are start, end and name of the parts of ``written`` that an attacker must guess. Check characters are left
    out: ``check_length`` of them follow after ``separator``.
    """

    before: str = field(repr=False)
    written: str = field(repr=False)
    parts: tuple[tuple[int, int, str], ...]
    separator: str = ""
    check_length: int = 0

    @classmethod
    def of(cls, text: str, detected: DetectedSecret, context: int) -> WrittenForm:
        """Return the form of a secret in ``text`` with at most ``context`` characters of context."""
        start, check = detected.start, detected.check_start
        end = detected.hidden[1] if check < detected.end else detected.end
        parts = tuple((first - start, last - start, name) for first, last, name in detected.parts)
        return cls(_before(text, start, context), text[start:end], parts, text[end:check], detected.end - check)

    def template(self, alphabets: Alphabets) -> tuple[str, Filling, dict[str, Alphabet]]:
        """Return template, filling and the alphabets that are not built in."""
        template, filling, used, end = literal(self.before), [], {}, 0
        level = self._level(alphabets)
        for start, stop, name in self.parts:
            alphabet = alphabets[name][min(level, len(alphabets[name]) - 1)]
            used[alphabet.name] = alphabet
            slots, values = _slots(self.written[start:stop], alphabet)
            template += literal(self.written[end:start]) + slots
            filling += values
            end = stop
        own = {name: alphabet for name, alphabet in used.items() if name not in BUILT_IN}
        return template + literal(self.written[end:]), tuple(filling), own

    def _level(self, alphabets: Alphabets) -> int:
        """Return the number of the first alphabets that contain the characters of all parts; the last are largest."""
        pieces = [(alphabets[name], self.written[start:stop]) for start, stop, name in self.parts]
        levels = max(len(choices) for choices, _ in pieces)
        return next(
            (
                level
                for level in range(levels)
                if all(
                    _contains(choices[min(level, len(choices) - 1)], choices[-1], piece) for choices, piece in pieces
                )
            ),
            levels - 1,
        )


def _contains(alphabet: Alphabet, largest: Alphabet, piece: str) -> bool:
    """Return True if ``alphabet`` has all characters of ``piece`` that ``largest`` has; others are format."""
    return all(character in alphabet for character in piece if character in largest)


def _slots(piece: str, alphabet: Alphabet) -> tuple[str, list[str]]:
    """Return the slots of a part and their values: one slot for the part if the alphabet has longer values, else one
    for each of its characters."""
    if max(alphabet.lengths) > 1:
        return f"{{{alphabet.name}}}", [piece]
    runs = re.split(rf"([{re.escape(''.join(alphabet.values))}]+)", piece)
    slots = (f"{{{alphabet.name}:{len(run)}}}" if index % 2 else literal(run) for index, run in enumerate(runs))
    return "".join(slots), list("".join(runs[1::2]))


def _before(text: str, start: int, context: int) -> str:
    """Return the context of a secret that begins at ``start``."""
    first = max(0, start - context)
    before = text[first:start]
    lines = before.split("\n")
    shown = lines.pop()
    while lines and not shown.strip():
        shown = f"{lines.pop()}\n{shown}"
    if len(shown) == len(before) and first:
        begun = _UP_TO_A_WORD.match(text, first - 1, start)
        shown = text[begun.end() : start] if begun else shown
    return _SURROGATE.split(shown)[-1]


@dataclass(frozen=True)
class Passage:
    """A text in which secrets that begin at ``first``..``stop`` are detected; the text outside is only context."""

    text: str = field(repr=False)
    first: int = 0
    stop: int | None = None


@dataclass
class NaturalSecret:
    """A distinct secret, with its number of occurrences in total and by written form.

    ``declined`` is the reason why an occurrence cannot be measured.
    """

    kind: str
    times: int = 0
    forms: Counter[WrittenForm] = field(default_factory=Counter)
    declined: str = ""

    @property
    def form(self) -> WrittenForm:
        """The most common written form; the first one of several."""
        return self.forms.most_common(1)[0][0]


def collect(passages: Iterable[Passage], kinds: Sequence[str], context: int) -> list[NaturalSecret]:
    """Return the distinct secrets of these kinds and of kinds that are counted with them."""
    secrets: dict[tuple[str, str], NaturalSecret] = {}
    searched = (*DETECTORS, *(kind for kind in kinds if kind in NAMES))
    for passage in passages:
        stop = len(passage.text) if passage.stop is None else passage.stop
        before = 0
        for detected in find_secrets(passage.text, searched):
            if passage.first <= detected.start < stop:
                key = detector_of(detected.kind).same_as or detected.kind, detected.normal
                secret = secrets.setdefault(key, NaturalSecret(detected.kind))
                secret.times += 1
                secret.declined = secret.declined or (detected.declined if detected.kind in kinds else "")
                if detected.kind in kinds and not detected.declined:
                    secret.kind = secret.kind if secret.forms else detected.kind
                    # The context starts after the previous secret, so that no template shows another secret.
                    length = min(context, detected.start - before)
                    secret.forms[WrittenForm.of(passage.text, detected, length)] += 1
            before = detected.end
    return _without_abbreviations(secrets)


def _without_abbreviations(secrets: dict[tuple[str, str], NaturalSecret]) -> list[NaturalSecret]:
    """Return the secrets; an abbreviated git hash counts as an occurrence of the hash that it abbreviates."""
    hashes = sorted(normal for kind, normal in secrets if kind == "sha1" and len(normal) == FULL_HASH)
    kept = []
    for (kind, normal), secret in secrets.items():
        position = bisect_left(hashes, normal)
        full = hashes[position] if position < len(hashes) else ""
        if kind == "sha1" and len(normal) < FULL_HASH and full.startswith(normal):
            secrets[kind, full].times += secret.times
        else:
            kept.append(secret)
    return kept


def measurable(secrets: Sequence[NaturalSecret]) -> tuple[list[NaturalSecret], Counter[str]]:
    """Return the secrets whose space is known, and the number of the others by kind and reason."""
    known, declined = [], Counter[str]()
    few = {kind for kind in NAMES if _few_words(kind, secrets)}
    for secret in secrets:
        if secret.forms and secret.kind not in few:
            known.append(secret)
        elif secret.forms or secret.declined:
            declined[f"{secret.kind} {secret.declined or 'among too few names'}"] += 1
    return known, declined


def _few_words(kind: str, secrets: Iterable[NaturalSecret]) -> bool:
    """Return True if the corpus has too few words of names of this kind for a space."""
    return any(len(alphabet) < FEWEST_WORDS for (alphabet,) in alphabets_of(kind, secrets).values())


def alphabets_of(kind: str, secrets: Iterable[NaturalSecret]) -> Alphabets:
    """Return the alphabets of the parts of a kind; for names they are the words of all names in the corpus."""
    if kind not in NAMES:
        return detector_of(kind).alphabets
    words: dict[str, set[str]] = {}
    for form in (form for secret in secrets if secret.kind == kind for form in secret.forms):
        for start, stop, part in form.parts:
            words.setdefault(part, set()).add(form.written[start:stop])
    return {part: (Alphabet(f"{kind}_{part}", tuple(sorted(found))),) for part, found in words.items()}
