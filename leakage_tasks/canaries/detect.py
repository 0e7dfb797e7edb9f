"""Detection of secrets in text: personal data and identifiers, kind by kind.

The kinds are declared in :mod:`leakage_tasks.canaries.kinds`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import get_args

from leakage_tasks.canaries.kinds.detector import Detector, Group, SecretPattern, Severity
from leakage_tasks.canaries.kinds.hashes import HASHES
from leakage_tasks.canaries.kinds.names import NAMES, find_names, parts_of
from leakage_tasks.canaries.kinds.national import ACCOUNTS, NATIONAL
from leakage_tasks.canaries.kinds.networks import NETWORKS
from leakage_tasks.canaries.kinds.personal import ADDRESSES, CARDS, NUMBERS
from leakage_tasks.canaries.kinds.tokens import TOKENS
from leakage_tasks.canaries.kinds.urls import URLS
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.option import near

CUE = 40
"""Number of characters before a number that are searched for a word that names its kind."""
LONGEST = 400
"""Maximum number of characters of a secret and of the text around it that is checked."""

DETECTORS: Mapping[str, Detector] = {
    **ADDRESSES,
    **TOKENS,
    **URLS,
    **HASHES,
    **ACCOUNTS,
    **CARDS,
    **NATIONAL,
    **NUMBERS,
    **NETWORKS,
}
"""The kinds of secrets by name, in order of priority."""
GROUPS: Mapping[str, tuple[str, ...]] = {
    **{
        group: tuple(kind for kind, detector in DETECTORS.items() if detector.group == group)
        for group in get_args(Group)
    },
    "all": tuple(DETECTORS),
}
"""The kinds of secrets by the name of their group; names need an optional package and are in no group."""


@dataclass(frozen=True)
class DetectedSecret:
    """A secret at ``start``..``end`` of a text.

    ``parts`` are start, end and alphabets' name of the parts that an attacker must guess. ``check_start`` is the
    start of the check characters, which follow from the rest, or ``end``. ``normal`` is the normal form, which
    identifies the secret. ``declined`` is the reason why its space is not known, or empty.
    """

    kind: str
    start: int
    end: int
    parts: tuple[tuple[int, int, str], ...]
    check_start: int
    normal: str = field(repr=False)
    declined: str = ""

    @property
    def hidden(self) -> tuple[int, int]:
        """The span from the first to the last part that an attacker must guess."""
        return self.parts[0][0], self.parts[-1][1]


def severity_of(kind: str) -> Severity:
    """Return the severity of the disclosure of a secret of this kind, from ``high`` to ``low``."""
    return detector_of(kind).severity


def detector_of(kind: str) -> Detector:
    """Return the declaration of a kind of secrets."""
    return DETECTORS[kind] if kind in DETECTORS else NAMES[kind]


def find_secrets(text: str, kinds: Iterable[str] | None = None) -> list[DetectedSecret]:
    """Return the non-overlapping secrets of these kinds (default: all) in ``text``, in order.

    If two kinds match the same characters, the kind that comes first in :data:`DETECTORS` gets them, even if it was not
    requested: a card number contains no telephone number.
    """
    wanted = set(DETECTORS if kinds is None else kinds)
    taken = bytearray(len(text))
    lowered = text.lower()
    starts: dict[re.Pattern[str], list[int]] = {}
    secrets = []
    for kind, detector in DETECTORS.items():
        for form in detector.forms if _may_contain(text, lowered, detector) else ():
            for match in _matches(detector, form, text, taken, starts):
                start, end = match.span()
                taken[start:end] = b"\1" * (end - start)
                if kind in wanted:
                    secrets.append(_detected(kind, form, match))
    if wanted & NAMES.keys():
        secrets += [secret for secret in _names(text, taken) if secret.kind in wanted]
    return sorted(secrets, key=lambda secret: secret.start)


def _may_contain(text: str, lowered: str, detector: Detector) -> bool:
    """Return False if the text lacks what all forms need; this is much faster than a search for every form."""
    named = not detector.words or any(word in lowered for word in detector.words)
    return named and any(need in text for need in detector.needs)


def _detected(kind: str, form: SecretPattern, match: re.Match[str]) -> DetectedSecret:
    detector, written = DETECTORS[kind], match.group()
    where = match.start(), match.end(), form.parts(match), form.check_start(match)
    return DetectedSecret(kind, *where, detector.normal(written), detector.declined(written))


def _names(text: str, taken: bytearray) -> Iterator[DetectedSecret]:
    """Yield the names that use only free characters."""
    for kind, start, end in find_names(text):
        parts = parts_of(text, start, end)
        if parts and taken.find(1, start, end) < 0:
            taken[start:end] = b"\1" * (end - start)
            yield DetectedSecret(kind, start, end, parts, end, NAMES[kind].normal(text[start:end]))


def _matches(
    detector: Detector, form: SecretPattern, text: str, taken: bytearray, starts: dict[re.Pattern[str], list[int]]
) -> Iterator[re.Match[str]]:
    """Yield valid matches that use only free characters. ``starts`` keeps the places where forms can begin."""
    position = 0
    for match in _all_matches(form, text, starts):
        start, end = match.span()
        if start < position or taken.find(1, start, end) >= 0:
            continue
        cued = not form.cued or detector.cue.search(text, max(0, start - CUE), start)
        if cued and detector.valid(match.group()):
            position = end
            yield match


def _all_matches(form: SecretPattern, text: str, starts: dict[re.Pattern[str], list[int]]) -> Iterator[re.Match[str]]:
    """Yield all matches of a form, which may overlap, in order."""
    if form.begin is not None:
        if form.begin not in starts:
            starts[form.begin] = [match.start() for match in form.begin.finditer(text)]
        for start in starts[form.begin]:
            if match := form.pattern.match(text, start):
                yield match
        return
    position = 0
    while match := form.pattern.search(text, position):
        yield match
        position = match.start() + 1


def kinds_of(names: Iterable[str]) -> list[str]:
    """Return the kinds of secrets that ``names`` contains, or whose groups it contains, without duplicates.

    Raises OptionError for an unknown name or for no names.
    """
    given = list(names)
    known = {**GROUPS, **{kind: (kind,) for kind in (*DETECTORS, *NAMES)}}
    unknown = [name for name in given if name not in known]
    if unknown or not given:
        fault = f"has {unknown[0]!r}{near(unknown[0], known)}" if unknown else "names nothing"
        raise OptionError(f"--detect {fault}: use {', '.join(known)}, with commas between")
    return list(dict.fromkeys(kind for name in given for kind in known[name]))
