"""Bank account numbers (IBAN) and national identity numbers, validated by python-stdnum.

The check characters at the end of a national number follow from its other characters, so they are no part of its space.
"""

from __future__ import annotations

import math
import re
import string
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module

from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.canaries.kinds.detector import (
    CAPITALS,
    DIGITS,
    NUMBER,
    UPPER,
    Detector,
    SecretPattern,
    cue,
    form,
    letters_and_digits,
)

IBAN_CHECK = math.log2(97)
"""The bits of an IBAN's two check digits, a remainder modulo 97."""
IDNR_DIGITS = 4.8
"""The bits of a German tax id's rule that just one of its first ten digits occurs more than once."""


_SEX = (Alphabet("sex", tuple("12")),)
_MONTH = (Alphabet("month", tuple("ABCDEHLMPRST")),)


def _valid(module: str) -> Callable[[str], bool]:
    """Return the validator of a module of python-stdnum."""

    def valid(text: str) -> bool:
        return bool(import_module(f"stdnum.{module}").is_valid(letters_and_digits(text)))

    return valid


def _is_iban(text: str) -> bool:
    from stdnum import iban

    try:
        iban.validate(letters_and_digits(text), check_country=False)
    except iban.ValidationError:
        return False
    return True


def _iban_form() -> SecretPattern:
    """Return the form of an IBAN: after its country the length of that country, bare or in groups of four."""
    from stdnum import numdb

    lengths: dict[int, list[str]] = defaultdict(list)
    for _, country, _, properties, _ in numdb.get("iban").prefixes:
        lengths[sum(map(int, re.findall(r"\d+", properties["bban"])))].append(country)
    choices = []
    for length, countries in sorted(lengths.items()):
        fours, rest = divmod(length, 4)
        groups = rf"(?: [A-Z0-9]{{4}}){{{fours}}}" + (rf" [A-Z0-9]{{{rest}}}" if rest else "")
        choices.append(rf"(?<=(?:{'|'.join(countries)})..)(?:[A-Z0-9]{{{length}}}|{groups})")
    return form(rf"[A-Z]{{2}}(?P<digits>[0-9]{{2}}(?:{'|'.join(choices)}))", begin=CAPITALS)


def _national(
    module: str,
    words: str,
    *forms: tuple[str, bool],
    check_characters: str = string.digits,
    begin: re.Pattern[str] = NUMBER,
) -> Detector:
    """Return the detector of a national number from its forms, each with True if a word of ``words`` must precede."""
    cued = all(needs_cue for _, needs_cue in forms)
    return Detector(
        tuple(form(pattern, cued=needs_cue, begin=begin) for pattern, needs_cue in forms),
        letters_and_digits,
        "personal",
        "high",
        _valid(module),
        {"digits": DIGITS, "letters": UPPER, "month": _MONTH, "sex": _SEX},
        check_characters=check_characters,
        cue=cue(words),
        words=tuple(words.split("|")) if cued else (),
    )


ACCOUNTS: Mapping[str, Detector] = {
    "iban": Detector((_iban_form(),), letters_and_digits, "personal", "high", _is_iban, rule_bits=IBAN_CHECK),
}
"""International bank account numbers."""
NATIONAL: Mapping[str, Detector] = {
    "br_cpf": _national(
        "br.cpf",
        "cpf",
        (r"(?P<digits>[0-9]{3}\.[0-9]{3}\.[0-9]{3})-(?P<check>[0-9]{2})", False),
        (r"(?P<digits>[0-9]{9})(?P<check>[0-9]{2})", True),
    ),
    "de_idnr": replace(
        _national(
            "de.idnr",
            "steuer-id|steuerid|steueridentifikation|identifikationsnummer|idnr|tax id",
            (r"(?P<digits>[0-9]{2}( ?)[0-9]{3}\2[0-9]{3}\2[0-9]{2})(?P<check>[0-9])", True),
        ),
        rule_bits=IDNR_DIGITS,
    ),
    "es_dni": _national(
        "es.dni",
        "dni|nif",
        (r"(?P<digits>[0-9]{8})[ -]?(?P<check>[A-Z])", True),
        check_characters=string.ascii_uppercase,
    ),
    "fr_nir": _national(
        "fr.nir",
        "nir|insee|sécu|securite sociale",
        (r"(?P<sex>[12]) (?P<digits>[0-9]{2} [0-9]{2} [0-9]{2} [0-9]{3} [0-9]{3}) (?P<check>[0-9]{2})", False),
        (r"(?P<sex>[12])(?P<digits>[0-9]{12}) ?(?P<check>[0-9]{2})", True),
    ),
    "in_aadhaar": _national(
        "in_.aadhaar",
        "aadhaar|aadhar|uidai",
        (r"(?P<digits>[2-9][0-9]{3}([ -]?)[0-9]{4}\2[0-9]{3})(?P<check>[0-9])", True),
    ),
    "it_cf": _national(
        "it.codicefiscale",
        "codice fiscale",
        (
            r"(?P<letters1>[A-Z]{6})(?P<digits1>[0-9]{2})(?P<month>[A-EHLMPRST])(?P<digits2>[0-9]{2})"
            r"(?P<letters2>[A-Z])(?P<digits3>[0-9]{3})(?P<check>[A-Z])",
            False,
        ),
        check_characters=string.ascii_uppercase,
        begin=CAPITALS,
    ),
    "nl_bsn": _national(
        "nl.bsn",
        "bsn|burgerservice|sofi",
        (r"(?P<digits>[0-9]{4}([. ]?)[0-9]{2}\2[0-9]{2})(?P<check>[0-9])", True),
    ),
    "uk_nhs": _national(
        "gb.nhs",
        "nhs",
        (r"(?P<digits>[0-9]{3}([ -]?)[0-9]{3}\2[0-9]{3})(?P<check>[0-9])", True),
    ),
}
"""National numbers of persons, by country: tax, health and social insurance."""
