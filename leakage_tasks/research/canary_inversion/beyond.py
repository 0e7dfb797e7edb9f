"""Studies beyond Parikh, Dupuy and Gupta (2022): DP-SGD as a defence, and other relaxations of the attack.

HDT is the Hamming distance per token, n the number of unknown tokens, and R the number of copies of a canary.
"""

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
from leakage_tasks.research.framework.papers import PaperClaim
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
EMBEDDINGS = PaperClaim("the attack on embeddings is no better than random guess")
FINISH = "the discrete finish lowers HDT"
"""The claim that coordinate search after the attack helps."""
UNKNOWN, COPIES = 6, 100
"""Unknown tokens and copies of the study of relaxations."""
ONE = "embedding, one start"
VARIANTS = {
    ONE_START: "softmax, one start",
    "published": "softmax",
    "gumbel": "gumbel",
    "straight-through": "straight-through",
    "embedding": "embedding",
    ONE: ONE,
}
"""Names of attacks and their labels in the table."""


def private_trials(plan: StudyPlan) -> list[Config]:
    """List trials of each defence with n = 4 and R = 10, on fixed embeddings (read from a file at scale ``paper``)."""
    fixed = plan.scale != "paper"
    return [
        config
        for defence in SETTINGS.values()
        for config in defences.defended(plan, PRIVATE_COPIES, defence, fixed=fixed)
    ]


def private(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report Hamming distance per token (HDT), exposure and accuracy by defence."""
    rows, by_defence, lab = list[TableRow](), {}, plan.scale != "paper"
    for name, defence in SETTINGS.items():
        group = defences.with_defence(trials, PRIVATE_COPIES, defence, fixed=lab)
        by_defence[name] = defences.by_pattern(group)
        rows += [
            {"defence": name, **row}
            for row in defences.defence_rows(group, by_defence[name], defences.TABLE_3[PRIVATE_COPIES].get(name))
        ]
    claims = defences.worse_than_none("{} makes the attack from one start worse", by_defence)
    for name in (defences.TOGETHER, PRIVATE, ALL):
        words = f"with {name} the best of five starts by an attacker who knows it, with the finish, is at chance"
        claims.append(counts.at_chance(words, defences.knowing(by_defence[name])))
    copies = ground_at(plan.scale).copies(PRIVATE_COPIES)
    notes = [
        *differences(plan, learnt=not lab),
        defences.KNOWING,
        defences.STOPPED,
        *([defences.FIXED] if lab else []),
        f"R = {PRIVATE_COPIES}, {copies} copies here. DP-SGD guarantees ε = {EPSILON:g}, δ = {DELTA:g} for one row, "
        f"far less for all copies of a canary. It trains {PRIVATE_EPOCHS} epochs in batches of {PRIVATE_BATCH} at a "
        f"rate of {PRIVATE_RATE:g}; with early stopping all of them too; the choice by validation utterances is "
        "outside the guarantee.",
    ]
    return Report(list(rows[0]), rows, claims, notes)


def variant_trials(plan: StudyPlan) -> list[Config]:
    """List trials that attack a victim with every relaxation."""
    return victims(plan, dict.fromkeys(PATTERNS, UNKNOWN), COPIES, attacks=list(VARIANTS))


def variants(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report Hamming distance per token (HDT) and accuracy by relaxation, over all patterns."""
    entries = [entry for pattern in PATTERNS for entry in chosen(trials, pattern)]
    rows: list[TableRow] = [
        {
            "relaxation": shown,
            "published": Published(None),
            "HDT": counts.hdt(entries, name),
            "Acc": counts.accuracy(entries, name),
            "HDT finished": counts.hdt(entries, name, counts.FINISHED) if ATTACKS[name].get("finish", True) else None,
            "Acc finished": counts.accuracy(entries, name, counts.FINISHED)
            if ATTACKS[name].get("finish", True)
            else None,
        }
        for name, shown in VARIANTS.items()
    ]
    plain, finished = counts.distances(entries), counts.distances(entries, when=counts.FINISHED)
    claims = [
        counts.at_chance(
            EMBEDDINGS.test("from a single start"),
            {counts.EVERY: counts.pooled(counts.distances(chosen(trials, pattern), ONE) for pattern in PATTERNS)},
        ),
        counts.closer("mixtures reach a lower HDT than embeddings", plain, counts.distances(entries, "embedding")),
        counts.closer("Gumbel noise lowers HDT", counts.distances(entries, "gumbel"), plain),
        counts.closer(
            "straight-through reaches a lower HDT than mixtures", counts.distances(entries, "straight-through"), plain
        ),
        counts.closer(FINISH, finished, plain),
    ]
    levels = ", ".join(f"{counts.chance(pattern):.2f} for {pattern}" for pattern in PATTERNS)
    note = (
        f"n = {UNKNOWN}, R = {COPIES}; the three patterns are pooled. Chance is {levels}. Except for one start, "
        "rows take the best of five starts by loss, which is better than chance by itself if a model "
        "leaks."
    )
    return Report(list(rows[0]), rows, claims, [*counts.set_up(trials, plan), note])


register_study(
    "dp-sgd", "HDT and exposure with DP-SGD and with the paper's defences", "beyond section 6", private_trials, private
)
register_study(
    "variants",
    "HDT by relaxation, with and without the discrete finish",
    "section 3.1 and beyond it",
    variant_trials,
    variants,
)
