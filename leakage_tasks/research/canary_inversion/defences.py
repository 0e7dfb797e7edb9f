"""Table 3 of Parikh, Dupuy and Gupta (2022): the attack under dropout, early stopping and character embeddings.

HDT is the Hamming distance per token, n the number of unknown tokens, and R the number of copies of a canary.
"""

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
from leakage_tasks.research.framework.papers import PaperClaim
from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow

COLUMNS = (("intents right", "intent_accuracy", 1.0), ("slot F1", "slot_f1", 1.0), ("epoch", "epoch", inf))
"""Columns about the victims: title, key in a trial's result, largest possible value."""
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
"""Published HDT of color, pin and call by R and defence."""
WEAKEN = PaperClaim("most defences weaken the attack (HDT without vs with a defence)")
TO_CHANCE = PaperClaim("all three together reduce it to random guess")
NOT_ALONE = PaperClaim("dropout or character embeddings alone do not suffice")
ACCURATE = PaperClaim("defences do not reduce accuracy")
NONE, TOGETHER = "No defense", "D + ES + CE"
ALONE = ("Dropout (D)", "Char. Emb. (CE)")
"""Defences that do not suffice alone, according to the paper."""
FIXED_TOO = (NONE, "Early Stopping (ES)", "D + ES", TOGETHER)
"""Defences that are also studied with fixed embeddings at ``small``."""
KNOWING = (
    "'Adaptive' mixes the candidates' character features like their embeddings; the published attack takes the "
    "features of the likeliest candidate. 'Finished' is the answer of an adversary who knows the defence, after "
    "coordinate search."
)
STOPPED = (
    "Early stopping takes the weights of the epoch with the lowest validation loss ('epoch'); training ends 20 epochs "
    "later, or after 100 epochs. Dropout is 0.2; the paper names 20 % and 10 % without saying which layers use them."
)
SHORTER = (
    "Victims with learnt embeddings and without early stopping train for the epochs named above. At this scale that is "
    "too short for early stopping to matter; its rows show the leakage of the best epoch."
)
FIXED = (
    f"'Fixed' embeddings replace FastText's at this scale: random and not trained, with a cosine of {ALIKE} between "
    f"the values of a slot and a standard deviation of {SPREAD}; their similarity to FastText's is an "
    f"assumption. Victims with them and without early stopping train {OVERTRAINED} epochs."
)
Groups = Mapping[str, list[Config]]
"""Results by pattern."""
DEFENDED: Mapping[Scale, Sequence[int]] = {"smoke": (500,), "small": (10, 500), "paper": (10, 500, 1000)}


def defended(plan: StudyPlan, copies: int, defence: Config, *, fixed: bool) -> list[Config]:
    """List the trials of victims with ``defence`` at n = 4, on learnt embeddings or on fixed, artificial embeddings."""
    if not defence and not fixed:
        return undefended(plan, 4, copies)
    attacks = ["published", ONE_START, *(["adaptive"] if defence.get("characters") else [])]
    unknown = dict.fromkeys(PATTERNS, 4)
    return victims(plan, unknown, copies, defence=defence, attacks=attacks, made_vectors=fixed)


def defence_rows(
    trials: Sequence[StudyTrial], groups: Groups, published: Sequence[float] | None = None
) -> list[TableRow]:
    """Return a row per pattern, then one row for all patterns with the victims' accuracy.

    Args:
        trials: trials of one defence.
        groups: their results by pattern.
        published: the paper's HDT of each pattern.
    """
    figures = [*published, round(fmean(published), 3)] if published else [None] * (len(PATTERNS) + 1)
    attacks = {"one start": (ONE_START, counts.RELAXED), "five starts": ("published", counts.RELAXED),
               "adaptive": ("adaptive", counts.RELAXED), "finished": (strongest(groups), counts.FINISHED)}  # fmt: skip
    shown = {column: Measured.mean([trial.result[key] for trial in trials], most) for column, key, most in COLUMNS}
    return [
        {
            "canary": pattern,
            "published": Published(figure),
            **{column: hdts(groups, *attack)[pattern] for column, attack in attacks.items()},
            "chance": round(counts.chance(pattern), 3),
            "exposure (bits)": counts.exposure(groups[pattern], pattern) if pattern in groups else None,
            **{column: measured if pattern == counts.EVERY else None for column, measured in shown.items()},
        }
        for pattern, figure in zip((*PATTERNS, counts.EVERY), figures, strict=True)
    ]


def strongest(groups: Groups) -> str:
    """Return the attack of an adversary who knows the defences."""
    adaptive = any("adaptive" in entry["attacks"] for group in groups.values() for entry in group)
    return "adaptive" if adaptive else "published"


def hdts(groups: Groups, attack: str, when: str = counts.RELAXED) -> dict[str, Measured | None]:
    """Return HDT of each pattern and of all patterns pooled."""
    by_pattern = {pattern: counts.distances(entries, attack, when) for pattern, entries in groups.items()}
    return {pattern: counts.mean_distance(values) for pattern, values in by_pattern.items()} | {
        counts.EVERY: counts.pooled(by_pattern.values())
    }


def together(groups: Groups, attack: str = ONE_START, when: str = counts.RELAXED) -> dict[str, Measured | None]:
    """Return HDT of all patterns pooled."""
    return {counts.EVERY: hdts(groups, attack, when)[counts.EVERY]}


def knowing(groups: Groups) -> dict[str, Measured | None]:
    """Return pooled HDT for an adversary who knows the defences: the best of five starts, then discrete search."""
    return together(groups, strongest(groups), counts.FINISHED)


