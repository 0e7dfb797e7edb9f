"""The settings that studies of Ethicist compare, how they differ from the paper's, and how studies are registered."""

from __future__ import annotations

from collections.abc import Sequence

from leakage_tasks.research.ethicist.experiment import differences
from leakage_tasks.research.ethicist.guesses import intervals
from leakage_tasks.research.ethicist.trials import SCALES, WITHOUT_SMOOTHING, run
from leakage_tasks.research.framework.registry import StudyPlan, StudyTrial, registrar

UNTUNED, SMOOTH, PLAIN = "untuned", "smooth", "plain"
"""No prompt, Ethicist's, and one tuned without the smoothing loss."""


def by_setting(trials: Sequence[StudyTrial]) -> dict[str, list[StudyTrial]]:
    """Trials of the main model that draw by top-p, by setting, in the order of their seeds."""
    found: dict[str, list[StudyTrial]] = {UNTUNED: [], SMOOTH: [], PLAIN: []}
    for trial in sorted(trials, key=lambda each: each.config["seed"]):
        tuning = trial.config["tuning"]
        plain = tuning is not None and WITHOUT_SMOOTHING.items() <= tuning.items()
        found[UNTUNED if tuning is None else PLAIN if plain else SMOOTH].append(trial)
    return found


def set_up(trials: Sequence[StudyTrial], plan: StudyPlan) -> list[str]:
    """Differences from the paper, and what intervals mean."""
    return [*differences(plan.scale), intervals(trials)]


register_study = registrar("ethicist", "Zhang, Wen and Huang 2023", SCALES, run)
"""Registers studies of this paper."""
