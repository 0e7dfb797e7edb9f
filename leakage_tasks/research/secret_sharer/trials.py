"""A trial of The Secret Sharer's studies: a model trained on a text with secrets in it, and looked at on the way."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from leakage_tasks.research.framework.registry import Config, Result, StudyPlan, StudyTrial, registrar
from leakage_tasks.research.framework.report import Measured, TableRow
from leakage_tasks.research.secret_sharer.experiment import BOTH, SCALES, SOURCE, WHOLE, PlantedText, Watch, differences

EPOCHS = 1_000
"""More than any trial looks at."""


def run(config: Config, shared: Path) -> Result:
    """Train a model as ``config`` says and look at its canaries.

    ``losses`` are bits a character (or word) an epoch, ``best`` the epoch of lowest validation loss, ``seen`` what was
    found at each epoch that was watched, and at the best one under ``best``, a list with an entry a canary.
    """
    from leakage_tasks.training.threads import one_thread

    text, watch = PlantedText(config, config["secrets"]), Watch(**config["watch"])
    seen: dict[str, list[Config]] = {}

    def look(name: str, model: Any, what: Sequence[str]) -> None:
        # With one seed for all, the estimates of all epochs would be of the same random numbers.
        seen[name] = text.observe(model, what, EPOCHS * text.seed + len(seen))

    def on_epoch(epoch: int, model: Any, losses: Sequence[Any]) -> None:
        if epoch in watch.epochs or 0 in watch.epochs:
            look(str(epoch), model, watch.what)

    with one_thread():
        trained = text.train(config["recipe"], on_epoch=on_epoch)
        if watch.at_best:
            look("best", trained.model, watch.at_best)
    losses = [[loss.training, loss.validation or 0.0] for loss in trained.losses]
    best = min(range(len(losses)), key=lambda epoch: losses[epoch][1]) + 1
    parameters = sum(parameter.numel() for parameter in trained.model.parameters())
    return {"seen": seen, "losses": losses, "best": best, "parameters": parameters, "characters": text.characters}


def chosen(trials: Iterable[StudyTrial], **wanted: Any) -> list[StudyTrial]:
    """The trials whose recipe, secrets or config have these values."""
    return [
        trial
        for trial in trials
        if wanted.items() <= {**trial.config, **trial.config["secrets"], **trial.config["recipe"]}.items()
    ]


def entries(trials: Iterable[StudyTrial], when: str = "best", *, planted: bool = True) -> list[Config]:
    """What was found out about each planted canary (or control) at one epoch of each trial."""
    return [entry for trial in trials for entry in trial.result["seen"].get(when, []) if entry["planted"] == planted]


def every_look(trials: Iterable[StudyTrial], *, controls: bool = False) -> Iterator[tuple[int, int, Config]]:
    """Seed, epoch and what was found out then about each planted canary, of trials that were watched at every epoch.

    With ``controls``, about these too.
    """
    for trial in trials:
        for epoch in range(1, len(trial.result["losses"]) + 1):
            for entry in trial.result["seen"].get(str(epoch), []):
                if entry["planted"] or controls:
                    yield trial.config["seed"], epoch, entry


def bits(found: Iterable[Config], measure: str = "exposure") -> list[float]:
    """Exposures in bits by one measure."""
    return [entry[measure]["bits"] for entry in found]


def mean_bits(found: Sequence[Config], measure: str = "exposure") -> Measured | str:
    """Their mean with its interval, which ends at the most there can be of nine digits unless extrapolated.

    Where some are lower bounds alone, so is the mean: ``≥ 12.3 n=2``.
    """
    values = bits(found, measure)
    if any(entry[measure]["method"] == "lower_bound" for entry in found):
        return f"≥ {fmean(values):.3g} n={len(values)}"
    return Measured.mean(values, math.inf if measure == "extrapolated" else WHOLE)


def exposure_columns(trials: Sequence[StudyTrial], when: str = "best") -> TableRow:
    """A row's mean exposures by either measure, and those of controls."""
    seen, controls = entries(trials, when), entries(trials, when, planted=False)
    return {**{measure: mean_bits(seen, measure) for measure in BOTH}, "controls": mean_bits(controls)}


def set_up(trials: Sequence[StudyTrial], plan: StudyPlan) -> list[str]:
    """How the trials differ from the paper's, and how many exposures are lower bounds alone."""
    found = [entry for trial in trials for seen in trial.result["seen"].values() for entry in seen]
    methods = [entry["exposure"]["method"] for entry in found if "exposure" in entry]
    bounds = methods.count("lower_bound")
    note = f"Of {len(methods)} exposures {bounds} are lower bounds, as none of the draws cost less than the secret."
    return [*differences(plan), _training(trials), *([note] if bounds else [])]


def _training(trials: Sequence[StudyTrial]) -> str:
    """How long the models were trained, and how many there are."""
    recipes = [trial.config["recipe"] for trial in trials]
    epochs = " or ".join(map(str, sorted({recipe["epochs"] for recipe in recipes})))
    stopped = sorted({recipe["patience"] for recipe in recipes if (recipe["patience"] or math.inf) < recipe["epochs"]})
    ends = f" at most, ended {stopped[0]} epochs after the best validation loss" if stopped else ""
    seeds = {trial.config["seed"] for trial in trials}
    return (
        f"{len(seeds)} models a setting (the paper: 10 in most tables), trained for {epochs} epochs{ends}. 'Best' is "
        "the epoch of lowest validation loss."
    )


def best_loss(trials: Iterable[StudyTrial]) -> list[float]:
    """Each trial's lowest validation loss, in bits a character."""
    return [min(loss for _, loss in trial.result["losses"]) for trial in trials]


register_study = registrar("secret-sharer", SOURCE, SCALES, run)
"""Registers studies of this paper."""
