"""What the tests of all kinds need: texts around a secret, the only secret of a text, and its canary."""

from __future__ import annotations

from hypothesis import strategies as st

from leakage_tasks.canaries import Canary
from leakage_tasks.canaries.detect import DetectedSecret, find_secrets
from leakage_tasks.canaries.natural import Passage, natural_canaries

AROUND = st.sampled_from(["", "say ", "卡号", "naïve: ", "«", "(", "\n", "€ ", "\U0001f600", "=", "ß "])
AFTER = st.sampled_from(["", " then", "です", ", é", "»", ")", "\n", ".", "\U0001f600", "; ", "?"])


def only(text: str) -> DetectedSecret:
    """The only secret of a text."""
    (found,) = find_secrets(text)
    return found


def canaries_of(text: str, kind: str, controls: int = 0) -> list[Canary]:
    """The canaries of a kind in a text."""
    return natural_canaries([Passage(text)], detect=[kind], controls=controls, seed=1)


def canary_of(text: str, kind: str) -> Canary:
    """The only canary of a kind in a text; its text is in the text."""
    (canary,) = canaries_of(text, kind)
    assert canary.text in text
    return canary
