"""One canary, one pair, one run: what the page tells of them, as JSON-able words and figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from leakage_tasks.attacks.finding import EXTRAPOLATED, Finding
from leakage_tasks.metrics.suffixes import p_z, recalled
from leakage_tasks.report.reading.findings import CanaryDetail, PairDetail
from leakage_tasks.report.reading.format import NOTHING, number

SLOTS = 200
"""The most slots or tokens of one secret or guess that are shown."""
_METHODS = {
    "exact": "exact",
    "estimated": "estimated from draws",
    "sampled": "from a uniform sample",
    "extrapolated": "extrapolated from a fitted distribution",
    "lower_bound": "at most: the search was cut short",
    "banded": "the band it is in",
}


def tell_canary(canary: CanaryDetail) -> dict[str, Any]:
    """A canary: ``head`` (id, times planted, exposure, outcome), ``facts`` as pairs, ``secret`` and ``guesses``."""
    return {
        "head": [canary.id, _planted(canary), _exposure(canary), _outcome(canary)],
        "hit": canary.extracted is True,
        "facts": list(_facts(canary)),
        "secret": None if canary.secret is None else list(canary.secret[:SLOTS]),
        "guesses": _guesses(canary),
        "note": _note(canary),
    }


def tell_pair(pair: PairDetail) -> dict[str, Any]:
    """A pair: ``cells`` for :data:`PAIR_HEADS`, and its tokens where they are shown."""
    reading = pair.reading
    choice, chance = reading.choice, p_z(reading)
    place = NOTHING if choice.place is None else f"{choice.place:,} of {reading.view.distinct:,}"
    cells = [
        str(reading.pair),
        "yes" if recalled(reading) else "no",
        number(chance),
        place,
        number(choice.wrong),
        f"{choice.count:,} of {reading.view.samples:,}",
    ]
    told: dict[str, Any] = {"cells": cells, "hit": bool(recalled(reading))}
    if pair.suffix:
        told["prefix"] = " ".join(map(str, pair.prefix[-SLOTS:]))
        told["secret"] = list(map(str, pair.suffix[:SLOTS]))
        told["guesses"] = [_tokens(guess, pair.suffix) for guess in pair.guesses]
    return told


PAIR_HEADS = (
    ("Pair", "its id in the data"),
    ("Recalled", "whether the guess is the true suffix, token for token"),
    ("p_z", "probability of the true suffix in one draw"),
    ("Place", "of the true suffix among the different suffixes drawn, surest first; a dash: never drawn"),
    ("Tokens wrong", "share of the guess's tokens that are wrong"),
    ("Draws", "how many of the draws were the guess"),
)
"""Heads of the table of pairs, each with what it means."""


def canary_order(canary: CanaryDetail) -> tuple[bool, bool, float, str]:
    """Planted before controls, then the most exposed first."""
    bits = canary.bits
    return not canary.planted, not canary.extracted, math.inf if bits is None else -bits, canary.id


def pair_order(pair: PairDetail) -> tuple[float, float, int]:
    """The likeliest suffixes first, then the guesses with the fewest wrong tokens."""
    chance = p_z(pair.reading)
    return math.inf if chance is None else -chance, pair.reading.choice.wrong, pair.reading.pair


def _planted(canary: CanaryDetail) -> str:
    if not canary.planted:
        return "control, never planted"
    times = "once" if canary.repetitions == 1 else f"{canary.repetitions:,} times"
    return f"in the data {times}" if canary.kind == "natural" else f"planted {times}"


def _exposure(canary: CanaryDetail) -> str:
    found = canary.exposure
    return NOTHING if found is None or found.exposure is None else _exposure_of(found)


def _exposure_of(found: Finding) -> str:
    if found.exposure_ends is not None and found.method != "lower_bound":
        least, most = found.exposure_ends
        return f"{number(least)} to {number(most)} of {number(found.log2_size)} bits"
    at_least = "at least " if found.method == "lower_bound" else ""
    return f"{at_least}{_bits(found)}"


def _bits(found: Finding) -> str:
    """The exposure beside its largest value, which an extrapolated one may exceed."""
    if found.method == EXTRAPOLATED:
        return f"{number(found.exposure)} bits, extrapolated; the space has {number(found.log2_size)}"
    return f"{number(found.exposure)} of {number(found.log2_size)} bits"


def _outcome(canary: CanaryDetail) -> str:
    if canary.within_ten is not None:
        return f"{'' if canary.within_ten else 'not '}among the ten first guesses"
    if canary.extracted is None:
        return ""
    place = canary.extraction.place if canary.extraction is not None else None
    if canary.extracted or place is None:
        return "extracted" if canary.extracted else "not extracted"
    return f"guess {place} is right"


def _facts(canary: CanaryDetail) -> list[tuple[str, str]]:
    facts = [("Kind", canary.kind)]
    if canary.template is not None:
        facts.append(("Template", canary.template))
    if canary.label is not None:
        facts.append(("Label", canary.label))
    if canary.exposure is not None:
        facts += _ranked(canary.exposure)
    if canary.extraction is not None:
        facts += _searched(canary.extraction)
    return facts


def _ranked(found: Finding) -> list[tuple[str, str]]:
    facts = [("Exposure", _exposure_of(found))]
    if found.method == EXTRAPOLATED:
        facts.append(("Skew-normal fit", _fit(found.extra)))
    if found.rank is not None:
        ends = "" if found.rank_low is None or found.rank_high is None else _ends(found.rank_low, found.rank_high)
        how = _METHODS.get(found.method or "", found.method or "")
        facts.append(("Rank", f"{_count(found.rank)}{ends} of {_size(found.log2_size)}" + (f", {how}" if how else "")))
    if found.log_perplexity is not None:
        facts.append(("Cost of the whole text", f"{number(found.log_perplexity)} bits"))
    facts.append(("Ranked by", _effort(found)))
    return facts


def _fit(fit: Mapping[str, Any]) -> str:
    judged = "rejected: the exposure is not to be trusted" if fit["rejected"] else "not rejected; its tail is untested"
    return f"{judged} (Kolmogorov-Smirnov {number(fit['ks'])}, p = {number(fit['p_value'])}, {fit['draws']:,} fillings)"


def _searched(found: Finding) -> list[tuple[str, str]]:
    facts = [("Guessed by", _effort(found))]
    if found.place is not None and not found.coarse:
        facts.append(("The secret is", f"guess {found.place}"))
    if found.proven:
        best = "the best guess is" if found.proven == 1 else f"the first {found.proven} guesses are"
        facts.append(("Proven", f"{best} certain to be the likeliest of all"))
    return facts


def _effort(found: Finding) -> str:
    return found.attack if found.model_calls is None else f"{found.attack}, {found.model_calls:,} sequences scored"


def _guesses(canary: CanaryDetail) -> list[dict[str, Any]]:
    found = canary.guessed
    if found is None:
        return []
    if not found.guesses:
        right = canary.right(0)
        # The mask alone: which slots of the best guess were right, not what they hold.
        return [] if not right else [_guess(["•"] * len(right), right, "")]
    return [
        _guess(list(guess.filling), canary.right(place), f"{number(guess.score)} bits")
        for place, guess in enumerate(found.guesses)
    ]


def _guess(slots: list[str], right: Sequence[bool] | None, cost: str) -> dict[str, Any]:
    told: dict[str, Any] = {"slots": slots[:SLOTS], "cost": cost, "cut": max(0, len(slots) - SLOTS)}
    if right is not None:
        told["right"] = "".join("1" if each else "0" for each in right[:SLOTS])
        told["said"] = f"{sum(right):,} of {len(right):,} right"
    return told


def _tokens(guess: Sequence[int], suffix: Sequence[int]) -> dict[str, Any]:
    right = [left == true for left, true in zip(guess, suffix, strict=False)]
    # Negative ids stand where a draw had ended.
    return _guess([str(token) if token >= 0 else "end" for token in guess[: len(right)]], right, "")


def _note(canary: CanaryDetail) -> str:
    if canary.kind == "natural" and canary.template is None and canary.secret is None:
        return (
            "A natural secret: what it holds and what was guessed is not shown, and of its rank the power of ten alone,"
            " so that nobody can confirm a guess at it."
        )
    return ""


def _ends(low: float, high: float) -> str:
    return f" [{_count(low)}, {_count(high)}]"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value < 1e12 else f"{value:.1e}"


def _size(log2_size: float) -> str:
    """The number of possible secrets."""
    return _count(2**log2_size) if log2_size < 1000 else f"2^{log2_size:,.0f}"
