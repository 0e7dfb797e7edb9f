"""Mail addresses, card numbers, US social security numbers and telephone numbers.

Numbers with a check digit or a published structure are validated by python-stdnum; the others are matched by their form
only.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Mapping

from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.canaries.kinds.detector import Detector, SecretPattern, cue, digits_of, form

_LOCAL = r"A-Za-z0-9._+\-"
_FIRST_DIGITS = {13: "4", 14: "3", 15: "3", 16: "23456"}
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_CHARACTERS = string.ascii_letters + string.digits + "._+-"


def _is_card(text: str) -> bool:
    """Return True if Luhn's check digit is right and cards of this length can start with the first digit."""
    from stdnum import luhn

    number = digits_of(text)
    first = _FIRST_DIGITS.get(len(number), "3456")
    return number[0] in first and len(set(number)) > 1 and luhn.is_valid(number)


def _is_ssn(text: str) -> bool:
    from stdnum.us import ssn

    return ssn.is_valid(digits_of(text))


def _is_phone(text: str) -> bool:
    return 8 <= len(digits_of(text)) <= 15


def _normal_phone(text: str) -> str:
    # A zero in brackets is dialled only without the country code.
    digits = digits_of(text.replace("(0)", ""))
    return "+" + (digits if text.startswith("+") or len(digits) != 10 else f"1{digits}")


def _is_address(text: str) -> bool:
    local = text.partition("@")[0]
    return ".." not in local and local[0] != "." and local[-1] != "."


_CARDS = (
    form(r"(?P<digits>[0-9]{4}([ -])[0-9]{4}\2[0-9]{4}\2[0-9]{4}\2[0-9]{1,3})"),
    form(r"(?P<digits>[0-9]{4}([ -])[0-9]{4}\2[0-9]{4}\2[0-9]{1,4})"),
    form(r"(?P<digits>[0-9]{4}([ -])[0-9]{6}\2[0-9]{4,5})"),
    form(r"(?P<digits>[0-9]{4}([ -])[0-9]{3}\2[0-9]{3}\2[0-9]{3})"),
    form(r"(?P<digits>[0-9]{13,19})"),
)
_ADDRESS = re.compile(
    rf"(?<![{_LOCAL}@%'])(?P<local>[{_LOCAL}]{{1,64}}+)@(?:{_LABEL}\.)+[A-Za-z]{{2,24}}"
    r"(?![A-Za-z0-9_@])(?!-[A-Za-z0-9])(?!\.[A-Za-z0-9])"
)
_AREA = r"[2-9][0-9]{2}"
_PHONES = (
    form(rf"(?:\+?1[ .-]?)?(?P<digits>\({_AREA}\) ?{_AREA}[ .-]?[0-9]{{4}})"),
    form(rf"\+1[ .-]?(?P<digits>{_AREA}([ .-]?){_AREA}\2[0-9]{{4}})"),
    form(rf"(?:1[.-])?(?P<digits>{_AREA}([.-]){_AREA}\2[0-9]{{4}})"),
    form(rf"(?P<digits>{_AREA}/{_AREA}-[0-9]{{4}})"),
    form(rf"(?:1 ?)?(?P<digits>{_AREA}( ?){_AREA}\2[0-9]{{4}})", cued=True),
    form(r"\+(?=[2-9])(?:[0-9]{1,3}[ .-](?=[0-9(]))?(?P<digits>\(?[0-9](?:[ .()-]{0,2}[0-9]){6,13})"),
)

ADDRESSES: Mapping[str, Detector] = {
    "email": Detector(
        (SecretPattern(_ADDRESS),),
        str.lower,
        "personal",
        "medium",
        _is_address,
        {
            "local": (
                Alphabet("local", tuple(character for character in _CHARACTERS if not character.isupper())),
                Alphabet("local_capitals", tuple(_CHARACTERS)),
            )
        },
        needs="@",
    ),
}
"""Mail addresses."""
CARDS: Mapping[str, Detector] = {
    "ccn": Detector(_CARDS, digits_of, "personal", "high", _is_card, rule_bits=math.log2(10)),
}
"""Payment card numbers."""
NUMBERS: Mapping[str, Detector] = {
    "ssn": Detector(
        (
            form(r"(?P<digits>[0-9]{3}-[0-9]{2}-[0-9]{4})"),
            form(r"(?P<digits>[0-9]{3}( ?)[0-9]{2}\2[0-9]{4})", cued=True),
        ),
        digits_of,
        "personal",
        "high",
        _is_ssn,
        cue=cue(r"ssn|ss ?#|ss ?no\b|ss ?num|soc(?:ial)?\.? ?sec"),
    ),
    "phone": Detector(
        _PHONES,
        _normal_phone,
        "personal",
        "medium",
        _is_phone,
        cue=cue("tel|phone|call|cell|mobile|fax|dial|reach|text me|ring me"),
    ),
}
"""US social security numbers, and telephone numbers, US or with + and a country code."""
