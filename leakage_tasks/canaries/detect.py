"""Finding secrets in a text: card numbers, social security numbers, telephone numbers, mail addresses.

Numbers with a check digit or a published structure are validated by python-stdnum; the others go by their form.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from leakage_tasks.core.errors import OptionError

CUE = 40
"""How many characters before a bare number are searched for a word that says what it is."""
LONGEST = 400
"""More characters than a secret and what is looked at around it have."""

# A digit, letter or hyphenated part next to it makes a number part of something longer; other scripts need no space.
_BEFORE = r"(?<![A-Za-z_\d])(?<![0-9]\.)(?<![0-9A-Za-z]-)(?<!\+)"
_AFTER = r"(?![A-Za-z_\d])(?!\.[0-9])(?!-[0-9A-Za-z])"
_LOCAL = r"A-Za-z0-9._+\-"
_FIRST_DIGITS = {13: "4", 14: "3", 15: "3", 16: "23456"}
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"


@dataclass(frozen=True)
class SecretPattern:
    """One way to write a secret. Group ``secret`` of the pattern holds what an attacker would have to guess.

    ``cued``: too common a form to tell by itself, so a word of the detector's ``cue`` must stand shortly before, and
    no other number between.
    """

    pattern: re.Pattern[str]
    cued: bool = False


@dataclass(frozen=True)
class Detector:
    """A kind of secret."""

    forms: tuple[SecretPattern, ...]
    """The ways to write it."""
    valid: Callable[[str], bool]
    """Checks what was matched."""
    normal: Callable[[str], str]
    """Gives the normal form, the same for all forms."""
    characters: str = string.digits
    """Those of group ``secret`` that are secret; the others are its format."""
    cue: re.Pattern[str] = re.compile("(?!)")
    """A word that must stand shortly before what has a form too common to tell by itself."""
    needs: str = string.digits
    """Characters of which every form has one or more."""


@dataclass(frozen=True)
class DetectedSecret:
    """A secret at ``start``..``end`` of a text, its guessable part at ``hidden``; ``normal`` tells secrets apart."""

    kind: str
    start: int
    end: int
    hidden: tuple[int, int]
    normal: str = field(repr=False)


def find_secrets(text: str, kinds: Iterable[str] | None = None) -> list[DetectedSecret]:
    """The secrets in ``text`` of these kinds (default: all), in order; no two overlap.

    Where two kinds claim the same characters, the one that comes first in :data:`DETECTORS` has them, asked for or not:
    a card number holds no telephone number.
    """
    wanted = set(DETECTORS if kinds is None else kinds)
    taken = bytearray(len(text))
    found = []
    for kind, detector in DETECTORS.items():
        # To see that a text has none of these is far quicker than to look for every form of what has them.
        for form in detector.forms if any(need in text for need in detector.needs) else ():
            for match in _matches(detector, form, text, taken):
                start, end = match.span()
                taken[start:end] = b"\1" * (end - start)
                if kind in wanted:
                    found.append(DetectedSecret(kind, start, end, match.span("secret"), detector.normal(match.group())))
    return sorted(found, key=lambda each: each.start)


def _matches(detector: Detector, form: SecretPattern, text: str, taken: bytearray) -> Iterator[re.Match[str]]:
    """What has the form, is valid and not taken; one that is not leaves its characters to those that begin in it."""
    place = 0
    while match := form.pattern.search(text, place):
        start, end = match.span()
        cued = not form.cued or detector.cue.search(text, max(0, start - CUE), start)
        good = cued and taken.find(1, start, end) < 0 and detector.valid(match.group())
        place = end if good else start + 1
        if good:
            yield match


def kinds_of(names: Iterable[str]) -> list[str]:
    """``names`` as kinds of secrets, each once. Raises OptionError for an unknown one or for none."""
    chosen = list(dict.fromkeys(names))
    unknown = [name for name in chosen if name not in DETECTORS]
    if unknown or not chosen:
        found = f"has {unknown[0]!r}" if unknown else "names nothing"
        raise OptionError(f"--detect {found}: use {', '.join(DETECTORS)}, with commas between")
    return chosen


def _digits(text: str) -> str:
    return re.sub(r"[^0-9]", "", text)


def _is_card(text: str) -> bool:
    """Luhn's check digit, and a first digit that cards of this length have."""
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
    # A zero in brackets is dialled only where the country code is not.
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
"""The kinds of secrets by name, in the order in which they claim characters."""
