"""Secrets that are nobody's any more, since everybody can make them."""

from __future__ import annotations

from collections.abc import Iterable

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.generate import make_canaries

TEMPLATES = ("The random number of {unique} is {digits:9}.", "The random number of {unique}: {digits:9}.")
"""What README had planted with seed 0, and what the demo plants."""
NUMBER = 16


def public(canaries: Iterable[Canary]) -> bool:
    """Whether one of ``canaries`` has the text of one that this package's README or demo made for all its readers."""
    shared = {each.text for template in TEMPLATES for each in make_canaries(template, NUMBER, controls=NUMBER, seed=0)}
    return any(canary.text in shared for canary in canaries)
