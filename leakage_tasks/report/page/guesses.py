"""Guesses of a secret for the page: slots side by side, right ones marked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from leakage_tasks.report.load.findings import CanaryDetail
from leakage_tasks.report.load.format import number

SLOTS = 200
"""Maximum number of slots or tokens shown of one secret or guess."""


def guesses_of(canary: CanaryDetail) -> list[dict[str, Any]]:
    """Describe the guesses of a canary, the best first."""
    finding = canary.guessed
    if finding is None:
        return []
    if not finding.guesses:
        right = canary.right(0)
        # Only the mask is known: which slots of the best guess were right, not their text.
        return [] if not right else [_guess(["•"] * len(right), right, "")]
    return [
        _guess(list(guess.filling), canary.right(index), f"{number(guess.score)} bits")
        for index, guess in enumerate(finding.guesses)
    ]


def _guess(slots: list[str], right: Sequence[bool] | None, cost: str) -> dict[str, Any]:
    """Describe a guess: ``slots``, ``right`` (1 or 0 per slot, if known), ``heard`` by screen readers, ``words``."""
    known = () if right is None else right[:SLOTS]
    hits = ", ".join(str(place) for place, hit in enumerate(known, 1) if hit)
    score = [] if right is None else [f"{sum(right):,} of {len(right):,} right"]
    cut = [f"first {SLOTS} of {len(slots):,} shown"] if len(slots) > SLOTS else []
    return {
        "slots": slots[:SLOTS],
        "right": "".join("1" if hit else "0" for hit in known),
        "heard": f"right slots: {hits}" if hits else "",
        "words": ", ".join([*score, *([cost] if cost else []), *cut]),
    }


def joined(slots: Iterable[str]) -> str:
    """Return slots as one text with a space between neighbours; a space within a slot is shown as ␣."""
    # The marks keep a slot that is written from right to left in its place.
    shown = (slot if slot.isascii() else f"\u2068{slot}\u2069" for slot in slots)
    return " ".join(slot.replace(" ", "␣") for slot in shown)


def marked(guess: Mapping[str, Any]) -> list[tuple[bool, str]]:
    """Return the text of a guess in parts of neighbouring slots, each with True if its slots are right."""
    judged = zip(guess["right"].ljust(len(guess["slots"]), "0"), guess["slots"], strict=False)
    return [(hit == "1", joined(slot for _, slot in part)) for hit, part in groupby(judged, itemgetter(0))]


def token_guess(guess: Sequence[int], suffix: Sequence[int]) -> dict[str, Any]:
    """Describe a guess of token ids, compared with the true suffix."""
    right = [left == true for left, true in zip(guess, suffix, strict=False)]
    # A negative id marks positions after the end of a draw.
    return _guess([str(token) if token >= 0 else "end" for token in guess[: len(right)]], right, "")
