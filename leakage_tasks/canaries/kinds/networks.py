"""Public addresses of the internet protocol; private and reserved ranges are left out."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping

from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.canaries.kinds.detector import HEX, Detector, SecretPattern, form

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_SMALL = 32
"""Four numbers below this limit are more often the number of a version or a section than an address."""


def _is_global(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return address.is_global and not address.is_multicast


def _is_address(text: str) -> bool:
    return max(map(int, text.split("."))) >= _SMALL and _is_global(text)


NETWORKS: Mapping[str, Detector] = {
    "ipv4": Detector(
        (form(rf"(?P<octet1>{_OCTET})\.(?P<octet2>{_OCTET})\.(?P<octet3>{_OCTET})\.(?P<octet4>{_OCTET})"),),
        str,
        "personal",
        "low",
        _is_address,
        {"octet": (Alphabet("octet", tuple(map(str, range(256)))),)},
    ),
    "ipv6": Detector(
        (
            SecretPattern(
                re.compile(
                    r"[23](?<![A-Za-z0-9_:.].)[0-9A-Fa-f]{3}:(?P<hex>(?:[0-9A-Fa-f]{0,4}:){1,6}[0-9A-Fa-f]{1,4})"
                    r"(?![A-Za-z0-9_]|:[0-9A-Fa-f:]|\.[0-9])"
                )
            ),
        ),
        lambda text: str(ipaddress.ip_address(text)),
        "personal",
        "low",
        lambda text: text in (text.lower(), text.upper()) and _is_global(text),
        {"hex": HEX},
        needs=":",
    ),
}
"""Addresses of computers, by which a person can be identified."""
