"""Table 3 of Parikh, Dupuy and Gupta (2022): what dropout, early stopping and character embeddings do to the attack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from leakage_tasks.research.canary_inversion.counts import MARGIN, at_chance, below_chance, lower, near_chance
from leakage_tasks.research.canary_inversion.defended import (
    by_pattern,
    defence_rows,
    defended,
    each_victim,
    knowing,
    together,
    with_defence,
)
from leakage_tasks.research.canary_inversion.experiment import ALIKE, OVERTRAINED, SPREAD, differences, ground_at
from leakage_tasks.research.canary_inversion.settings import DEFENCES
from leakage_tasks.research.canary_inversion.trials import register_study
from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Claim, Report, TableRow

TABLE_3: Mapping[int, Mapping[str, tuple[float, float, float]]] = {
    10: dict(zip(DEFENCES, [
        (0.30, 0.33, 0.40), (0.85, 0.80, 0.76), (0.80, 0.93, 0.95), (0.65, 0.75, 0.90), (0.98, 0.90, 0.95),
        (0.90, 0.83, 0.90), (0.90, 0.90, 0.90)], strict=True)),
    500: dict(zip(DEFENCES, [
        (0.39, 0.27, 0.38), (0.65, 0.54, 0.83), (0.85, 1.00, 0.75), (0.58, 0.93, 0.68), (0.85, 0.93, 0.98),
        (0.93, 0.98, 0.78), (0.95, 0.88, 1.00)], strict=True)),
    1000: dict(zip(DEFENCES, [
        (0.35, 0.18, 0.48), (0.35, 0.78, 0.58), (0.90, 0.83, 0.85), (0.70, 0.68, 0.78), (0.88, 0.98, 0.90),
        (0.88, 1.00, 0.95), (0.95, 0.93, 0.95)], strict=True)),
}  # fmt: skip
"""R and defence to the HDT of color, pin and call."""
TOGETHER = "D + ES + CE"
FIXED_TOO = ("No defense", "Early Stopping (ES)", "D + ES", TOGETHER)
"""What is tried on fixed embeddings in the lab."""
KNOWING = (
    "'Adaptive' mixes the candidates' character features as it mixes their embeddings; as published, the features are "
    "those of the likeliest candidate. 'Finished' is the answer of an attacker who knows the defence, after coordinate "
    "search."
)
STOPPED = (
    "Early stopping keeps the weights of the lowest validation loss, 20 epochs after which training ends, 100 at the "
    "latest; 'epoch' is the one whose weights are taken. Dropout is 0.2; the paper names 20 % and 10 %, and not where "
    "each is."
)
SHORTER = (
    "Victims with learnt embeddings and without early stopping train as long as is said above, which is shorter in the "
    "lab: it has nothing to stop there, and its rows show what the best epoch gives away."
)
FIXED = (
    "'Fixed' embeddings stand for FastText's at this scale: random, not trained, the values of a slot with a cosine of "
    f"{ALIKE} between them, numbers of a standard deviation of {SPREAD}; what FastText's are like is an "
    f"assumption. Victims with them and without early stopping train {OVERTRAINED} epochs."
)
Groups = dict[tuple[int, str, bool], dict[str, list[Config]]]
"""R, defence and whether embeddings are fixed, to what was found of each pattern."""
DEFENDED: Mapping[Scale, Sequence[int]] = {"smoke": (500,), "small": (10, 500), "paper": (10, 500, 1000)}


def table_3_trials(plan: StudyPlan) -> list[Config]:
    """Every defence at n = 4, on embeddings that are learnt, and some on fixed ones."""
    return [
        config
        for copies in DEFENDED[plan.scale]
        for name, fixed in _settings(plan, copies)
        for config in defended(plan, copies, DEFENCES[name], fixed=fixed)
    ]


def _settings(plan: StudyPlan, copies: int) -> list[tuple[str, bool]]:
    """Defences, and whether embeddings are fixed ones that were made for it."""
    if plan.scale == "paper":
        return [(name, False) for name in DEFENCES]
    if copies != DEFENDED[plan.scale][-1]:
        return [(name, fixed) for fixed in (False, True) for name in ("No defense", TOGETHER)]
    return [*((name, False) for name in DEFENCES), *((name, True) for name in FIXED_TOO)]


def _embeddings(plan: StudyPlan, made: bool) -> str:
    """What the victims' embeddings are: those of the paper's file are not trained, nor those that are made."""
    return "fixed" if made or ground_at(plan.scale).fixed else "learnt"


def table_3(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """HDT by defence and pattern; with character embeddings also against an attacker who knows of them."""
    rows: list[TableRow] = []
    groups: Groups = {}
    for copies in DEFENDED[plan.scale]:
        for name, fixed in _settings(plan, copies):
            own = with_defence(trials, copies, DEFENCES[name], fixed=fixed)
            found = groups[copies, name, fixed] = by_pattern(own)
            setting: TableRow = {"R": copies, "embeddings": _embeddings(plan, fixed), "defence": name}
            rows += [{**setting, **row} for row in defence_rows(own, found, TABLE_3[copies][name])]
    notes = [*differences(plan), KNOWING, STOPPED, *([SHORTER, FIXED] if plan.scale != "paper" else [])]
    return Report(list(rows[0]), rows, _defence_claims(trials, plan, groups), notes)


def _defence_claims(trials: Sequence[StudyTrial], plan: StudyPlan, groups: Groups) -> list[Claim]:
    claims = list[Claim]()
    for copies, fixed in dict.fromkeys((copies, fixed) for copies, _, fixed in groups):
        words = f"R = {copies}, {_embeddings(plan, fixed)} embeddings: "
        own = {name: groups[copies, name, fixed] for name in DEFENCES if (copies, name, fixed) in groups}
        none, every = own["No defense"], own[TOGETHER]
        claims += [
            below_chance(f"{words}without a defence the attack from one start is below chance", together(none)),
            *(
                lower(f"{words}{name} makes it worse", each_victim(none), each_victim(found))
                for name, found in own.items()
                if name != "No defense"
            ),
            near_chance(f"{words}all three bring it within {MARGIN} of chance", together(every)),
            at_chance(f"{words}all three bring it to chance", together(every)),
            at_chance(
                f"{words}also the best of five starts by an attacker who knows them, with the finish",
                knowing(every),
            ),
        ]
    return [*claims, _useful(trials, DEFENDED[plan.scale][-1])]


def _useful(trials: Sequence[StudyTrial], copies: int) -> Claim:
    """That intents right do not fall by 0.02: the interval of the difference of means, by Welch, excludes it."""
    from scipy import stats

    plain, every = (
        [trial.result["intent_accuracy"] for trial in with_defence(trials, copies, DEFENCES[name])]
        for name in ("No defense", TOGETHER)
    )
    words = "the three together do not cost usefulness: intents right fall by less than 0.02"
    shown = f"{fmean(plain):.3f} without, {fmean(every):.3f} with"
    if min(len(plain), len(every)) < 2 or len({*plain, *every}) == 1:
        return Claim(words, None, shown)
    fall = stats.ttest_ind(plain, every, equal_var=False).confidence_interval(0.95)
    holds = True if fall.high < 0.02 else False if fall.low > 0.02 else None
    return Claim(words, holds, f"{shown}; a fall of {fall.low:.3f} to {fall.high:.3f}")


register_study(
    "table-3",
    "HDT with dropout, early stopping and character embeddings",
    "Table 3",
    table_3_trials,
    table_3,
)
