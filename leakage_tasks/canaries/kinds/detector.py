"""The declaration of a kind of secret: its written forms, its space, its severity."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Literal

from leakage_tasks.canaries.alphabets import BUILT_IN, Alphabet

Severity = Literal["high", "medium", "low"]
"""The harm that the disclosure of a secret can do: ``high`` for money, identity and access, ``medium`` for contact
data, ``low`` for the rest."""
Group = Literal["identifiers", "personal"]
"""``identifiers`` are strings that software made; ``personal`` secrets belong to a person."""
CHECK = "check"
"""The group of a pattern that holds check characters, which follow from the rest of the secret."""

# A neighbouring digit, letter or hyphenated part makes a number part of something longer. Letters of other scripts do
# not: they are written without spaces.
BEFORE = r"(?<![A-Za-z_\d])(?<![0-9]\.)(?<![0-9A-Za-z]-)(?<!\+)"
AFTER = r"(?![A-Za-z_\d])(?!\.[0-9])(?!-[0-9A-Za-z])"
_NOT_INSIDE = r"(?<![A-Za-z_\d].)(?<![0-9]\..)(?<![0-9A-Za-z]-.)(?<!\+.)"
NUMBER = re.compile(rf"[0-9+(]{_NOT_INSIDE}(?=[0-9+() ./\-]{{6}})")
"""The beginning of every form of digits, which is much faster to find than the forms."""
CAPITALS = re.compile(rf"[A-Z]{_NOT_INSIDE}(?=[A-Z][A-Z0-9]{{2}})")
"""The beginning of every form that starts with capital letters."""
HEX_RUN = re.compile(r"[0-9A-Fa-f](?<![A-Za-z0-9].)(?=[0-9A-Fa-f]{7})")
"""The beginning of every form of hexadecimal digits."""

_BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
BASE62 = (Alphabet("base62", tuple(_BASE62)),)
BASE64URL = (Alphabet("base64url", tuple(f"{_BASE62}-_")),)
DIGITS = (BUILT_IN["digits"],)
UPPER = (BUILT_IN["upper"],)
HEX = (BUILT_IN["hex"], Alphabet("hex_capitals", tuple("0123456789ABCDEF")))


@dataclass(frozen=True)
class SecretPattern:
    """A written form of a secret.

    The named groups of the pattern are the parts that an attacker must guess; each is named after its alphabets in
    :attr:`Detector.alphabets`, with a number behind the name if there are several. The group :data:`CHECK` is left out
    of the template. If ``cued`` is true, the form alone is too common to identify a secret: a word that matches the
    detector's ``cue`` must precede it closely, with no other number in between.
    """

    pattern: re.Pattern[str]
    cued: bool = False
    begin: re.Pattern[str] | None = None
    """Pattern of the places where the form can begin, which kinds share, for a fast search."""

    def parts(self, match: re.Match[str]) -> tuple[tuple[int, int, str], ...]:
        """Return start, end and alphabets' name of each part that an attacker must guess, in order."""
        spans = ((*match.span(name), name.rstrip(string.digits)) for name in self.pattern.groupindex if name != CHECK)
        return tuple(sorted(span for span in spans if span[0] >= 0))

    def check_start(self, match: re.Match[str]) -> int:
        """Return the start of the check characters, or the end of the match."""
        start = match.start(CHECK) if CHECK in self.pattern.groupindex else -1
        return match.end() if start < 0 else start


def _nothing(text: str) -> str:
    return ""


def _accept(text: str) -> bool:
    return True


@dataclass(frozen=True)
class Detector:
    """A kind of secret that can be detected in text."""

    forms: tuple[SecretPattern, ...]
    """The written forms."""
    normal: Callable[[str], str]
    """Function that returns the normal form, which is equal for all written forms of a secret."""
    group: Group
    severity: Severity
    valid: Callable[[str], bool] = _accept
    """Function that returns True if a match is a valid secret."""
    alphabets: Mapping[str, tuple[Alphabet, ...]] = field(default_factory=lambda: {"digits": DIGITS})
    """Alphabets by group of the patterns; the first one that contains a secret's characters is its alphabet. Other
    characters belong to the format."""
    uniform: bool = False
    """True if the secret is uniform over its space, by the public description of its format."""
    declined: Callable[[str], str] = _nothing
    """Function that returns the reason why a match has no known space, or an empty string."""
    check_characters: str = "0"
    """The characters that the group :data:`CHECK` can hold."""
    rule_bits: float = 0.0
    """A lower bound on the bits of the space that rules take, such as a check digit: log2 of the inverse share of valid
    fillings."""
    cue: re.Pattern[str] = re.compile("(?!)")
    """A word that must precede a cued form."""
    words: tuple[str, ...] = ()
    """Words in lower case of which a text must contain one, for a fast check of kinds whose forms are all cued."""
    needs: Iterable[str] = string.digits
    """Texts of which every form contains at least one, for a fast check."""
    same_as: str = ""
    """The kind whose secrets are counted together with secrets of this kind."""

    def recognises(self, written: str, check_length: int = 0) -> bool:
        """Return True if ``written``, continued by some ``check_length`` check characters, is a secret of this
        kind."""
        if not self.forms:
            return True
        checks = map("".join, product(self.check_characters, repeat=check_length))
        return any(self._is_secret(written + check) for check in checks)

    def _is_secret(self, text: str) -> bool:
        matches = any(form.pattern.fullmatch(text) for form in self.forms)
        return matches and self.valid(text) and not self.declined(text)


def form(pattern: str, *, cued: bool = False, begin: re.Pattern[str] = NUMBER) -> SecretPattern:
    """Return a form that is not part of a longer number, word or hyphenated text."""
    return SecretPattern(re.compile(BEFORE + pattern + AFTER), cued, begin)


def after(literal: str, pattern: str, *, end: str = r"(?![A-Za-z0-9_])") -> SecretPattern:
    """Return a form that begins with ``literal``, which follows no letter, digit or ``_ . -``."""
    # A pattern that begins with its literal is searched much faster than one that begins with an assertion.
    begin = re.escape(literal)
    return SecretPattern(re.compile(rf"{begin}(?<![A-Za-z0-9_.\-]{begin}){pattern}{end}"))


def cue(words: str) -> re.Pattern[str]:
    """Return the pattern of a word that precedes a number, with no other number in between."""
    return re.compile(rf"\b(?:{words})[^0-9]*\Z", re.IGNORECASE)


def digits_of(text: str) -> str:
    """Return the ASCII digits of a text."""
    return re.sub(r"[^0-9]", "", text)


def letters_and_digits(text: str) -> str:
    """Return the ASCII letters and digits of a text, in capitals."""
    return re.sub(r"[^0-9A-Za-z]", "", text).upper()
