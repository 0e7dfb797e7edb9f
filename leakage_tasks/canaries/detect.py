"""Detection of secrets in text: card numbers, social security numbers, telephone numbers, mail addresses.

Numbers with a check digit or a published structure are validated by python-stdnum; the others are matched by their form
only.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from leakage_tasks.core.errors import OptionError

CUE = 40
"""Number of characters before a number that are searched for a word that names its kind."""
LONGEST = 400
"""Maximum number of characters of a secret and of the text around it that is checked."""

# A neighbouring digit, letter or hyphenated part makes a number part of something longer. Letters of other scripts do
# not: they are written without spaces.
_BEFORE = r"(?<![A-Za-z_\d])(?<![0-9]\.)(?<![0-9A-Za-z]-)(?<!\+)"
_AFTER = r"(?![A-Za-z_\d])(?!\.[0-9])(?!-[0-9A-Za-z])"
_LOCAL = r"A-Za-z0-9._+\-"
_FIRST_DIGITS = {13: "4", 14: "3", 15: "3", 16: "23456"}
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"


@dataclass(frozen=True)
class SecretPattern:
    """A written form of a secret; group ``secret`` of the pattern is the part that an attacker must guess.

    If ``cued`` is true, the form alone is too common to identify a secret: a word that matches the detector's ``cue``
    must precede it closely, with no other number in between.
    """

    pattern: re.Pattern[str]
    cued: bool = False


@dataclass(frozen=True)
class Detector:
    """A kind of secret that can be detected in text."""

    forms: tuple[SecretPattern, ...]
    """The written forms."""
    valid: Callable[[str], bool]
    """Function that returns True if a match is a valid secret."""
    normal: Callable[[str], str]
    """Function that returns the normal form, which is equal for all written forms of a secret."""
    characters: str = string.digits
    """The characters of group ``secret`` that are secret; all others belong to its format."""
    cue: re.Pattern[str] = re.compile("(?!)")
    """A word that must precede a cued form."""
    needs: str = string.digits
    """Characters of which every form contains at least one, for a fast check."""


@dataclass(frozen=True)
class DetectedSecret:
    """A secret at ``start``..``end`` of a text.

    ``hidden`` is the span of its guessable part; ``normal`` is its normal form, which identifies the secret.
    """

    kind: str
    start: int
    end: int
    hidden: tuple[int, int]
    normal: str = field(repr=False)


def find_secrets(text: str, kinds: Iterable[str] | None = None) -> list[DetectedSecret]:
    """Return the non-overlapping secrets of these kinds (default: all) in ``text``, in order.

    If two kinds match the same characters, the kind that comes first in :data:`DETECTORS` gets them, even if it was not
    requested: a card number contains no telephone number.
    """
    wanted = set(DETECTORS if kinds is None else kinds)
    taken = bytearray(len(text))
    secrets = []
    for kind, detector in DETECTORS.items():
        # Searching for a needed character is much faster than searching for every form.
        for form in detector.forms if any(need in text for need in detector.needs) else ():
            for match in _matches(detector, form, text, taken):
                start, end = match.span()
                taken[start:end] = b"\1" * (end - start)
                if kind in wanted:
                    secrets.append(
                        DetectedSecret(kind, start, end, match.span("secret"), detector.normal(match.group()))
                    )
    return sorted(secrets, key=lambda secret: secret.start)


def _matches(detector: Detector, form: SecretPattern, text: str, taken: bytearray) -> Iterator[re.Match[str]]:
    """Yield valid matches that use only free characters.

    After a rejected match, the search continues from its second character.
    """
    position = 0
    while match := form.pattern.search(text, position):
        start, end = match.span()
        cued = not form.cued or detector.cue.search(text, max(0, start - CUE), start)
        accepted = cued and taken.find(1, start, end) < 0 and detector.valid(match.group())
        position = end if accepted else start + 1
        if accepted:
            yield match


def kinds_of(names: Iterable[str]) -> list[str]:
    """Return ``names`` as distinct kinds of secrets. Raises OptionError for an unknown kind or for no names."""
    chosen = list(dict.fromkeys(names))
    unknown = [name for name in chosen if name not in DETECTORS]
    if unknown or not chosen:
        fault = f"has {unknown[0]!r}" if unknown else "names nothing"
        raise OptionError(f"--detect {fault}: use {', '.join(DETECTORS)}, with commas between")
    return chosen


def _digits(text: str) -> str:
    return re.sub(r"[^0-9]", "", text)


def _is_card(text: str) -> bool:
    """Return True if Luhn's check digit is right and cards of this length can start with the first digit."""
    from stdnum import luhn

    number = _digits(text)
    first = _FIRST_DIGITS.get(len(number), "3456")
    return number[0] in first and len(set(number)) > 1 and luhn.is_valid(number)


