"""The declarations of the kinds: severity, groups, and the bits that rules take from a space."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from leakage_tasks.canaries.detect import DETECTORS, GROUPS, detector_of, find_secrets, kinds_of, severity_of
from leakage_tasks.canaries.kinds.detector import CHECK, Severity
from leakage_tasks.canaries.kinds.names import NAMES
from tests.canaries.kinds.checks import canary_of

KINDS = (*DETECTORS, *NAMES)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_has_a_severity_and_is_part_of_an_id(kind: str) -> None:
    assert severity_of(kind) in get_args(Severity)
    # The id of a canary ends in a hyphen and its kind.
    assert re.fullmatch(r"\w+", kind)


@pytest.mark.parametrize("kind", DETECTORS)
def test_each_part_of_a_form_has_its_alphabet(kind: str) -> None:
    detector = detector_of(kind)
    names = {name.rstrip("0123456789") for form in detector.forms for name in form.pattern.groupindex}
    assert names - {CHECK} <= detector.alphabets.keys()
    assert not (detector.uniform and detector.rule_bits)


def test_a_group_stands_for_its_kinds() -> None:
    assert {*GROUPS["identifiers"]} | {*GROUPS["personal"]} == {*GROUPS["all"]} == {*DETECTORS}
    assert kinds_of(["personal", "uuid", "ssn"]) == [*GROUPS["personal"], "uuid"]


RULED = {
    "ccn": "card 4111 1111 1111 1111",
    "iban": "pay GB82 WEST 1234 5698 7654 32",
    "de_idnr": "steuer-id 36574261809",
}


@pytest.mark.parametrize("kind", [kind for kind in DETECTORS if detector_of(kind).rule_bits])
def test_rules_take_at_least_the_declared_bits_of_a_space(kind: str) -> None:
    canary, detector, draws = canary_of(RULED[kind], kind), detector_of(kind), 4000
    start = RULED[kind].index(canary.text.split(" ", 1)[1])
    check = len(RULED[kind]) - len(canary.text)
    texts = (canary.space.fill(filling)[start:] for filling in canary.space.sample(draws, seed=0))
    share = sum(detector.recognises(text, check) for text in texts) / draws
    expected = 2**-detector.rule_bits
    assert 0 < share < expected + 4 * (expected / draws) ** 0.5


PROSE = (
    "The quick brown fox, born in 1984, paid 12.50 EUR on 2024-03-01 at 12:30:45 and left; see section 1.2.3.4 of\n"
    "version 10.2.0.1 or std::vector<a::b> in FACADE-DECADE. Its face faded: a deadbeef cafe in a decade.\n"
    "Call 911, room 4111, ISBN 978-3-16-148410-0, ratio 3/4, order 20240301-0001, 1,000,000.00 and 0x7fff.\n"
)


def test_a_text_without_identifiers_has_none() -> None:
    assert find_secrets(PROSE) == []
