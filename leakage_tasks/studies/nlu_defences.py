"""Table 3 of Parikh, Dupuy and Gupta (2022): what dropout, early stopping and character embeddings do to the attack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from statistics import fmean
from typing import Any

from leakage_tasks.studies.nlu import undefended
from leakage_tasks.studies.nlu_counts import FINISHED, at_chance, below_chance, chance, distances, hdt, lower, set_up
from leakage_tasks.studies.nlu_ground import ALIKE, OVERTRAINED, SPREAD
from leakage_tasks.studies.nlu_trials import DEFENCES, PATTERNS, chosen, register_study, victims
from leakage_tasks.studies.registry import Config, Plan, Scale, Trial
from leakage_tasks.studies.report import Claim, Measured, Published, Report

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
FEWER = 5
"""Trials of one or two defences in the lab; the others have ten."""
FIXED_TOO = ("No defense", "Early Stopping (ES)", "D + ES", TOGETHER)
"""What is tried on fixed embeddings in the lab."""
KNOWING = (
    "'Adaptive' mixes the candidates' character features as it mixes their embeddings; as published, the features are "
    "those of the likeliest candidate. 'Finished' is the answer of an attacker who knows the defence, after coordinate "
    "search."
)
STOPPED = (
    "Early stopping keeps the weights of the lowest validation loss, 20 epochs after which training ends, 100 at the "
    "latest; 'epoch' is the one whose weights are taken. Victims without it train as long as is said above, which is "
    "shorter in the lab: it has nothing to stop there, and its rows show what the best epoch gives away. Dropout is "
    "0.2; the paper names 20 % and 10 %, and not where each is."
)
FIXED = (
    "'Fixed' embeddings stand for FastText's at this scale: random, not trained, the values of a slot with a cosine of "
    f"{ALIKE} between them, numbers of a standard deviation of {SPREAD}; what FastText's are like is an "
    f"assumption. Victims with them and without early stopping train {OVERTRAINED} epochs."
)
COLUMNS = (("intents right", "intent_accuracy", 1.0), ("slot F1", "slot_f1", 1.0), ("epoch", "epoch", inf))
"""What is shown of the victims: column, name in a trial's result, the most it can be."""
Groups = dict[tuple[int, str, bool], dict[str, list[Config]]]
"""R, defence and whether embeddings are fixed, to what was found of each pattern."""
DEFENDED: Mapping[Scale, Sequence[int]] = {"smoke": (500,), "small": (10, 500), "paper": (10, 500, 1000)}


def table_3_trials(plan: Plan) -> list[Config]:
    """Every defence at n = 4, on embeddings that are learnt, and some on fixed ones."""
    return [
        config
        for copies in DEFENDED[plan.scale]
        for name, fixed in _settings(plan, copies)
        for config in _defended(plan, copies, name, fixed)
    ]


def _settings(plan: Plan, copies: int) -> list[tuple[str, bool]]:
    """Defences, and whether embeddings are fixed ones that were made for it."""
    if plan.scale == "paper":
        return [(name, False) for name in DEFENCES]
    if copies != DEFENDED[plan.scale][-1]:
        return [("No defense", False), (TOGETHER, False)]
    return [*((name, False) for name in DEFENCES), *((name, True) for name in FIXED_TOO)]


def _defended(plan: Plan, copies: int, name: str, fixed: bool) -> list[Config]:
    if name == "No defense" and not fixed:
        return undefended(plan, 4, copies)
    fewer = plan.scale == "small" and not fixed and name != TOGETHER
    return victims(
        plan,
        dict.fromkeys(PATTERNS, 4),
        copies,
        defence=DEFENCES[name],
        attacks=("published", "adaptive") if DEFENCES[name].get("characters") else ("published",),
        made_vectors=fixed,
        seeds=FEWER if fewer else None,
    )