def _is_ssn(text: str) -> bool:
    from stdnum.us import ssn

    return ssn.is_valid(_digits(text))


def _is_phone(text: str) -> bool:
    return 8 <= len(_digits(text)) <= 15


def _normal_phone(text: str) -> str:
    # A zero in brackets is dialled only without the country code.
    digits = _digits(text.replace("(0)", ""))
    return "+" + (digits if text.startswith("+") or len(digits) != 10 else f"1{digits}")


def _is_address(text: str) -> bool:
    local = text.partition("@")[0]
    return ".." not in local and local[0] != "." and local[-1] != "."


def _form(pattern: str, *, cued: bool = False) -> SecretPattern:
    return SecretPattern(re.compile(_BEFORE + pattern + _AFTER), cued)


def _cue(words: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{words})[^0-9]*\Z", re.IGNORECASE)


_CARDS = (
    _form(r"(?P<secret>[0-9]{4}([ -])[0-9]{4}\2[0-9]{4}\2[0-9]{4}\2[0-9]{1,3})"),
    _form(r"(?P<secret>[0-9]{4}([ -])[0-9]{4}\2[0-9]{4}\2[0-9]{1,4})"),
    _form(r"(?P<secret>[0-9]{4}([ -])[0-9]{6}\2[0-9]{4,5})"),
    _form(r"(?P<secret>[0-9]{4}([ -])[0-9]{3}\2[0-9]{3}\2[0-9]{3})"),
    _form(r"(?P<secret>[0-9]{13,19})"),
)
_ADDRESS = re.compile(
    rf"(?<![{_LOCAL}@%'])(?P<secret>[{_LOCAL}]{{1,64}}+)@(?:{_LABEL}\.)+[A-Za-z]{{2,24}}"
    r"(?![A-Za-z0-9_@])(?!-[A-Za-z0-9])(?!\.[A-Za-z0-9])"
)
_AREA = r"[2-9][0-9]{2}"
_PHONES = (
    _form(rf"(?:\+?1[ .-]?)?(?P<secret>\({_AREA}\) ?{_AREA}[ .-]?[0-9]{{4}})"),
    _form(rf"\+1[ .-]?(?P<secret>{_AREA}([ .-]?){_AREA}\2[0-9]{{4}})"),
    _form(rf"(?:1[.-])?(?P<secret>{_AREA}([.-]){_AREA}\2[0-9]{{4}})"),
    _form(rf"(?P<secret>{_AREA}/{_AREA}-[0-9]{{4}})"),
    _form(rf"(?:1 ?)?(?P<secret>{_AREA}( ?){_AREA}\2[0-9]{{4}})", cued=True),
    _form(r"\+(?=[2-9])(?:[0-9]{1,3}[ .-](?=[0-9(]))?(?P<secret>\(?[0-9](?:[ .()-]{0,2}[0-9]){6,13})"),
)

DETECTORS: Mapping[str, Detector] = {
    # Mail addresses.
    "email": Detector(
        (SecretPattern(_ADDRESS),),
        _is_address,
        str.lower,
        string.ascii_letters + string.digits + "._+-",
        needs="@",
    ),
    # Payment card numbers.
    "ccn": Detector(_CARDS, _is_card, _digits),
    # US social security numbers.
    "ssn": Detector(
        (
            _form(r"(?P<secret>[0-9]{3}-[0-9]{2}-[0-9]{4})"),
            _form(r"(?P<secret>[0-9]{3}( ?)[0-9]{2}\2[0-9]{4})", cued=True),
        ),
        _is_ssn,
        _digits,
        cue=_cue(r"ssn|ss ?#|ss ?no\b|ss ?num|soc(?:ial)?\.? ?sec"),
    ),
    # Telephone numbers, US or with + and a country code.
    "phone": Detector(
        _PHONES,
        _is_phone,
        _normal_phone,
        cue=_cue("tel|phone|call|cell|mobile|fax|dial|reach|text me|ring me"),
    ),
}
"""The kinds of secrets by name, in order of priority."""
