"""Detectors find what is valid, where it is, in every usual form, and nothing else."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.canaries.detect import DETECTORS, find_secrets, kinds_of
from leakage_tasks.core.errors import OptionError
from tests.canaries.kinds.checks import AFTER, AROUND

DIGITS = st.integers(0, 9).map(str)
GROUPS = {13: [(4, 3, 3, 3)], 14: [(4, 6, 4)], 15: [(4, 6, 5)], 16: [(4, 4, 4, 4)], 19: [(4, 4, 4, 4, 3)]}
FIRST = {13: "4", 14: "3", 15: "3", 16: "2345", 17: "6", 18: "6", 19: "36"}


def luhn_total(number: str) -> int:
    """Luhn's sum as ISO/IEC 7812-1 words it: every second digit from the right doubled, digits of products added."""
    doubled = [int(digit) * 2 if place % 2 else int(digit) for place, digit in enumerate(reversed(number))]
    return sum(sum(map(int, str(value))) for value in doubled)


@st.composite
def cards(draw: st.DrawFn) -> str:
    """A card number's digits, the last of which makes Luhn's sum a multiple of ten."""
    length = draw(st.sampled_from(sorted(FIRST)))
    first = draw(st.sampled_from(FIRST[length]))
    body = first + "".join(draw(st.lists(DIGITS, min_size=length - 2, max_size=length - 2)))
    (check,) = [str(digit) for digit in range(10) if luhn_total(f"{body}{digit}") % 10 == 0]
    number = body + check
    return number if len(set(number)) > 1 else draw(cards())


def grouped(number: str, groups: tuple[int, ...], separator: str) -> str:
    ends = [sum(groups[: place + 1]) for place in range(len(groups))]
    return separator.join(number[end - size : end] for size, end in zip(groups, ends, strict=True))


def found_in(text: str, *kinds: str) -> list[tuple[str, str]]:
    return [(each.kind, text[each.start : each.end]) for each in find_secrets(text, kinds or None)]


@given(cards(), st.sampled_from(["", " ", "-"]), AROUND, AFTER)
def test_a_card_number_is_found_where_it_stands(number: str, separator: str, before: str, after: str) -> None:
    groups = GROUPS.get(len(number), [(len(number),)])[0] if separator else (len(number),)
    written = grouped(number, groups, separator)
    (found,) = find_secrets(before + written + after)
    assert (found.kind, found.normal) == ("ccn", number)
    assert (found.start, found.end) == found.hidden == (len(before), len(before) + len(written))


@given(cards(), st.integers(1, 9), st.data())
def test_a_wrong_check_digit_is_no_card(number: str, shift: int, data: st.DataObject) -> None:
    # Three digits after a number of sixteen may be its security code, which leaves that number.
    separator = data.draw(st.sampled_from(["", " ", "-"] if len(number) < 19 else [""]))
    wrong = number[:-1] + str((int(number[-1]) + shift) % 10)
    groups = GROUPS.get(len(number), [(len(number),)])[0] if separator else (len(number),)
    assert found_in(f"card {grouped(wrong, groups, separator)} ok") == []


@st.composite
def ssns(draw: st.DrawFn) -> tuple[str, str, str]:
    area = draw(st.integers(1, 899).filter(lambda number: number != 666))
    group, serial = draw(st.integers(1, 99)), draw(st.integers(1, 9999))
    parts = f"{area:03}", f"{group:02}", f"{serial:04}"
    # python-stdnum refuses these three, which were printed in advertisements.
    return parts if "-".join(parts) not in ("078-05-1120", "457-55-5462", "219-09-9999") else draw(ssns())


@given(ssns(), AROUND, AFTER)
def test_a_social_security_number_with_hyphens(parts: tuple[str, str, str], before: str, after: str) -> None:
    written = "-".join(parts)
    (found,) = find_secrets(before + written + after)
    assert (found.kind, found.normal) == ("ssn", "".join(parts))
    assert (found.start, found.end) == (len(before), len(before) + len(written))


@given(ssns(), st.sampled_from(["", " "]), st.sampled_from(["SSN ", "ssn: ", "Social security number is ", "SS# "]))
def test_a_bare_one_needs_a_word_that_says_so(parts: tuple[str, str, str], separator: str, cue: str) -> None:
    written = separator.join(parts)
    assert found_in(cue + written) == [("ssn", written)]
    assert found_in("invoice " + written) == []
    assert found_in(f"{cue}is secret. Row 7: {written}") == []


@pytest.mark.parametrize("number", ["000-12-3456", "666-12-3456", "900-12-3456", "123-00-4567", "123-45-0000"])
def test_numbers_that_are_never_issued_are_no_social_security_numbers(number: str) -> None:
    assert found_in(f"SSN {number}") == []


PHONES = ["({}) {}-{}", "({}){}-{}", "{}-{}-{}", "{}.{}.{}", "{}/{}-{}", "+1 {} {} {}", "+1-{}-{}-{}", "+1{}{}{}"]
PHONES += ["1-{}-{}-{}", "1 ({}) {}-{}", "+1 ({}) {}-{}"]
CODES = st.integers(200, 999).map(str)
LINES = st.integers(0, 9999).map(lambda number: f"{number:04}")


@given(st.sampled_from(PHONES), CODES, CODES, LINES, AROUND, AFTER)
def test_us_telephone_numbers(form: str, area: str, exchange: str, line: str, before: str, after: str) -> None:
    written = form.format(area, exchange, line)
    (found,) = find_secrets(before + written + after)
    assert (found.kind, found.normal) == ("phone", f"+1{area}{exchange}{line}")
    assert (found.start, found.end) == (len(before), len(before) + len(written))
    hidden = (before + written)[slice(*found.hidden)]
    assert re.sub(r"\D", "", hidden) == area + exchange + line