def each_victim(groups: Groups) -> list[float]:
    """Return each victim's mean Hamming distance per token (HDT) over the patterns, from one start."""
    return [
        fmean(values)
        for values in zip(*(counts.distances(entries, ONE_START) for entries in groups.values()), strict=True)
    ]


def by_pattern(trials: Sequence[StudyTrial]) -> Groups:
    """Return the results of trials by pattern."""
    return {pattern: chosen(trials, pattern) for pattern in PATTERNS}


def with_defence(
    trials: Sequence[StudyTrial], copies: int, defence: Config, *, fixed: bool = False
) -> list[StudyTrial]:
    """Return the trials with this number of copies, this defence and these embeddings."""
    required = {"published_copies": copies, "defence": {**PLAIN, **defence}}.items()
    return [
        trial for trial in trials if required <= trial.config.items() and bool(trial.config["ground"]["alike"]) == fixed
    ]


def table_3_trials(plan: StudyPlan) -> list[Config]:
    """List trials of every defence at n = 4 on learnt embeddings, and of some defences on fixed embeddings."""
    return [
        config
        for copies in DEFENDED[plan.scale]
        for name, fixed in _settings(plan, copies)
        for config in defended(plan, copies, DEFENCES[name], fixed=fixed)
    ]


def _settings(plan: StudyPlan, copies: int) -> list[tuple[str, bool]]:
    """List defences, each with True if its embeddings are fixed."""
    if plan.scale == "paper":
        return [(name, False) for name in DEFENCES]
    if copies != DEFENDED[plan.scale][-1]:
        return [(name, fixed) for fixed in (False, True) for name in (NONE, TOGETHER)]
    return [*((name, False) for name in DEFENCES), *((name, True) for name in FIXED_TOO)]


def table_3(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report Hamming distance per token (HDT) by defence and pattern; with character embeddings also for an adversary
    who knows about them."""
    rows, groups = list[TableRow](), dict[str, dict[str, Groups]]()
    for copies in DEFENDED[plan.scale]:
        for name, fixed in _settings(plan, copies):
            group = with_defence(trials, copies, DEFENCES[name], fixed=fixed)
            # Embeddings from the paper's file and artificial ones are not trained.
            embeddings = "fixed" if fixed or ground_at(plan.scale).fixed else "learnt"
            defence_groups = groups.setdefault(f"R = {copies}, {embeddings} embeddings: ", {})[name] = by_pattern(group)
            setting: TableRow = {"R": copies, "embeddings": embeddings, "defence": name}
            rows += [{**setting, **row} for row in defence_rows(group, defence_groups, TABLE_3[copies][name])]
    notes = [*differences(plan), KNOWING, STOPPED, *([SHORTER, FIXED] if plan.scale != "paper" else [])]
    claims = [*_defence_claims(groups), _useful(trials, DEFENDED[plan.scale][-1])]
    return Report(list(rows[0]), rows, claims, notes)


def _defence_claims(groups: Mapping[str, Mapping[str, Groups]]) -> list[Claim]:
    """List the conclusions of section 6 as claims, for each R and kind of embeddings."""
    claims = list[Claim]()
    for words, by_defence in groups.items():
        none, all_three = by_defence[NONE], by_defence[TOGETHER]
        knowing_attack = "the best of five starts by an attacker who knows them"
        claims += [
            counts.below_chance(f"{words}without a defence the attack from one start is below chance", together(none)),
            *worse_than_none(WEAKEN.test(words + "{}"), by_defence),
            counts.near_chance(TO_CHANCE.test(f"{words}within {counts.MARGIN} of chance"), together(all_three)),
            counts.at_chance(f"{words}all three bring it to chance", together(all_three)),
            counts.at_chance(f"{words}also {knowing_attack}, with the finish", knowing(all_three)),
            *(
                counts.below_chance(NOT_ALONE.test(f"{words}{name}"), together(by_defence[name]))
                for name in ALONE
                if name in by_defence
            ),
        ]
    return claims


def worse_than_none(words: str, by_defence: Mapping[str, Groups]) -> list[Claim]:
    """Return one claim per defence, whose name is inserted into ``words``: it raises HDT from one start."""
    none = each_victim(by_defence[NONE])
    return [
        counts.lower(words.format(name), none, each_victim(group)) for name, group in by_defence.items() if name != NONE
    ]


def _useful(trials: Sequence[StudyTrial], copies: int) -> Claim:
    """Return the claim that intent accuracy falls by less than 0.02, by Welch's interval of the difference of means."""
    from scipy import stats

    plain_accuracy, defended_accuracy = (
        [trial.result["intent_accuracy"] for trial in with_defence(trials, copies, DEFENCES[name])]
        for name in (NONE, TOGETHER)
    )
    words = ACCURATE.test("intents right fall by less than 0.02 with all three")
    shown = f"{fmean(plain_accuracy):.3f} without, {fmean(defended_accuracy):.3f} with"
    if min(len(plain_accuracy), len(defended_accuracy)) < 2 or len({*plain_accuracy, *defended_accuracy}) == 1:
        return Claim(words, None, shown)
    fall = stats.ttest_ind(plain_accuracy, defended_accuracy, equal_var=False).confidence_interval(0.95)
    holds = decide(fall.high < 0.02, fall.low > 0.02)
    return Claim(words, holds, f"{shown}; a fall of {fall.low:.3f} to {fall.high:.3f}")


register_study(
    "table-3", "HDT with dropout, early stopping and character embeddings", "Table 3", table_3_trials, table_3
)
