"""Hash values, git hashes, UUIDs and hexadecimal addresses: uniform over their space by construction."""

from __future__ import annotations

import re
from collections.abc import Mapping

from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.canaries.kinds.detector import HEX, HEX_RUN, Detector, SecretPattern, cue

_DISTINCT = 6
"""A hash of 32 or more digits has fewer distinct digits with a probability below 10^-12."""
_RUN = 6
"""An address that begins or ends with this number of equal digits was searched for: by chance 1 of 500,000 is such an
address."""
_WELL_KNOWN = frozenset(
    (
        # The empty string in MD5, SHA-1 and SHA-256.
        "d41d8cd98f00b204e9800998ecf8427e",
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        # The empty tree and the empty blob of git, with SHA-1 and with SHA-256.
        "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
        "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
        "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
        "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
    )
)
_VERSIONS = {
    "1": "made from the time",
    "2": "made from the time",
    "3": "made from a name",
    "4": "",
    "5": "made from a name",
    "6": "made from the time",
    "7": "made from the time",
}
_NIL, _MAX = "0" * 32, "f" * 32


def _one_case(text: str) -> bool:
    return text in (text.lower(), text.upper())


def _is_constant(digits: str) -> bool:
    """Return True for hexadecimal digits that a person wrote, such as repeated or ascending digits."""
    repeated = any(
        digits == (digits[:period] * len(digits))[: len(digits)] for period in range(1, len(digits) // 2 + 1)
    )
    return repeated or len(set(digits)) < _DISTINCT or "0123456789abcdef" in digits or "fedcba9876543210" in digits


def _is_hash(text: str) -> bool:
    """Return True unless the text has letters of both cases, no letters, no digits, or is a well-known constant."""
    digits = text.lower()
    mixed = not digits.isdecimal() and not digits.isalpha()
    return mixed and _one_case(text) and digits not in _WELL_KNOWN and not _is_constant(digits)


def _hash_in(text: str) -> str:
    return text.rpartition(" ")[2].rpartition("/")[2].lower()


def _is_commit(text: str) -> bool:
    """Return True for the hash of an object of git, in full or abbreviated, if it has both letters and digits."""
    digits = _hash_in(text)
    if len(digits) == 40:
        return _is_hash(digits)
    return not digits.isdecimal() and not digits.isalpha() and len(set(digits)) > 2


def _is_uuid(text: str) -> bool:
    digits = text.replace("-", "").lower()
    return _one_case(text) and digits not in (_NIL, _MAX) and not _is_constant(digits)


def _uuid_declined(text: str) -> str:
    # RFC 9562: the variant that the versions belong to is binary 10.
    if text[19].lower() not in "89ab":
        return "of another variant"
    return _VERSIONS.get(text[14], "of an unknown version")


def _address_declined(text: str) -> str:
    digits = text[2:]
    if not _one_case(digits):
        return "with a checksum in its capitals"
    ends = digits.lower()[:_RUN], digits.lower()[-_RUN:]
    return "chosen for its digits" if any(len(set(end)) == 1 for end in ends) else ""


def _hex(pattern: str, *, cued: bool = False) -> SecretPattern:
    return SecretPattern(re.compile(rf"(?<![A-Za-z0-9]){pattern}(?![A-Za-z0-9])"), cued, HEX_RUN)


def _digest(length: int) -> Detector:
    forms = (_hex(rf"(?P<hex>[0-9A-Fa-f]{{{length}}})"),)
    return Detector(forms, str.lower, "identifiers", "low", _is_hash, {"hex": HEX}, uniform=True)


def _git(begin: str, pattern: str = r"(?P<hex>[0-9a-f]{7,12})") -> SecretPattern:
    return SecretPattern(re.compile(rf"{begin}{pattern}(?![A-Za-z0-9])"))


_GIT = (
    _hex(r"(?P<hex>[0-9A-Fa-f]{40})", cued=True),
    _git(r"commit (?<![A-Za-z0-9]commit )"),
    _git(r"Commit (?<![A-Za-z0-9]Commit )"),
    _git(r"Fixes: (?<![A-Za-z0-9]Fixes: )"),
    _git(r"/commit/"),
    _git(r"index ", r"(?P<hex>[0-9a-f]{7,12})(?=\.\.[0-9a-f]{7,12}\b)"),
)
_UUID = (
    r"(?<![A-Za-z0-9]-)(?P<hex1>[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-)[0-9A-Fa-f](?P<hex2>[0-9A-Fa-f]{3}-)"
    r"(?P<variant>[0-9A-Fa-f])(?P<hex3>[0-9A-Fa-f]{3}-[0-9A-Fa-f]{12})(?!-[A-Za-z0-9])"
)
_VARIANT = (Alphabet("variant", tuple("89ab")), Alphabet("variant_capitals", tuple("89AB")))

HASHES: Mapping[str, Detector] = {
    "uuid": Detector(
        (_hex(_UUID),),
        str.lower,
        "identifiers",
        "low",
        _is_uuid,
        {"hex": HEX, "variant": _VARIANT},
        uniform=True,
        declined=_uuid_declined,
        needs="-",
    ),
    "eth_address": Detector(
        (SecretPattern(re.compile(r"0x(?<![A-Za-z0-9]0x)(?P<hex>[0-9A-Fa-f]{40})(?![A-Za-z0-9])")),),
        str.lower,
        "identifiers",
        "low",
        lambda text: not _is_constant(text[2:].lower()),
        {"hex": HEX},
        uniform=True,
        declined=_address_declined,
        needs=("0x",),
    ),
    "git": Detector(
        _GIT,
        _hash_in,
        "identifiers",
        "low",
        _is_commit,
        {"hex": HEX},
        uniform=True,
        cue=cue("git|commit|revision|changeset|parent|tree|blob|merged?|cherry"),
        same_as="sha1",
    ),
    "md5": _digest(32),
    "sha1": _digest(40),
    "sha256": _digest(64),
}
"""Random identifiers in hexadecimal digits. A UUID is RFC 9562, its version 4 has 122 random bits; an Ethereum address
is the end of a Keccak hash, and EIP-55 writes a checksum of the address in its capitals."""
