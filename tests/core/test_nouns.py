"""Numbers of things, in their singular and plural, and p-values near a level."""

from __future__ import annotations

import pytest

from leakage_tasks.core.nouns import counted, p_text


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


@pytest.mark.parametrize(
    ("p", "level", "text"),
    [
        (0.0304, 0.05, "0.03"),
        (0.0496, 0.05, "0.05"),
        (0.05, 0.05, "0.05"),
        (0.05000000000000001, 0.05, "0.05"),
        (0.0504, 0.05, "0.0504"),
        (0.050004, 0.05, "0.050004"),
        (0.0504, 0.01, "0.05"),
        (0.0, 0.05, "0"),
        (1.0, 0.05, "1"),
    ],
)
def test_a_p_value_stays_on_its_side_of_the_level(p: float, level: float, text: str) -> None:
    assert p_text(p, level) == text
