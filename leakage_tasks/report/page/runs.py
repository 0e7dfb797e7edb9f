"""What the page tells of each run when a reader picks it: its tasks, its plots, its canaries and pairs, JSON-able."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from leakage_tasks.attacks.finding import EXTRAPOLATED, Finding
from leakage_tasks.metrics.audit import AuditFigure
from leakage_tasks.metrics.suffix_values import p_z, recalled
from leakage_tasks.metrics.tiers import planted_words
from leakage_tasks.report.board.board import Board, Entry
from leakage_tasks.report.load.findings import CanaryDetail, Details, PairDetail, read_details
from leakage_tasks.report.load.format import NOTHING, flag_words, interval, number
from leakage_tasks.report.load.run import Run
from leakage_tasks.report.load.samples import audit_of
from leakage_tasks.report.page.spreads import exposures, repetitions

MOST, IN_ALL, LEAST = 300, 3000, 20
"""The most canaries, and pairs, that are shown of a run and of all runs; and how many each run may show at least."""

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
PAIR_HEADS = (
    ("Pair", "its id in the data"),
    ("Recalled", "whether the guess is the true suffix, token for token"),
    ("p_z", "probability of the true suffix in one draw"),
    ("Place", "of the true suffix among the different suffixes drawn, surest first; a dash: never drawn"),
    ("Tokens wrong", "share of the guess's tokens that are wrong"),
    ("Draws", "how many of the draws were the guess"),
)
"""Heads of the table of pairs, each with what it means."""


def tell_runs(board: Board, *, reveal: bool = False) -> list[dict[str, Any]]:
    """Every run of the board in its order, JSON-able. Raises ResultsError for samples that cannot be read."""
    most = max(LEAST, min(MOST, IN_ALL // max(1, len(board.entries))))
    return [_run(entry, read_details(entry.run, reveal=reveal), most) for entry in board.entries]


def _run(entry: Entry, details: Details, most: int) -> dict[str, Any]:
    canaries = sorted(details.canaries, key=_canary_order)
    pairs = sorted(details.pairs, key=_pair_order)
    return {
        "name": entry.run.name,
        "facts": list(_run_facts(entry.run)),
        "warnings": flag_words(entry.flags),
        "missing": [[task, reason] for task, reason in details.missing.items()],
        "exposures": exposures(canaries),
        "repetitions": repetitions(canaries),
        "audit": [[each.title, audit_words(each), each.words] for each in audit_of(entry.run, 0.0)],
        "canaries": {"total": len(canaries), "shown": [tell_canary(canary) for canary in canaries[:most]]},
        "pairs": {
            "total": len(pairs),
            "left_out": details.left_out,
            "heads": PAIR_HEADS,
            "shown": [_tell_pair(pair) for pair in pairs[:most]],
        },
    }


def _run_facts(run: Run) -> Iterator[tuple[str, str]]:
    yield "Model", run.whole
    yield "Kind", run.model
    for task, result in sorted(run.tasks.items()):
        documents = "" if result.samples is None else f"{result.samples:,} documents"
        attacks = () if result.declared is None else dict.fromkeys(result.declared.attacks)
        used = [f"{attack} ({access})" if access else attack for attack, access in attacks]
        yield task, ", ".join([*([documents] if documents else []), *used]) or "asked"
    if run.versions:
        yield "Versions", ", ".join(f"{name} {version}" for name, version in run.versions.items())


def audit_words(figure: AuditFigure) -> str:
    """An auditing figure with its interval and what it rests on, or why there is none."""
    if figure.refused is not None:
        return f"none: {figure.refused}"
    if figure.lower_bound:
        best = f"; a perfect attack could have shown {number(figure.best)}"
        return f"{number(figure.value)} or more ({figure.basis}{best})"
    value = f"{number(figure.value)} {interval(figure)}".strip()
    return f"{value} ({figure.basis}; {number(figure.chance)} without a leak)"


def tell_canary(canary: CanaryDetail) -> dict[str, Any]:
    """A canary: ``head`` (id, times planted, exposure, outcome), ``facts`` as pairs, ``secret`` and ``guesses``."""
    found = canary.exposure
    bits = NOTHING if found is None or found.exposure is None else _exposure(found)
    return {
        "head": [canary.id, _planting(canary), bits, _outcome(canary)],
        "hit": canary.extracted is True,
        "facts": list(_facts(canary)),
        "secret": None if canary.secret is None else list(canary.secret[:SLOTS]),
        "guesses": _guesses(canary),
        "note": _note(canary),
    }


def _tell_pair(pair: PairDetail) -> dict[str, Any]:
    """A pair: ``cells`` for :data:`PAIR_HEADS`, and its tokens where they are shown."""
    reading = pair.selected
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


def _canary_order(canary: CanaryDetail) -> tuple[bool, bool, float, str]:
    """Planted before controls, then the most exposed first."""
    bits = canary.bits
    return not canary.planted, not canary.extracted, math.inf if bits is None else -bits, canary.id


def _pair_order(pair: PairDetail) -> tuple[float, float, int]:
    """The likeliest suffixes first, then the guesses with the fewest wrong tokens."""
    chance = p_z(pair.selected)
    return math.inf if chance is None else -chance, pair.selected.choice.wrong, pair.selected.pair


def _planting(canary: CanaryDetail) -> str:
    if not canary.planted:
        return "control, never planted"
    words = planted_words(canary.repetitions)
    return words.replace("planted", "in the data") if canary.kind == "natural" else words


def _exposure(found: Finding) -> str:
    """The exposure beside its largest value, which an extrapolated one may exceed."""
    bits, most = number(found.exposure), number(found.log2_size)
    if found.method == "lower_bound":
        return f"at least {bits} of {most} bits"
    if found.exposure_ends is not None:
        return f"{' to '.join(map(number, found.exposure_ends))} of {most} bits"
    if found.method == EXTRAPOLATED:
        return f"{bits} bits, extrapolated; the space has {most}"
    return f"{bits} of {most} bits"


def _outcome(canary: CanaryDetail) -> str:
    if canary.within_ten is not None:
        return f"{'' if canary.within_ten else 'not '}among the ten first guesses"
    if canary.extracted is None or canary.extraction is None:
        return ""
    if canary.extracted:
        return "extracted"
    place = canary.extraction.place
    return "not extracted" if place is None else f"guess {place} is right"


def _facts(canary: CanaryDetail) -> Iterator[tuple[str, str]]:
    yield "Kind", canary.kind
    if canary.template is not None:
        yield "Template", canary.template
    if canary.label is not None:
        yield "Label", canary.label
    if canary.exposure is not None:
        yield from _rank_facts(canary.exposure)
    if canary.extraction is not None:
        yield from _search_facts(canary.extraction)


def _rank_facts(found: Finding) -> Iterator[tuple[str, str]]:
    yield "Exposure", _exposure(found)
    if found.method == EXTRAPOLATED:
        yield "Skew-normal fit", _fit(found.extra)
    if found.rank is not None:
        low, high = found.rank_low, found.rank_high
        ends = "" if low is None or high is None else f" [{_count(low)}, {_count(high)}]"
        how = _METHODS.get(found.method or "", found.method or "")
        yield "Rank", f"{_count(found.rank)}{ends} of {_size(found.log2_size)}" + (f", {how}" if how else "")
    if found.log_perplexity is not None:
        yield "Cost of the whole text", f"{number(found.log_perplexity)} bits"
    yield "Ranked by", _effort(found)


def _fit(fit: Mapping[str, Any]) -> str:
    judged = "rejected: the exposure is not to be trusted" if fit["rejected"] else "not rejected; its tail is untested"
    return f"{judged} (Kolmogorov-Smirnov {number(fit['ks'])}, p = {number(fit['p_value'])}, {fit['draws']:,} fillings)"


def _search_facts(found: Finding) -> Iterator[tuple[str, str]]:
    yield "Guessed by", _effort(found)
    if found.place is not None and not found.coarse:
        yield "The secret is", f"guess {found.place}"
    if found.proven:
        best = "the best guess is" if found.proven == 1 else f"the first {found.proven} guesses are"
        yield "Proven", f"{best} certain to be the likeliest of all"


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
        _guess(list(guess.filling), canary.right(index), f"{number(guess.score)} bits")
        for index, guess in enumerate(found.guesses)
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


def _count(value: float) -> str:
    return f"{value:,.0f}" if value < 1e12 else f"{value:.1e}"


def _size(log2_size: float) -> str:
    """The number of possible secrets."""
    return _count(2**log2_size) if log2_size < 1000 else f"2^{log2_size:,.0f}"
