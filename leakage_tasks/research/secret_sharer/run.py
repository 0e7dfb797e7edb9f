"""The run that most figures of The Secret Sharer are of: the paper's LSTM, trained past its best epoch."""

from __future__ import annotations

from typing import Any

from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan, StudyTrial
from leakage_tasks.research.secret_sharer.experiment import Watch, seeds, setting
from leakage_tasks.research.secret_sharer.trials import entries

INDEPENDENT = "Epochs of one model are counted as independent."
LONG: dict[Scale, int] = {"smoke": 2, "small": 24, "paper": 40}
"""Epochs of the run, well beyond the best validation loss."""
EXTRACTABLE = 30.0
"""Extrapolated exposure from which the paper calls a secret uniquely extractable."""
FEWER = 1e4
"""How many times fewer calls than brute force a search should take."""
WATCH = Watch(
    ("exposure", "extrapolated", "cheapest", "costs"),
    ("exposure", "extrapolated", "shortest-path"),
    (0,),
)


def long_trials(plan: StudyPlan) -> list[Config]:
    """The paper's LSTM trained past its best epoch, looked at after every epoch."""
    made = setting(plan, recipe={"epochs": LONG[plan.scale]}, watch=WATCH)
    return [made.config(seed) for seed in seeds(plan)]


def by_epoch(trial: StudyTrial, measure: str) -> list[Any]:
    """What ``measure`` found of the planted canary after each epoch."""
    return [entries([trial], str(epoch))[0][measure] for epoch in range(1, len(trial.result["losses"]) + 1)]
