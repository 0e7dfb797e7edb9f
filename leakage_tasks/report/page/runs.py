"""Details of each run for the page: its tasks, plots, canaries and pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from leakage_tasks.attacks.finding import EXTRAPOLATED, Finding
from leakage_tasks.metrics.near import p_near
from leakage_tasks.metrics.suffix_values import p_z, recalled
from leakage_tasks.metrics.tiers import planted_words
from leakage_tasks.report.board.board import Board, Entry
from leakage_tasks.report.load.findings import CanaryDetail, Details, PairDetail, read_details
from leakage_tasks.report.load.format import NOTHING, attack_words, audit_words, flag_words, number
from leakage_tasks.report.load.run import Run
from leakage_tasks.report.load.samples import audit_of
from leakage_tasks.report.page.guesses import SLOTS, guesses_of, token_guess
from leakage_tasks.report.page.spreads import describe_spread
from leakage_tasks.report.plots.repetitions import RunByRepetitions, by_repetitions

MOST, IN_ALL, LEAST = 300, 3000, 20
"""Maximum number of canaries (and of pairs) shown per run, maximum over all runs, and the number that every run may
show."""

PLOTS = 50
"""Maximum number of runs with a figure."""
_METHODS = {
    "exact": "exact",
    "estimated": "estimated from draws",
    "sampled": "from a uniform sample",
    "extrapolated": "extrapolated from a fitted distribution",
    "lower_bound": "at most: the search was cut short",
    "banded": "known only by its band",
}
PAIR_HEADS = (
    ("Pair", "its id in the data"),
    ("Recalled", "yes if the guess equals the true suffix, token for token"),
    ("p_z", "probability of the true suffix in one draw"),
    ("Place", "rank of the true suffix among the different suffixes drawn, the surest first; a dash: never drawn"),
    ("Tokens wrong", "share of the guess's tokens that are wrong"),
    ("Draws", "number of draws that gave the guess"),
    ("Near", "lower bound on the probability of a draw within the edit distance of near=; a dash: not computed"),
)
"""Column heads of the table of pairs, each with its description."""


def describe_runs(board: Board, *, reveal: bool = False) -> list[dict[str, Any]]:
    """Describe all runs of the board in its order. Raises ResultsError for samples that cannot be read."""
    most = max(LEAST, min(MOST, IN_ALL // max(1, len(board.entries))))
    return [
        _run(entry, read_details(entry.run, reveal=reveal), most, drawn=index < PLOTS)
        for index, entry in enumerate(board.entries)
    ]


def _run(entry: Entry, details: Details, most: int, drawn: bool) -> dict[str, Any]:
    canaries = sorted(details.canaries, key=_canary_order)
    pairs = sorted(details.pairs, key=_pair_order)
    return {
        "name": entry.run.name,
        "facts": list(_run_facts(entry.run)),
        "warnings": flag_words(entry.flags),
        "missing": [[task, reason] for task, reason in details.missing.items()],
        "spread": describe_spread(spread_of(entry.run.name, canaries), drawn=drawn),
        "audit": [[figure.title, audit_words(figure), figure.words] for figure in audit_of(entry.run, 0.0)],
        "canaries": {"total": len(canaries), "shown": [describe_canary(canary) for canary in canaries[:most]]},
        "pairs": {
            "total": len(pairs),
            "left_out": details.left_out,
            "heads": PAIR_HEADS,
            "shown": [_describe_pair(pair) for pair in pairs[:most]],
        },
    }


def spread_of(name: str, canaries: Sequence[CanaryDetail]) -> RunByRepetitions:
    """Return the exposure and extraction of a run's canaries by number of copies."""
    exposure = (canary.exposure for canary in canaries if canary.exposure is not None)
    return by_repetitions(name, exposure, (canary.extraction for canary in canaries if canary.extraction is not None))


def _run_facts(run: Run) -> Iterator[tuple[str, str]]:
    yield "Model", run.whole
    yield "Kind", run.model
    for task, result in sorted(run.tasks.items()):
        documents = "" if result.samples is None else f"{result.samples:,} documents"
        attacks = () if result.declared is None else dict.fromkeys(result.declared.attacks)
        yield task, ", ".join(filter(None, [documents, *attack_words(attacks)])) or "ran"
    if run.versions:
        yield "Versions", ", ".join(f"{name} {version}" for name, version in run.versions.items())


def describe_canary(canary: CanaryDetail) -> dict[str, Any]:
    """Describe a canary: ``head`` (id, copies, exposure, outcome), ``facts`` as pairs, ``secret`` and ``guesses``."""
    finding = canary.exposure
    bits = NOTHING if finding is None or finding.exposure is None else _exposure(finding)
    return {
        "head": [canary.id, _planting(canary), bits, _outcome(canary)],
        "hit": canary.extracted is True,
        "facts": list(_facts(canary)),
        "secret": None if canary.secret is None else list(canary.secret[:SLOTS]),
        "guesses": guesses_of(canary),
        "note": _note(canary),
    }


