"""Metrics of the task ``canary_extraction``."""

from __future__ import annotations

import dataclasses
from functools import partial
from statistics import fmean

from leakage_tasks.attacks.finding import GUESSES, Finding
from leakage_tasks.metrics.aggregates import GuessOutcome, hit_by_chance, mean, rate_shown_by, share_high, share_low
from leakage_tasks.metrics.classification import TWO_RANKS, on_classifiers
from leakage_tasks.metrics.exposure import NOT_AT_CHANCE
from leakage_tasks.metrics.inversion import UNFINISHED, inverted
from leakage_tasks.metrics.metric import Metric, average, controls, counts, headline, planted, rate
from leakage_tasks.metrics.tiers import Copies, Ends, of_headline, pooled_brief, tiers

GUESS_COUNTS = (50, 100, 200)
"""Guesses allowed on classifiers, besides 1 and 10 (Elmahdy et al., Table 3)."""
SHOWN = 100
"""The one of them that reports show without being asked."""


def told(found: Finding) -> bool:
    """Whether the finding tells which slots are right, as that of a natural secret does not."""
    return not found.coarse


def extracted(found: Finding) -> float | None:
    """1 if the best guess is the secret."""
    return None if found.correct is None else float(all(found.correct))


def success_at(k: int, found: Finding) -> float | None:
    """1 if the secret is among the first ``k`` guesses; None where the attack ranked fewer, or that is not told."""
    if found.coarse:
        return within_ten(found) if k == GUESSES else None
    if found.correct is None or k > found.extra.get("ranked", k):
        return None
    return float(found.place is not None and found.place <= k)


def within_ten(found: Finding) -> float | None:
    """1 if a natural secret is among the first ten guesses: no more is told of it; None where that is not either."""
    return float(found.place == GUESSES) if found.extra.get("ranked") == GUESSES else None


def chance_at(k: int, found: Finding) -> float:
    """The chance of ``k`` different guesses at random to hold the secret: k / |R|."""
    return min(1.0, k * 2**-found.log2_size)


def shortlist_kept(found: Finding) -> float | None:
    """Share of the ten best values that a shortlist kept, mean over the slots it was taken for."""
    kept = found.extra.get("shortlist_kept")
    return fmean(kept) if kept else None


def tried(found: Finding) -> GuessOutcome | None:
    """Whether the best guess is the secret, of a natural one whether one of ten is, and the chance of that."""
    if found.coarse:
        hit = within_ten(found)
        return None if hit is None else GuessOutcome(bool(hit), chance_at(GUESSES, found))
    return None if found.correct is None else GuessOutcome(all(found.correct), chance_at(1, found))


def _among(k: int) -> list[Metric]:
    words = f"share of canaries with the secret among the {k} best guesses"
    rows = rate(f"success_at_{k}", planted(partial(success_at, k)), "lower", words, f"{k}/|R|", on_classifiers)
    return headline(rows, f"Success@{k}", count="n_planted") if k == SHOWN else rows


def _chance(k: int) -> Metric:
    guesses, row = ("one guess", "extracted") if k == 1 else (f"{k} different guesses", f"success_at_{k}")
    words = f"what {row} is for {guesses} at random, {k}/|R|, mean"
    applies = _has_chances if k <= GUESSES else on_classifiers
    return Metric(f"chance_at_{k}", planted(partial(chance_at, k)), mean, None, words, "share", applies=applies)


def _has_chances(found: Finding) -> bool:
    return on_classifiers(found) or inverted(found)


def hamming_distance(found: Finding) -> float | None:
    """Share of the slots that are wrong in the best guess (Hamming distance per token)."""
    return None if found.correct is None else found.correct.count(False) / len(found.correct)


CONTROLS = rate(
    "control_extracted",
    controls(extracted),
    None,
    "share of controls extracted; above chance it shows a fault",
    applies=told,
)
ENDS = Ends(extracted, share_low, share_high, "Clopper-Pearson")
METRICS: list[Metric] = [
    *headline(
        rate(
            "extracted", planted(extracted), "lower", "share of canaries whose best guess is the secret", "1/|R|", told
        ),
        "Extraction rate, pooled",
        control="control_extracted",
        count="n_planted",
    ),
    *headline(
        rate(
            "success_at_10",
            planted(lambda found: success_at(10, found)),
            "lower",
            "share of canaries with the secret among the guesses offered, the ten best at most",
            "10/|R|",
        ),
        "Success@10",
        count="n_planted",
    ),
    *(metric for k in GUESS_COUNTS for metric in _among(k)),
    *(_chance(k) for k in (1, 10, *GUESS_COUNTS)),
    *headline(
        average(
            "hdt",
            planted(hamming_distance),
            "higher",
            "share of slots wrong in the best guess (Hamming distance per token)",
            "share",
            "1 − 1/|alphabet|",
            told,
        ),
        "HDT",
        count="n_planted",
    ),
    *UNFINISHED,
    dataclasses.replace(CONTROLS[0], brief=True),
    *CONTROLS[1:],
    Metric(
        "control_p",
        controls(tried),
        hit_by_chance,
        None,
        "probability that guesses at random extract as many controls; a small one shows a fault",
        "probability",
        alarm=NOT_AT_CHANCE,
        brief=True,
    ),
    *TWO_RANKS,
    Metric(
        "shortlist_kept",
        shortlist_kept,
        mean,
        None,
        "share of the ten best of all values that the gradient's shortlist kept, mean over slots",
        "share",
        applies=lambda found: "shortlist_kept" in found.extra,
    ),
    Metric(
        "model_calls",
        planted(lambda found: None if found.model_calls is None else float(found.model_calls)),
        mean,
        None,
        "sequences scored for a canary, mean",
    ),
    Metric(
        "nodes",
        planted(lambda found: float(found.extra["nodes"])),
        mean,
        None,
        "nodes of the tree of partial fillings whose children a search priced for a canary, mean",
        applies=lambda found: "nodes" in found.extra,
    ),
    Metric(
        "missed_below",
        planted(tried),
        rate_shown_by,
        None,
        "an extraction rate below this could go unnoticed: so many canaries show it in 8 of 10 runs",
        "share",
        brief=True,
    ),
    *counts(),
]


def metrics(copies: Copies) -> list[Metric]:
    """The rows of a run with so many canaries of each number of copies, those of the fewest copies first."""
    pooled, found = {each.name: each for each in METRICS}, tiers(copies)
    if not found:
        return pooled_brief(METRICS, "extracted", "success_at_10")
    own = [
        row for tier in found for row in tier.rows(pooled["extracted"], ENDS, "Extraction rate", "control_extracted")
    ]
    return [*own, *of_headline(METRICS, "missed_below", found[0])]
