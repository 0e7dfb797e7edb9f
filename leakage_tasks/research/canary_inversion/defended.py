"""Taggers trained with a defence, and the rows of tables that set defences beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from statistics import fmean

from leakage_tasks.research.canary_inversion.counts import (
    EVERY,
    FINISHED,
    RELAXED,
    chance,
    distances,
    exposure,
    mean_distance,
    pooled,
)
from leakage_tasks.research.canary_inversion.settings import ONE_START, PATTERNS, PLAIN
from leakage_tasks.research.canary_inversion.tables import undefended
from leakage_tasks.research.canary_inversion.trials import chosen, victims
from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Measured, Published, TableRow

COLUMNS = (("intents right", "intent_accuracy", 1.0), ("slot F1", "slot_f1", 1.0), ("epoch", "epoch", inf))
"""What is shown of the victims: column, name in a trial's result, the most it can be."""


def defended(plan: StudyPlan, copies: int, defence: Config, *, fixed: bool) -> list[Config]:
    """Victims with ``defence`` at n = 4, on embeddings that are learnt, or on fixed ones made for it."""
    if not defence and not fixed:
        return undefended(plan, 4, copies)
    attacks = ["published", ONE_START, *(["adaptive"] if defence.get("characters") else [])]
    unknown = dict.fromkeys(PATTERNS, 4)
    return victims(plan, unknown, copies, defence=defence, attacks=attacks, made_vectors=fixed)


def defence_rows(
    trials: Sequence[StudyTrial], groups: Mapping[str, list[Config]], published: Sequence[float] | None = None
) -> list[TableRow]:
    """A row a pattern, then one of all of them with what the ``trials``' victims get right.

    ``groups`` is what was found of each pattern in these trials, ``published`` the paper's HDT of each.
    """
    figures = [*published, round(fmean(published), 3)] if published else [None] * (len(PATTERNS) + 1)
    printed = dict(zip((*PATTERNS, EVERY), figures, strict=True))
    attacks = {"one start": (ONE_START, RELAXED), "five starts": ("published", RELAXED),
               "adaptive": ("adaptive", RELAXED), "finished": (strongest(groups), FINISHED)}  # fmt: skip
    rows: list[TableRow] = [
        {
            "canary": pattern,
            "published": Published(printed[pattern]),
            **{column: hdts(groups, *attack)[pattern] for column, attack in attacks.items()},
            "chance": round(chance(pattern), 3),
            "exposure (bits)": exposure(groups[pattern], pattern) if pattern in groups else None,
        }
        for pattern in (*PATTERNS, EVERY)
    ]
    shown = {column: Measured.mean([trial.result[what] for trial in trials], most) for column, what, most in COLUMNS}
    return [*({**row, **dict.fromkeys(shown)} for row in rows[:-1]), {**rows[-1], **shown}]


def strongest(groups: Mapping[str, list[Config]]) -> str:
    """The attack of an attacker who knows the defences."""
    return (
        "adaptive" if any("adaptive" in entry["attacks"] for own in groups.values() for entry in own) else "published"
    )


def hdts(groups: Mapping[str, list[Config]], attack: str, when: str = RELAXED) -> dict[str, Measured | None]:
    """HDT of each pattern and of all."""
    each = {pattern: distances(found, attack, when) for pattern, found in groups.items()}
    return {pattern: mean_distance(own) for pattern, own in each.items()} | {EVERY: pooled(each.values())}


def together(
    groups: Mapping[str, list[Config]], attack: str = ONE_START, when: str = RELAXED
) -> dict[str, Measured | None]:
    """HDT of all patterns taken together."""
    return {EVERY: hdts(groups, attack, when)[EVERY]}


def knowing(groups: Mapping[str, list[Config]]) -> dict[str, Measured | None]:
    """HDT of all patterns for an attacker who knows the defences: the best of five starts, finished."""
    return together(groups, strongest(groups), FINISHED)


def each_victim(groups: Mapping[str, list[Config]]) -> list[float]:
    """Each victim's mean over the patterns, from one start."""
    return [fmean(each) for each in zip(*(distances(found, ONE_START) for found in groups.values()), strict=True)]


def by_pattern(trials: Sequence[StudyTrial]) -> dict[str, list[Config]]:
    """What was found of each pattern."""
    return {pattern: chosen(trials, pattern) for pattern in PATTERNS}


def with_defence(
    trials: Sequence[StudyTrial], copies: int, defence: Config, *, fixed: bool = False
) -> list[StudyTrial]:
    """The trials with so many copies, this defence and these embeddings."""
    wanted = {"published_copies": copies, "defence": {**PLAIN, **defence}}
    return [
        trial
        for trial in trials
        if {key: trial.config[key] for key in wanted} == wanted and bool(trial.config["ground"]["alike"]) == fixed
    ]
