"""The distinct natural secrets of a corpus, with their occurrences and their spaces."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.canaries.detect import DETECTORS, detector_of, find_secrets
from leakage_tasks.canaries.kinds.names import NAMES
from leakage_tasks.canaries.natural_forms import Alphabets, WrittenForm

FULL_HASH = 40
"""Number of digits of a git hash that is not abbreviated."""
FEWEST_WORDS = 10
"""Minimum number of distinct words of names in a corpus that make up their space."""


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
