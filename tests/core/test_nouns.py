"""Numbers of things, in their singular and plural."""

from __future__ import annotations

import pytest

from leakage_tasks.core.nouns import counted


@pytest.mark.parametrize(
    ("number", "noun", "words"),
    [
        (1, "row", "1 row"),
        (0, "row", "0 rows"),
        (2000, "canary", "2,000 canaries"),
        (2, "process", "2 processes"),
    ],
)
def test_a_number_has_its_plural(number: int, noun: str, words: str) -> None:
    assert counted(number, noun) == words
