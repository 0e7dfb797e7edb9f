"""Hashes, git hashes, UUIDs and addresses: found whole, with the space that their definition gives, or declined."""

from __future__ import annotations

import hashlib
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.canaries.detect import find_secrets
from tests.canaries.kinds.checks import AFTER, AROUND, canary_of, only

HASHES = {"md5": hashlib.md5, "sha1": hashlib.sha1, "sha256": hashlib.sha256}


@given(st.sampled_from(sorted(HASHES)), st.binary(min_size=1), st.booleans(), AROUND, AFTER)
def test_a_hash_has_four_bits_for_each_digit(
    kind: str, content: bytes, capitals: bool, before: str, after: str
) -> None:
    made = HASHES[kind](content)
    written = made.hexdigest().upper() if capitals else made.hexdigest()
    found = only(before + written + after)
    assert (found.kind, found.normal) == (kind, made.hexdigest())
    assert (found.start, found.end) == found.hidden == (len(before), len(before) + len(written))
    canary = canary_of(before + written + after, kind)
    assert canary.space.size == 2 ** (8 * made.digest_size)
    assert canary.uniform is True


@given(st.integers(0, 2**128 - 1), st.booleans(), AROUND, AFTER)
def test_a_random_uuid_has_122_bits(number: int, capitals: bool, before: str, after: str) -> None:
    made = uuid.UUID(int=number, version=4)
    written = str(made).upper() if capitals else str(made)
    if len(set(made.hex)) < 6:
        return
    assert only(before + written + after).normal == str(made)
    canary = canary_of(before + written + after, "uuid")
    assert canary.space.size == 2**122
    for filling in canary.space.sample(5, seed=0):
        twin = uuid.UUID(canary.space.fill(filling)[-36:])
        assert (twin.version, twin.variant) == (4, uuid.RFC_4122)


def with_version(number: int, version: int) -> uuid.UUID:
    digits = uuid.UUID(int=number, version=4).hex
    return uuid.UUID(f"{digits[:12]}{version:x}{digits[13:]}")


@pytest.mark.parametrize("version", [0, 1, 2, 3, 5, 6, 7, 8, 15])
def test_other_versions_of_a_uuid_are_declined(version: int) -> None:
    found = only(f"id {with_version(0x12345678_9ABC_4DEF_8123_456789ABCDEF**1, version)} ok")
    assert (found.kind, bool(found.declined)) == ("uuid", True)


def test_the_uuids_of_python_are_declined_unless_they_are_random() -> None:
    assert only(f"id {uuid.uuid1()}").declined == "made from the time"
    assert only(f"id {uuid.uuid5(uuid.NAMESPACE_DNS, 'example.org')}").declined == "made from a name"
    assert only("id 0f3ad0c1-9a2b-4c5d-c123-456789abcde0").declined == "of another variant"


@pytest.mark.parametrize(
    "text",
    [
        hashlib.md5(b"").hexdigest(),
        hashlib.sha1(b"").hexdigest(),
        hashlib.sha256(b"").hexdigest(),
        hashlib.sha1(b"tree 0\0").hexdigest(),
        hashlib.sha1(b"blob 0\0").hexdigest(),
        hashlib.sha256(b"tree 0\0").hexdigest(),
        hashlib.sha256(b"blob 0\0").hexdigest(),
        "0" * 32,
        "f" * 40,
        "deadbeef" * 4,
        "0123456789abcdef" * 2,
        "12345678901234567890123456789012",
        "abcdefabcdefabcdefabcdefabcdefab",
        "D41d8cd98f00b204e9800998ecf8427a",
        "d41d8cd98f00b204e9800998ecf8427ag",
        "d41d8cd98f00b204e9800998ecf8427",
        str(uuid.UUID(int=0)),
        str(uuid.UUID(int=2**128 - 1)),
        "0x" + "0" * 39 + "1",
        "commit 1234567",
        "commit facaded",
        "commitment 83db48f",
        "a commit of 83db48f8",
    ],
)
def test_constants_words_and_parts_are_no_identifiers(text: str) -> None:
    assert find_secrets(text) == []


@pytest.mark.parametrize(
    ("before", "written", "after", "bits"),
    [
        ("commit ", "83db48f86b1de1bd23fa63c2e2d1ab3ad3f3ff5c", "\n", 160),
        ("reverts git revision ", "83db48f86b1de1bd23fa63c2e2d1ab3ad3f3ff5c", "", 160),
        ("commit ", "83db48f", " fixes it", 28),
        ("Fixes: ", "83db48f86b1d", ' ("x")', 48),
        ("https://example.org/a/b/commit/", "83db48f", "", 28),
        ("index ", "83db48f", "..bf2a1c3 100644", 28),
    ],
)
def test_a_git_hash_may_be_short_after_a_word_that_names_it(before: str, written: str, after: str, bits: int) -> None:
    canary = canary_of(before + written + after, "git")
    assert canary.space.size == 2**bits
    assert "".join(canary.secret) == written


ADDRESS = "0x52908400098527886e0f7030069857d2e4169ee7"


def test_an_address_with_a_checksum_in_its_capitals_is_declined() -> None:
    assert canary_of(f"to {ADDRESS}", "eth_address").space.size == 2**160
    assert canary_of(f"to {ADDRESS.upper().replace('X', 'x')}", "eth_address").space.size == 2**160
    mixed = only("to 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed")
    assert mixed.declined == "with a checksum in its capitals"
    assert only(f"to 0x000000{ADDRESS[8:]}").declined == "chosen for its digits"
