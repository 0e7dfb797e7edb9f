"""Beyond Parikh, Dupuy and Gupta (2022): DP-SGD, alone and with their three defences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leakage_tasks.research.canary_inversion.counts import at_chance, lower
from leakage_tasks.research.canary_inversion.defences import FIXED, KNOWING, STOPPED, TABLE_3, TOGETHER
from leakage_tasks.research.canary_inversion.defended import (
    by_pattern,
    defence_rows,
    defended,
    each_victim,
    knowing,
    with_defence,
)
from leakage_tasks.research.canary_inversion.experiment import differences, ground_at
from leakage_tasks.research.canary_inversion.settings import (
    DEFENCES,
    DELTA,
    PRIVATE_BATCH,
    PRIVATE_EPOCHS,
    PRIVATE_RATE,
)
from leakage_tasks.research.canary_inversion.trials import register_study
from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Report, TableRow

EPSILON = 8.0
PRIVATE = f"DP-SGD (ε = {EPSILON:g})"
ALL = f"{TOGETHER} + {PRIVATE}"
SETTINGS: Mapping[str, Config] = {
    "No defense": {},
    TOGETHER: DEFENCES[TOGETHER],
    PRIVATE: {"epsilon": EPSILON},
    ALL: {**DEFENCES[TOGETHER], "epsilon": EPSILON},
}
COPIES = 10


def private_trials(plan: StudyPlan) -> list[Config]:
    """The settings at n = 4 and R = 10; on fixed embeddings, at the paper's scale those of its file."""
    fixed = plan.scale != "paper"
    return [config for defence in SETTINGS.values() for config in defended(plan, COPIES, defence, fixed=fixed)]


def private(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """HDT, exposure and usefulness by defence."""
    rows: list[TableRow] = []
    found = {}
    for name, defence in SETTINGS.items():
        own = with_defence(trials, COPIES, defence, fixed=plan.scale != "paper")
        found[name] = by_pattern(own)
        rows += [{"defence": name, **row} for row in defence_rows(own, found[name], TABLE_3[COPIES].get(name))]
    claims = [
        *(
            lower(f"{name} makes the attack from one start worse", each_victim(found["No defense"]), each_victim(own))
            for name, own in found.items()
            if name != "No defense"
        ),
        *(
            at_chance(
                f"with {name} the best of five starts by an attacker who knows it, with the finish, is at chance",
                knowing(found[name]),
            )
            for name in (TOGETHER, PRIVATE, ALL)
        ),
    ]
    copies = ground_at(plan.scale).copies(COPIES)
    notes = [
        *differences(plan, learnt=plan.scale == "paper"),
        KNOWING,
        STOPPED,
        *([FIXED] if plan.scale != "paper" else []),
        f"R = {COPIES}, {copies} copies here. DP-SGD promises ε = {EPSILON:g}, δ = {DELTA:g} for one row, far less for "
        f"all copies of a canary. It trains {PRIVATE_EPOCHS} epochs in batches of {PRIVATE_BATCH} at a rate of "
        f"{PRIVATE_RATE:g}; with early stopping, too, all of them: the validation utterances choose one, outside that.",
    ]
    return Report(list(rows[0]), rows, claims, notes)


register_study(
    "dp-sgd",
    "HDT and exposure with DP-SGD beside the paper's defences",
    "beyond section 6",
    private_trials,
    private,
)
