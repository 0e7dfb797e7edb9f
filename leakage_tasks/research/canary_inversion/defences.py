"""Table 3 of Parikh, Dupuy and Gupta (2022): what dropout, early stopping and character embeddings do to the attack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from statistics import fmean

from leakage_tasks.research.canary_inversion import counts
from leakage_tasks.research.canary_inversion.experiment import ALIKE, OVERTRAINED, SPREAD, differences, ground_at
from leakage_tasks.research.canary_inversion.tables import undefended
from leakage_tasks.research.canary_inversion.trials import (
    DEFENCES,
    ONE_START,
    PATTERNS,
    PLAIN,
    chosen,
    register_study,
    victims,
)
from leakage_tasks.research.framework.group_tests import decide
from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow

COLUMNS = (("intents right", "intent_accuracy", 1.0), ("slot F1", "slot_f1", 1.0), ("epoch", "epoch", inf))
"""What is shown of the victims: column, name in a trial's result, the most it can be."""
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
NONE, TOGETHER = "No defense", "D + ES + CE"
ALONE = ("Dropout (D)", "Char. Emb. (CE)")
"""What the paper says does not suffice."""
FIXED_TOO = (NONE, "Early Stopping (ES)", "D + ES", TOGETHER)
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
Groups = Mapping[str, list[Config]]
"""What was found of each pattern."""
DEFENDED: Mapping[Scale, Sequence[int]] = {"smoke": (500,), "small": (10, 500), "paper": (10, 500, 1000)}


def defended(plan: StudyPlan, copies: int, defence: Config, *, fixed: bool) -> list[Config]:
    """Victims with ``defence`` at n = 4, on embeddings that are learnt, or on fixed ones made for it."""
    if not defence and not fixed:
        return undefended(plan, 4, copies)
    attacks = ["published", ONE_START, *(["adaptive"] if defence.get("characters") else [])]
    unknown = dict.fromkeys(PATTERNS, 4)
    return victims(plan, unknown, copies, defence=defence, attacks=attacks, made_vectors=fixed)


def defence_rows(
    trials: Sequence[StudyTrial], groups: Groups, published: Sequence[float] | None = None
) -> list[TableRow]:
    """A row a pattern, then one of all of them with what the ``trials``' victims get right.

    ``groups`` is what was found of each pattern in these trials, ``published`` the paper's HDT of each.
    """
    figures = [*published, round(fmean(published), 3)] if published else [None] * (len(PATTERNS) + 1)
    attacks = {"one start": (ONE_START, counts.RELAXED), "five starts": ("published", counts.RELAXED),
               "adaptive": ("adaptive", counts.RELAXED), "finished": (strongest(groups), counts.FINISHED)}  # fmt: skip
    shown = {column: Measured.mean([trial.result[what] for trial in trials], most) for column, what, most in COLUMNS}
    return [
        {
            "canary": pattern,
            "published": Published(figure),
            **{column: hdts(groups, *attack)[pattern] for column, attack in attacks.items()},
            "chance": round(counts.chance(pattern), 3),
            "exposure (bits)": counts.exposure(groups[pattern], pattern) if pattern in groups else None,
            **{column: found if pattern == counts.EVERY else None for column, found in shown.items()},
        }
        for pattern, figure in zip((*PATTERNS, counts.EVERY), figures, strict=True)
    ]


def strongest(groups: Groups) -> str:
    """The attack of an attacker who knows the defences."""
    adaptive = any("adaptive" in entry["attacks"] for own in groups.values() for entry in own)
    return "adaptive" if adaptive else "published"


def hdts(groups: Groups, attack: str, when: str = counts.RELAXED) -> dict[str, Measured | None]:
    """HDT of each pattern and of all."""
    each = {pattern: counts.distances(found, attack, when) for pattern, found in groups.items()}
    return {pattern: counts.mean_distance(own) for pattern, own in each.items()} | {
        counts.EVERY: counts.pooled(each.values())
    }


def together(groups: Groups, attack: str = ONE_START, when: str = counts.RELAXED) -> dict[str, Measured | None]:
    """HDT of all patterns taken together."""
    return {counts.EVERY: hdts(groups, attack, when)[counts.EVERY]}


def knowing(groups: Groups) -> dict[str, Measured | None]:
    """HDT of all patterns for an attacker who knows the defences: the best of five starts, finished."""
    return together(groups, strongest(groups), counts.FINISHED)