@given(st.sampled_from(["{}{}{}", "{} {} {}", "1 {} {} {}"]), CODES, CODES, LINES)
def test_a_bare_telephone_number_needs_a_word_that_says_so(form: str, area: str, exchange: str, line: str) -> None:
    written = form.format(area, exchange, line)
    assert found_in(f"call {written} now") == [("phone", written)]
    assert found_in(f"order {written} now") == []


@pytest.mark.parametrize(
    ("written", "hidden", "normal"),
    [
        ("+44 20 7946 0958", "20 7946 0958", "+442079460958"),
        ("+49 (0)30 901820", "(0)30 901820", "+4930901820"),
        ("+33 1 23 45 67 89", "1 23 45 67 89", "+33123456789"),
        ("+420-601-123-456", "601-123-456", "+420601123456"),
        ("+442079460958", "442079460958", "+442079460958"),
    ],
)
def test_international_telephone_numbers(written: str, hidden: str, normal: str) -> None:
    text = f"ring {written}."
    (found,) = find_secrets(text)
    assert (found.kind, found.normal, text[found.start : found.end]) == ("phone", normal, written)
    assert text[slice(*found.hidden)] == hidden


LOCAL = st.from_regex(r"[A-Za-z0-9_+-]{1,30}(\.[A-Za-z0-9_]{1,30})?", fullmatch=True)
DOMAIN = st.from_regex(r"([A-Za-z0-9]{1,20}(-[a-z0-9]{1,20})?\.){1,3}[A-Za-z]{2,10}", fullmatch=True)


@given(LOCAL, DOMAIN, AROUND, AFTER)
def test_an_address_hides_its_local_part(local: str, domain: str, before: str, after: str) -> None:
    text = f"{before}{local}@{domain}{after}"
    (found,) = find_secrets(text)
    assert (found.kind, found.normal) == ("email", f"{local}@{domain}".lower())
    assert text[found.start : found.end] == f"{local}@{domain}"
    assert text[slice(*found.hidden)] == local


@pytest.mark.parametrize(
    "text",
    [
        "1234-4111-1111-1111-1111",
        "4111-1111-1111-1111-1111",
        "x4111111111111111",
        "4111111111111111x",
        "94111111111111111111",
        "0.4111111111111111",
        "4111111111111111.5",
        "4111 1111-1111 1111",
        "4444444444444444",
        "AB-123-45-6789",
        "123-45-6789-01",
        "1123-45-6789",
        "5212-555-0123",
        "212-555-01234",
        "112-555-0123",
        "212-155-0123",
        "+1234",
        "+0 20 7946 0958",
        "a@b",
        "x..y@example.org",
        ".x@example.org",
        "x@example.o",
        "x@-example.org",
        "a@b@example.org",
        f"{'x' * 65}@example.org",
    ],
)
def test_parts_of_something_longer_or_broken_are_no_secrets(text: str) -> None:
    assert found_in(text) == []


def test_secrets_do_not_overlap_and_the_longer_kind_has_them() -> None:
    text = "4111111111111111@example.org, +14155550123 and 4111 1111 1111 1111 123; 2024 5555 5555 5555 4444"
    expected = [
        ("email", "4111111111111111@example.org"),
        ("phone", "+14155550123"),
        ("ccn", "4111 1111 1111 1111"),
        ("ccn", "5555 5555 5555 4444"),
    ]
    assert found_in(text) == expected
    assert found_in(text, "phone") == expected[1:2]


@given(st.text(st.sampled_from("0123456789 -.()+@ax"), max_size=80))
def test_what_is_found_is_in_order_apart_and_valid(text: str) -> None:
    found = find_secrets(text)
    assert all(left.end <= right.start for left, right in zip(found, found[1:], strict=False))
    for each in found:
        written = text[each.start : each.end]
        assert DETECTORS[each.kind].valid(written)
        assert each.start <= each.hidden[0] < each.hidden[1] <= each.end


def test_a_finding_does_not_show_what_it_found() -> None:
    (found,) = find_secrets("card 4111 1111 1111 1111")
    assert "4111" not in repr(found)


PREFIXES = ["a1", "DE12 3456 ", "AB1", "eyJa", "0x1", "1.2.", "2001:", "ab-", "commit a1", "https://t.co/a"]
CHARGE = "The west desk charged 4111 1111 1111 1112 for 2 tickets, ask jane@example.org. "


@pytest.mark.slow
@pytest.mark.parametrize("piece", [CHARGE, "212-555-", "a@b.", "+2(0)", "1", "a", *PREFIXES])
def test_time_grows_with_the_text_and_not_with_its_square(piece: str) -> None:
    def spent(characters: int) -> float:
        text = piece * (characters // len(piece))
        started = time.process_time()
        find_secrets(text)
        return time.process_time() - started

    # Its square would be a hundredfold; how fast the machine is cancels out.
    assert spent(1_000_000) < 40 * max(spent(100_000), 0.01)


def test_kinds() -> None:
    assert kinds_of(["ssn", "ccn", "ssn"]) == ["ssn", "ccn"]
    with pytest.raises(OptionError, match="--detect has 'imei': use identifiers, personal, all, email, "):
        kinds_of(["ccn", "imei"])
    with pytest.raises(OptionError, match="--detect has 'sha265'; did you mean 'sha256'"):
        kinds_of(["sha265"])
    with pytest.raises(OptionError, match="--detect names nothing"):
        kinds_of([])
