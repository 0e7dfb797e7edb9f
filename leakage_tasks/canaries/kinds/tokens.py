"""API keys and access tokens whose prefix, length and alphabet their issuers publish.

AWS: "IAM identifiers" in the IAM user guide. GitHub: "GitHub's token formats" in the documentation, and "Behind
GitHub's new authentication token formats" (2021). Google: "API keys" in the Cloud documentation. Slack: "Tokens" in the
API documentation. Stripe: "API keys" in the documentation. JSON web tokens: RFC 7519.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.canaries.kinds.detector import BASE62, BASE64URL, Detector, SecretPattern, after

_BASE32 = (Alphabet("base32", tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")),)
_NOT_BASE64URL = r"(?![A-Za-z0-9_\-])"


def _varied(text: str) -> bool:
    """Return False for a token that a person wrote as an example, such as one that ends in equal characters."""
    return len(set(text[-8:])) > 2 and "EXAMPLE" not in text


def _signed(text: str) -> str:
    return "signed, with readable content"


def _token(base: tuple[Alphabet, ...], *needs: str, forms: Iterable[SecretPattern], uniform: bool = False) -> Detector:
    """Return the detector of a random token whose ``forms`` contain one of ``needs``."""
    return Detector(tuple(forms), str, "identifiers", "high", _varied, {"base": base}, uniform, needs=needs)


TOKENS: Mapping[str, Detector] = {
    # The first characters after the prefix encode the number of the account, which all keys of the account share.
    "aws_key": _token(
        _BASE32,
        "AKIA",
        "ASIA",
        forms=(after(prefix, r"[A-Z2-7]{9}(?P<base>[A-Z2-7]{7})") for prefix in ("AKIA", "ASIA")),
    ),
    # The last six characters are a checksum of the thirty random ones.
    "github_token": _token(
        BASE62,
        *(f"gh{kind}_" for kind in "pousr"),
        forms=(after(f"gh{kind}_", r"(?P<base>[0-9A-Za-z]{30})(?P<check>[0-9A-Za-z]{6})") for kind in "pousr"),
        uniform=True,
    ),
    "google_key": _token(BASE64URL, "AIza", forms=[after("AIza", r"(?P<base>[0-9A-Za-z_\-]{35})", end=_NOT_BASE64URL)]),
    # The numbers in the middle name the team and the user.
    "slack_token": _token(
        BASE62,
        "xox",
        forms=(after(f"xox{kind}-", r"(?:[0-9]{9,14}-){1,3}(?P<base>[0-9A-Za-z]{24,34})") for kind in "abprs"),
    ),
    "stripe_key": _token(
        BASE62,
        "k_live_",
        "k_test_",
        forms=(
            after(f"{kind}k_{mode}_", r"(?P<base>[0-9A-Za-z]{24,99})") for kind in "sr" for mode in ("live", "test")
        ),
    ),
    # The first characters are enough to recognise a token, which may be longer than any other secret.
    "jwt": Detector(
        (
            after(
                "eyJ",
                r"(?P<base>[0-9A-Za-z_\-]{8,100}\.eyJ[0-9A-Za-z_\-]{8,200}(?:\.[0-9A-Za-z_\-]{1,90})?)",
                end="",
            ),
        ),
        str,
        "identifiers",
        "high",
        alphabets={"base": BASE64URL},
        declined=_signed,
        needs=("eyJ",),
    ),
}
"""Tokens that give access to an account."""