def each_victim(groups: Groups) -> list[float]:
    """Each victim's mean over the patterns, from one start."""
    return [
        fmean(each) for each in zip(*(counts.distances(found, ONE_START) for found in groups.values()), strict=True)
    ]


def by_pattern(trials: Sequence[StudyTrial]) -> Groups:
    """What was found of each pattern."""
    return {pattern: chosen(trials, pattern) for pattern in PATTERNS}


def with_defence(
    trials: Sequence[StudyTrial], copies: int, defence: Config, *, fixed: bool = False
) -> list[StudyTrial]:
    """The trials with so many copies, this defence and these embeddings."""
    wanted = {"published_copies": copies, "defence": {**PLAIN, **defence}}.items()
    return [
        trial for trial in trials if wanted <= trial.config.items() and bool(trial.config["ground"]["alike"]) == fixed
    ]


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
        return [(name, fixed) for fixed in (False, True) for name in (NONE, TOGETHER)]
    return [*((name, False) for name in DEFENCES), *((name, True) for name in FIXED_TOO)]


def table_3(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """HDT by defence and pattern; with character embeddings also against an attacker who knows of them."""
    rows, groups = list[TableRow](), dict[str, dict[str, Groups]]()
    for copies in DEFENDED[plan.scale]:
        for name, fixed in _settings(plan, copies):
            own = with_defence(trials, copies, DEFENCES[name], fixed=fixed)
            # Those of the paper's file are not trained, nor those that are made.
            embeddings = "fixed" if fixed or ground_at(plan.scale).fixed else "learnt"
            found = groups.setdefault(f"R = {copies}, {embeddings} embeddings: ", {})[name] = by_pattern(own)
            setting: TableRow = {"R": copies, "embeddings": embeddings, "defence": name}
            rows += [{**setting, **row} for row in defence_rows(own, found, TABLE_3[copies][name])]
    notes = [*differences(plan), KNOWING, STOPPED, *([SHORTER, FIXED] if plan.scale != "paper" else [])]
    claims = [*_defence_claims(groups), _useful(trials, DEFENDED[plan.scale][-1])]
    return Report(list(rows[0]), rows, claims, notes)


def _defence_claims(groups: Mapping[str, Mapping[str, Groups]]) -> list[Claim]:
    """What section 6 concludes, at each R and with embeddings of each kind."""
    claims = list[Claim]()
    for words, own in groups.items():
        none, every, five = own[NONE], own[TOGETHER], "the best of five starts by an attacker who knows them"
        claims += [
            counts.below_chance(f"{words}without a defence the attack from one start is below chance", together(none)),
            *worse_than_none(words + "{} makes it worse", own),
            counts.near_chance(f"{words}all three bring it within {counts.MARGIN} of chance", together(every)),
            counts.at_chance(f"{words}all three bring it to chance", together(every)),
            counts.at_chance(f"{words}also {five}, with the finish", knowing(every)),
            *(
                counts.below_chance(f"{words}{name} alone leaves the attack below chance", together(own[name]))
                for name in ALONE
                if name in own
            ),
        ]
    return claims


def worse_than_none(words: str, found: Mapping[str, Groups]) -> list[Claim]:
    """That each defence, whose name goes into the ``words``, makes the attack from one start worse than without."""
    none = each_victim(found[NONE])
    return [counts.lower(words.format(name), none, each_victim(own)) for name, own in found.items() if name != NONE]


def _useful(trials: Sequence[StudyTrial], copies: int) -> Claim:
    """That intents right do not fall by 0.02: the interval of the difference of means, by Welch, excludes it."""
    from scipy import stats

    plain, every = (
        [trial.result["intent_accuracy"] for trial in with_defence(trials, copies, DEFENCES[name])]
        for name in (NONE, TOGETHER)
    )
    words = "the three together do not cost usefulness: intents right fall by less than 0.02"
    shown = f"{fmean(plain):.3f} without, {fmean(every):.3f} with"
    if min(len(plain), len(every)) < 2 or len({*plain, *every}) == 1:
        return Claim(words, None, shown)
    fall = stats.ttest_ind(plain, every, equal_var=False).confidence_interval(0.95)
    holds = decide(fall.high < 0.02, fall.low > 0.02)
    return Claim(words, holds, f"{shown}; a fall of {fall.low:.3f} to {fall.high:.3f}")


register_study(
    "table-3", "HDT with dropout, early stopping and character embeddings", "Table 3", table_3_trials, table_3
)
