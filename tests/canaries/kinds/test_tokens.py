"""API keys: found by their prefix, alphabet and length, with the part that is random as their space."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.canaries.detect import find_secrets
from tests.canaries.kinds.checks import AFTER, AROUND, canary_of, only

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
TEAM = "123456789012-1234567890123-"
FORMS = [
    ("aws_key", "AKIA", BASE32, 16, 32**7),
    ("aws_key", "ASIA", BASE32, 16, 32**7),
    ("github_token", "ghp_", BASE62, 36, 62**30),
    ("github_token", "ghr_", BASE62, 36, 62**30),
    ("google_key", "AIza", f"{BASE62}-_", 35, 64**35),
    ("slack_token", f"xoxb-{TEAM}", BASE62, 24, 62**24),
    ("stripe_key", "sk_live_", BASE62, 24, 62**24),
    ("stripe_key", "rk_test_", BASE62, 99, 62**99),
]


@given(st.sampled_from(FORMS), st.data(), AROUND, AFTER)
def test_a_key_has_the_space_of_its_random_part(form: tuple, data: st.DataObject, before: str, after: str) -> None:
    kind, prefix, alphabet, length, size = form
    text = st.text(alphabet, min_size=length, max_size=length)
    written = prefix + data.draw(text.filter(lambda made: len(set(made[-8:])) > 2 and "EXAMPLE" not in made))
    found = only(before + written + after)
    assert (found.kind, found.normal, found.start) == (kind, written, len(before))
    canary = canary_of(before + written + after, kind)
    assert canary.space.size == size
    assert (before + written).endswith("".join(canary.secret) + ("" if kind != "github_token" else written[-6:]))


@pytest.mark.parametrize(
    "text",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "AKIAABCDEFGHIJKLMNO1",
        "xAKIAABCDEFGHIJKLMNOP",
        "AKIAABCDEFGHIJKLMNOPQ",
        "ghp_" + "a" * 36,
        "ghp_" + BASE62[:35],
        "AIza" + BASE62[:36],
        "sk_live_short",
        "xoxb-" + BASE62[:24],
    ],
)
def test_examples_and_other_lengths_are_no_keys(text: str) -> None:
    assert find_secrets(text) == []


def test_a_web_token_is_recognised_and_declined() -> None:
    header, body = "eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiIxMjM0NTY3ODkwIn0"
    assert only(f"Bearer {header}.{body}.SflKxwRJSMeKKF2QT4fwpM").declined
    assert find_secrets(f"Bearer {header}") == []
