"""Beyond Parikh, Dupuy and Gupta (2022): DP-SGD beside their defences, and other relaxations on the same taggers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leakage_tasks.research.canary_inversion import counts, defences
from leakage_tasks.research.canary_inversion.experiment import differences, ground_at
from leakage_tasks.research.canary_inversion.trials import (
    ATTACKS,
    DEFENCES,
    DELTA,
    ONE_START,
    PATTERNS,
    PRIVATE_BATCH,
    PRIVATE_EPOCHS,
    PRIVATE_RATE,
    chosen,
    register_study,
    victims,
)
from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Published, Report, TableRow

EPSILON = 8.0
PRIVATE = f"DP-SGD (ε = {EPSILON:g})"
ALL = f"{defences.TOGETHER} + {PRIVATE}"
SETTINGS: Mapping[str, Config] = {
    defences.NONE: {},
    defences.TOGETHER: DEFENCES[defences.TOGETHER],
    PRIVATE: {"epsilon": EPSILON},
    ALL: {**DEFENCES[defences.TOGETHER], "epsilon": EPSILON},
}
PRIVATE_COPIES = 10
UNKNOWN, COPIES = 6, 100
"""Of the variants."""
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


def private_trials(plan: StudyPlan) -> list[Config]:
    """The settings at n = 4 and R = 10; on fixed embeddings, at the paper's scale those of its file."""
    fixed = plan.scale != "paper"
    return [
        config
        for defence in SETTINGS.values()
        for config in defences.defended(plan, PRIVATE_COPIES, defence, fixed=fixed)
    ]


def private(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """HDT, exposure and usefulness by defence."""
    rows, found, lab = list[TableRow](), {}, plan.scale != "paper"
    for name, defence in SETTINGS.items():
        own = defences.with_defence(trials, PRIVATE_COPIES, defence, fixed=lab)
        found[name] = defences.by_pattern(own)
        rows += [
            {"defence": name, **row}
            for row in defences.defence_rows(own, found[name], defences.TABLE_3[PRIVATE_COPIES].get(name))
        ]
    claims = defences.worse_than_none("{} makes the attack from one start worse", found)
    for name in (defences.TOGETHER, PRIVATE, ALL):
        words = f"with {name} the best of five starts by an attacker who knows it, with the finish, is at chance"
        claims.append(counts.at_chance(words, defences.knowing(found[name])))
    copies = ground_at(plan.scale).copies(PRIVATE_COPIES)
    notes = [
        *differences(plan, learnt=not lab),
        defences.KNOWING,
        defences.STOPPED,
        *([defences.FIXED] if lab else []),
        f"R = {PRIVATE_COPIES}, {copies} copies here. DP-SGD promises ε = {EPSILON:g}, δ = {DELTA:g} for one row, far "
        f"less for all copies of a canary. It trains {PRIVATE_EPOCHS} epochs in batches of {PRIVATE_BATCH} at a rate "
        f"of {PRIVATE_RATE:g}; with early stopping, too, all of them: the validation utterances choose one, outside "
        "that.",
    ]
    return Report(list(rows[0]), rows, claims, notes)


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
            "HDT": counts.hdt(found, name),
            "Acc": counts.accuracy(found, name),
            "HDT finished": counts.hdt(found, name, counts.FINISHED) if ATTACKS[name].get("finish", True) else None,
            "Acc finished": counts.accuracy(found, name, counts.FINISHED)
            if ATTACKS[name].get("finish", True)
            else None,
        }
        for name, shown in VARIANTS.items()
    ]
    plain, finished = counts.distances(found), counts.distances(found, when=counts.FINISHED)
    claims = [
        counts.at_chance(
            "embeddings from a single start are no better than chance",
            {counts.EVERY: counts.pooled(counts.distances(chosen(trials, pattern), ONE) for pattern in PATTERNS)},
        ),
        counts.closer("mixtures come closer than embeddings", plain, counts.distances(found, "embedding")),
        counts.closer("Gumbel noise comes closer than none", counts.distances(found, "gumbel"), plain),
        counts.closer(
            "straight-through comes closer than mixtures", counts.distances(found, "straight-through"), plain
        ),
        counts.closer("the discrete finish comes closer than none", finished, plain),
    ]
    levels = ", ".join(f"{counts.chance(pattern):.2f} for {pattern}" for pattern in PATTERNS)
    note = (
        f"n = {UNKNOWN}, R = {COPIES}; the three patterns are counted together. Chance is {levels}. Those of "
        "one start apart, rows take the best of five by loss, a choice that is better than chance by itself where a "
        "model leaks."
    )
    return Report(list(rows[0]), rows, claims, [*counts.set_up(trials, plan), note])


register_study(
    "dp-sgd", "HDT and exposure with DP-SGD beside the paper's defences", "beyond section 6", private_trials, private
)
register_study(
    "variants",
    "HDT by relaxation, with and without the discrete finish",
    "section 3.1 and beyond it",
    variant_trials,
    variants,
)
