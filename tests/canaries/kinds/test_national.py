"""Bank accounts and national numbers: valid by python-stdnum, found in each form, with valid controls."""

from __future__ import annotations

from importlib import import_module
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakage_tasks.canaries.detect import find_secrets
from tests.canaries.kinds.checks import AFTER, canaries_of, canary_of, only

DIGITS, LETTERS = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
# Kind, module of python-stdnum, context, number, size of the space, check characters after the template.
NUMBERS = [
    ("br_cpf", "br.cpf", "", "529.982.247-25", 10**9, (DIGITS, 2)),
    ("br_cpf", "br.cpf", "CPF: ", "52998224725", 10**9, (DIGITS, 2)),
    ("de_idnr", "de.idnr", "Steuer-ID ", "36 574 261 809", 10**10, (DIGITS, 1)),
    ("es_dni", "es.dni", "DNI ", "54362315K", 10**8, (LETTERS, 1)),
    ("fr_nir", "fr.nir", "", "2 95 10 99 126 111 93", 2 * 10**12, (DIGITS, 2)),
    ("fr_nir", "fr.nir", "NIR ", "295109912611193", 2 * 10**12, (DIGITS, 2)),
    ("in_aadhaar", "in_.aadhaar", "Aadhaar ", "2341 2341 2346", 10**11, (DIGITS, 1)),
    ("it_cf", "it.codicefiscale", "", "RCCMNL83S18D969H", 26**7 * 12 * 10**7, (LETTERS, 1)),
    ("nl_bsn", "nl.bsn", "BSN ", "1112.22.333", 10**8, (DIGITS, 1)),
    ("uk_nhs", "gb.nhs", "NHS number: ", "943-476-5870", 10**9, (DIGITS, 1)),
]


@pytest.mark.parametrize(("kind", "module", "cue", "written", "size", "check"), NUMBERS)
def test_check_characters_are_no_part_of_the_space(
    kind: str, module: str, cue: str, written: str, size: int, check: tuple[str, int]
) -> None:
    validate = import_module(f"stdnum.{module}").is_valid
    assert validate(written)
    found = only(f"{cue}{written}.")
    assert (found.kind, found.end) == (kind, len(cue + written))
    canary, *controls = canaries_of(f"{cue}{written}.", kind, controls=3)
    assert canary.space.size == size
    characters, length = check
    kept = written[:-length].rstrip(" -")
    assert canary.text == cue + kept
    for control in controls:
        endings = map("".join, product(characters, repeat=length))
        assert any(validate(control.text.removeprefix(cue) + ending) for ending in endings)


@pytest.mark.parametrize(("kind", "module", "cue", "written", "size", "check"), NUMBERS)
def test_a_wrong_check_character_is_no_number(
    kind: str, module: str, cue: str, written: str, size: int, check: tuple[str, int]
) -> None:
    characters = check[0]
    wrong = written[:-1] + characters[(characters.index(written[-1]) + 1) % len(characters)]
    assert [found for found in find_secrets(f"{cue}{wrong}.") if found.kind == kind] == []


@pytest.mark.parametrize(("kind", "number"), [(row[0], row[3]) for row in NUMBERS if row[2]])
def test_a_bare_number_needs_a_word_that_says_so(kind: str, number: str) -> None:
    assert [found for found in find_secrets(f"row {number}.") if found.kind == kind and number.isalnum()] == []


def remainder(iban: str) -> int:
    """ISO 13616: the account and then the country as digits, modulo 97; 1 for a valid number."""
    moved = iban[4:] + iban[:4]
    return int("".join(str(int(character, 36)) for character in moved)) % 97


@settings(max_examples=40)
@given(st.integers(0, 10**18 - 1), st.booleans(), AFTER)
def test_an_account_number_is_found_with_its_check_digits(number: int, grouped: bool, after: str) -> None:
    bare = f"{number:018}"
    iban = f"DE{98 - remainder(f'DE00{bare}'):02}{bare}"
    written = " ".join(iban[start : start + 4] for start in range(0, 22, 4)) if grouped else iban
    found = only(f"to {written}{after}")
    assert (found.kind, found.normal) == ("iban", iban)
    assert canary_of(f"to {written}{after}", "iban").space.size == 10**20
    assert all(each.kind != "iban" for each in find_secrets(f"to {written[:-1]}{(int(written[-1]) + 1) % 10}"))


def test_the_controls_of_an_account_number_are_valid() -> None:
    canary, *controls = canaries_of("pay GB82 WEST 1234 5698 7654 32 now", "iban", controls=20)
    assert canary.template == "pay GB{digits:2} WEST {digits:4} {digits:4} {digits:4} {digits:2}"
    ibans = [control.text.removeprefix("pay ").replace(" ", "") for control in controls]
    assert {remainder(iban) for iban in ibans} == {1}
    assert len({*ibans, "GB82WEST12345698765432"}) == 21


def test_text_in_capitals_after_an_account_number_is_no_part_of_it() -> None:
    assert only("BE68 5390 0754 7034 EUR 12").normal == "BE68539007547034"
