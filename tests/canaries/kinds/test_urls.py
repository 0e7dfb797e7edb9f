"""Short links and video ids: the alphabet of their host, and a last character that cannot be all of it."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.canaries.detect import find_secrets
from tests.canaries.kinds.checks import AFTER, canary_of, only

HOSTS = ["youtu.be/", "https://youtu.be/", "https://www.youtube.com/watch?v=", "https://youtube.com/watch?v="]


@given(st.sampled_from(HOSTS), st.binary(min_size=8, max_size=8), AFTER)
def test_a_video_id_is_a_number_of_64_bits(host: str, number: bytes, after: str) -> None:
    name = base64.urlsafe_b64encode(number).decode().rstrip("=")
    found = only(f"see {host}{name}{after}")
    assert (found.kind, found.normal) == ("youtube", name)
    canary = canary_of(f"see {host}{name}{after}", "youtube")
    assert canary.space.size == 2**64
    assert len(base64.urlsafe_b64decode("".join(canary.space.at(2**64 - 1)) + "=")) == 8


@pytest.mark.parametrize(
    ("text", "size"),
    [("https://bit.ly/3aBcD4e", 62**6), ("goo.gl/fbsS3x", 62**6), ("(https://t.co/aB3dE6gH9j)", 62**10)],
)
def test_a_short_link_has_the_letters_and_digits_of_its_host(text: str, size: int) -> None:
    canary = canary_of(text, "short_url")
    assert canary.space.size == size
    assert canary.uniform is False


@pytest.mark.parametrize(
    "text",
    ["bit.ly/3reports", "rabbit.ly/3aBcD4e", "https://reddit.co/aB3dE6gH9j", "bit.ly/aBcDeFg", "youtu.be/dQw4w9WgXcR"],
)
def test_words_other_hosts_and_other_last_characters_are_not_random(text: str) -> None:
    assert find_secrets(text) == []