def _describe_pair(pair: PairDetail) -> dict[str, Any]:
    """Describe a pair: ``cells`` for :data:`PAIR_HEADS`, and its tokens if the report reveals them."""
    selected = pair.selected
    choice, chance = selected.choice, p_z(selected)
    rank = NOTHING if choice.place is None else f"{choice.place:,} of {selected.view.distinct:,}"
    cells = [
        str(selected.pair),
        "yes" if recalled(selected) else "no",
        number(chance),
        rank,
        number(choice.wrong),
        f"{choice.count:,} of {selected.view.samples:,}",
        number(p_near(selected)),
    ]
    description: dict[str, Any] = {"cells": cells, "hit": bool(recalled(selected))}
    if pair.suffix:
        description["prefix"] = " ".join(map(str, pair.prefix[-SLOTS:]))
        description["secret"] = list(map(str, pair.suffix[:SLOTS]))
        description["guesses"] = [token_guess(guess, pair.suffix) for guess in pair.guesses]
    return description


def _canary_order(canary: CanaryDetail) -> tuple[bool, bool, float, str]:
    """Return a sort key: planted canaries before controls, extracted canaries first, then by descending exposure."""
    bits = canary.bits
    return not canary.planted, not canary.extracted, math.inf if bits is None else -bits, canary.id


def _pair_order(pair: PairDetail) -> tuple[float, float, int]:
    """Return a sort key: descending probability of the true suffix, then the share of wrong tokens in the guess."""
    chance = p_z(pair.selected)
    return math.inf if chance is None else -chance, pair.selected.choice.wrong, pair.selected.pair


def _planting(canary: CanaryDetail) -> str:
    if not canary.planted:
        return "control, never planted"
    words = planted_words(canary.tier)
    return words.replace("planted", "in the data") if canary.kind == "natural" else words


def _exposure(finding: Finding) -> str:
    """Format the exposure with its maximum, which an extrapolated value may exceed."""
    bits, most = number(finding.exposure), number(finding.log2_size)
    if finding.method == "lower_bound":
        return f"at least {bits} of {most} bits"
    if finding.exposure_ends is not None:
        return f"{' to '.join(map(number, finding.exposure_ends))} of {most} bits"
    if finding.method == EXTRAPOLATED:
        return f"{bits} bits, extrapolated; the space has {most}"
    return f"{bits} of {most} bits"


def _outcome(canary: CanaryDetail) -> str:
    if canary.within_ten is not None:
        return f"{'' if canary.within_ten else 'not '}among the first ten guesses"
    if canary.extracted is None or canary.extraction is None:
        return ""
    if canary.extracted:
        return "extracted"
    rank = canary.extraction.place
    return "not extracted" if rank is None else f"guess {rank} is right"


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


def _rank_facts(finding: Finding) -> Iterator[tuple[str, str]]:
    yield "Exposure", _exposure(finding)
    if finding.method == EXTRAPOLATED:
        yield "Skew-normal fit", _fit(finding.extra)
    if finding.rank is not None:
        low, high = finding.rank_low, finding.rank_high
        ends = "" if low is None or high is None else f" [{_count(low)}, {_count(high)}]"
        method = _METHODS.get(finding.method or "", finding.method or "")
        yield "Rank", f"{_count(finding.rank)}{ends} of {_size(finding.log2_size)}" + (f", {method}" if method else "")
    if finding.log_perplexity is not None:
        yield "Cost of the whole text", f"{number(finding.log_perplexity)} bits"
    yield "Ranked by", _effort(finding)


def _fit(fit: Mapping[str, Any]) -> str:
    judged = "rejected: do not trust the exposure" if fit["rejected"] else "not rejected; its tail is untested"
    return f"{judged} (Kolmogorov-Smirnov {number(fit['ks'])}, p = {number(fit['p_value'])}, {fit['draws']:,} fillings)"


def _search_facts(finding: Finding) -> Iterator[tuple[str, str]]:
    yield "Guessed by", _effort(finding)
    if finding.place is not None and not finding.coarse:
        yield "The secret is", f"guess {finding.place}"
    if finding.proven:
        best = "the best guess is" if finding.proven == 1 else f"the first {finding.proven} guesses are"
        yield "Proven", f"{best} certain to be the most probable of all"
    if finding.extra.get("place_settled") and finding.place is None and finding.guesses:
        yield "Certain", "ten guesses are more probable than the secret"


def _effort(finding: Finding) -> str:
    return (
        finding.attack if finding.model_calls is None else f"{finding.attack}, {finding.model_calls:,} sequences scored"
    )


def _note(canary: CanaryDetail) -> str:
    if canary.kind == "natural" and canary.template is None and canary.secret is None:
        return (
            "A natural secret: its text and the guesses are not shown, and its rank only as a power of ten, so that "
            "nobody can confirm a guess."
        )
    return ""


def _count(value: float) -> str:
    return f"{value:,.0f}" if value < 1e12 else f"{value:.1e}"


def _size(log2_size: float) -> str:
    return _count(2**log2_size) if log2_size < 1000 else f"2^{log2_size:,.0f}"
