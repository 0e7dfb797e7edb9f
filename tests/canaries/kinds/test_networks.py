"""Addresses of the internet: those that python's ipaddress calls global."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.canaries.detect import find_secrets
from tests.canaries.kinds.checks import AFTER, canaries_of, canary_of, only


@given(st.ip_addresses(v=4), AFTER)
def test_an_address_of_four_numbers_is_found_if_it_is_public(address: ipaddress.IPv4Address, after: str) -> None:
    text = f"from {address}{after}"
    public = address.is_global and not address.is_multicast and max(address.packed) >= 32
    assert [found.normal for found in find_secrets(text)] == [str(address)] * public
    if public:
        canary = canary_of(text, "ipv4")
        assert canary.space.size == 2**32
        assert canary.secret == tuple(str(address).split("."))


@given(st.integers(0, 2**125 - 1), st.booleans(), AFTER)
def test_an_address_of_version_6_is_found_in_each_form(number: int, full: bool, after: str) -> None:
    address = ipaddress.IPv6Address(2**125 + number)
    written = address.exploded if full else address.compressed
    if not address.is_global or written.endswith("::"):
        return
    found = only(f"from {written}{after}")
    assert (found.kind, found.normal) == ("ipv6", str(address))
    assert canary_of(f"from {written}{after}", "ipv6").space.size == 16 ** len(written[5:].replace(":", ""))


@pytest.mark.parametrize(
    "text",
    ["192.168.10.200", "10.0.0.99", "127.0.0.1", "fe80::1:2", "2001:db8::1", "version 2.1.0.3", "81.2.69.999",
     "v81.2.69.142", "81.2.69.142.7", "std::string", "a::b", "12:30:45", "224.0.0.251"],
)  # fmt: skip
def test_private_addresses_versions_and_code_are_no_public_addresses(text: str) -> None:
    assert find_secrets(text) == []


def test_controls_are_public_addresses() -> None:
    _, *controls = canaries_of("from 81.2.69.142", "ipv4", controls=40)
    assert all(ipaddress.ip_address(control.text.removeprefix("from ")).is_global for control in controls)