def table_3(trials: Sequence[Trial], plan: Plan) -> Report:
    """HDT by defence and pattern; with character embeddings also against an attacker who knows of them."""
    rows: list[dict[str, Any]] = [{"defence": "chance", **{pattern: f"{chance(pattern):.3f}" for pattern in PATTERNS}}]
    groups: Groups = {}
    for copies in DEFENDED[plan.scale]:
        for name, fixed in _settings(plan, copies):
            own = with_defence(trials, copies, name, fixed)
            groups[copies, name, fixed] = {pattern: chosen(own, pattern) for pattern in PATTERNS}
            shown = groups[copies, name, fixed]
            rows.append(
                {"R": copies, "embeddings": "fixed" if fixed else "learnt", **_defence_row(name, own, shown, copies)}
            )
    notes = [*set_up(trials, plan), KNOWING, STOPPED, *([FIXED] if plan.scale != "paper" else [])]
    return Report(_columns(), rows, _defence_claims(trials, plan, groups), notes)


def _columns() -> list[str]:
    columns = ["R", "embeddings", "defence"]
    for pattern in PATTERNS:
        columns += [f"{pattern}, published", pattern, f"{pattern} adaptive", f"{pattern} finished"]
    return [*columns, *(column for column, _, _ in COLUMNS)]


def with_defence(trials: Sequence[Trial], copies: int, name: str, fixed: bool = False) -> list[Trial]:
    """The trials with so many copies, this defence and these embeddings."""
    defence = {"dropout": 0.0, "patience": None, "characters": False, **DEFENCES[name]}
    wanted = {"published_copies": copies, "defence": defence}
    return [
        trial
        for trial in trials
        if {key: trial.config[key] for key in wanted} == wanted and bool(trial.config["ground"]["alike"]) == fixed
    ]


def _defence_row(name: str, own: Sequence[Trial], groups: Mapping[str, list[Config]], copies: int) -> dict[str, Any]:
    row: dict[str, Any] = {"defence": name}
    for place, pattern in enumerate(PATTERNS):
        row[f"{pattern}, published"] = Published(TABLE_3[copies][name][place])
        row[pattern] = hdt(groups[pattern])
        row[f"{pattern} adaptive"] = hdt(groups[pattern], "adaptive")
        row[f"{pattern} finished"] = hdt(groups[pattern], strongest(groups[pattern]), FINISHED)
    for column, what, most in COLUMNS:
        row[column] = Measured.mean([trial.result[what] for trial in own], most)
    return row


def strongest(found: Sequence[Config]) -> str:
    """The attack of an attacker who knows the defences."""
    return "adaptive" if any("adaptive" in entry["attacks"] for entry in found) else "published"


def _defence_claims(trials: Sequence[Trial], plan: Plan, groups: Groups) -> list[Claim]:
    copies, claims = DEFENDED[plan.scale][-1], list[Claim]()
    for fixed in dict.fromkeys(fixed for _, fixed in _settings(plan, copies)):
        words = "on fixed embeddings, " if fixed else ""
        none, every = groups[copies, "No defense", fixed], groups[copies, TOGETHER, fixed]
        claims.append(below_chance(f"{words}without a defence the attack is below chance", _hdts(none)))
        claims += [
            lower(f"{words}{name} makes the attack worse", _all(none), _all(groups[copies, name, fixed]))
            for name in list(DEFENCES)[1:-1]
            if (copies, name, fixed) in groups
        ]
        claims += [
            lower(f"{words}the three together make it worse", _all(none), _all(every)),
            at_chance(f"{words}the three together bring it to chance", _hdts(every)),
            at_chance(
                f"{words}also for an attacker who knows them, with the finish",
                {pattern: hdt(each, strongest(each), FINISHED) for pattern, each in every.items()},
            ),
        ]
    return [*claims, _useful(trials, copies)]


def _hdts(groups: Mapping[str, list[Config]]) -> dict[str, Measured | None]:
    return {pattern: hdt(found) for pattern, found in groups.items()}


def _all(groups: Mapping[str, list[Config]]) -> list[float]:
    return [value for found in groups.values() for value in distances(found)]


def _useful(trials: Sequence[Trial], copies: int) -> Claim:
    """That intents right do not fall by 0.02: the interval of the difference of means, by Welch, excludes it."""
    from scipy import stats

    plain, every = (
        [trial.result["intent_accuracy"] for trial in with_defence(trials, copies, name)]
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
