"""Beyond Parikh, Dupuy and Gupta (2022): other relaxations and the discrete finish, on the same taggers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leakage_tasks.research.canary_inversion.counts import (
    EVERY,
    FINISHED,
    accuracy,
    at_chance,
    chance,
    closer,
    distances,
    hdt,
    pooled,
    set_up,
)
from leakage_tasks.research.canary_inversion.settings import ATTACKS, ONE_START, PATTERNS
from leakage_tasks.research.canary_inversion.trials import chosen, register_study, victims
from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Published, Report, TableRow

UNKNOWN, COPIES = 6, 100
ONE = "embedding, one start"
VARIANTS = {
    ONE_START: "softmax, one start",
    "published": "softmax",
    "gumbel": "gumbel",
    "straight-through": "straight-through",
    "embedding": "embedding",
    ONE: ONE,
}
"""Attacks, and what the table calls them."""


def variant_trials(plan: StudyPlan) -> list[Config]:
    """Every relaxation on one victim a trial."""
    return victims(plan, dict.fromkeys(PATTERNS, UNKNOWN), COPIES, attacks=list(VARIANTS))


def variants(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """HDT and accuracy by relaxation, over all patterns."""
    found = [entry for pattern in PATTERNS for entry in chosen(trials, pattern)]
    rows: list[TableRow] = [
        {
            "relaxation": shown,
            "published": Published(None),
            "HDT": hdt(found, name),
            "Acc": accuracy(found, name),
            **dict.fromkeys(("HDT finished", "Acc finished")),
            **(_finished(found, name) if ATTACKS[name].get("finish", True) else {}),
        }
        for name, shown in VARIANTS.items()
    ]
    plain, finished = distances(found), distances(found, when=FINISHED)
    claims = [
        at_chance(
            "embeddings from a single start are no better than chance",
            {EVERY: pooled(distances(chosen(trials, pattern), ONE) for pattern in PATTERNS)},
        ),
        closer("mixtures come closer than embeddings", plain, distances(found, "embedding")),
        closer("Gumbel noise comes closer than none", distances(found, "gumbel"), plain),
        closer("straight-through comes closer than mixtures", distances(found, "straight-through"), plain),
        closer("the discrete finish comes closer than none", finished, plain),
    ]
    levels = ", ".join(f"{chance(pattern):.2f} for {pattern}" for pattern in PATTERNS)
    note = (
        f"n = {UNKNOWN}, R = {COPIES}; the three patterns are counted together. Chance is {levels}. Those of "
        "one start apart, rows take the best of five by loss, a choice that is better than chance by itself where a "
        "model leaks."
    )
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), note])


def _finished(found: Sequence[Config], name: str) -> dict[str, Any]:
    return {"HDT finished": hdt(found, name, FINISHED), "Acc finished": accuracy(found, name, FINISHED)}


register_study(
    "variants",
    "HDT by relaxation, with and without the discrete finish",
    "section 3.1 and beyond it",
    variant_trials,
    variants,
)
