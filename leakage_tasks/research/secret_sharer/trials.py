"""Trials of The Secret Sharer's studies: train a model on a text with secrets and measure its canaries."""

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
"""Upper bound on the number of epochs of any trial."""


def run(config: Config, shared: Path) -> Result:
    """Train a model by ``config`` and measure its canaries; see :func:`observed_training`."""
    return observed_training(config, PlantedText(config, config["secrets"]))


def observed_training(config: Config, text: PlantedText) -> Result:
    """Train a model on ``text`` by ``config`` and measure its canaries.

    ``losses`` are bits per character (or word) for each epoch, ``best`` is the epoch of lowest validation loss, and
    ``seen`` has the measurements by epoch and under ``best``: a list with an entry per canary.
    """
    from leakage_tasks.training.threads import one_thread

    watch = Watch(**config["watch"])
    findings: dict[str, list[Config]] = {}

    def measure(name: str, model: Any, what: Sequence[str]) -> None:
        # With one seed, the estimates of all epochs would share their random numbers.
        findings[name] = text.observe(model, what, EPOCHS * text.seed + len(findings))

    def on_epoch(epoch: int, model: Any, losses: Sequence[Any]) -> None:
        if epoch in watch.epochs or 0 in watch.epochs:
            measure(str(epoch), model, watch.what)

    with one_thread():
        trained = text.train(config["recipe"], on_epoch=on_epoch)
        if watch.at_best:
            measure("best", trained.model, watch.at_best)
    losses = [[loss.training, loss.validation or 0.0] for loss in trained.losses]
    best = min(range(len(losses)), key=lambda epoch: losses[epoch][1]) + 1
    parameters = sum(parameter.numel() for parameter in trained.model.parameters())
    return {"seen": findings, "losses": losses, "best": best, "parameters": parameters, "characters": text.characters}


def chosen(trials: Iterable[StudyTrial], **wanted: Any) -> list[StudyTrial]:
    """Return the trials whose recipe, secrets or config have these values."""
    return [
        trial
        for trial in trials
        if wanted.items() <= {**trial.config, **trial.config["secrets"], **trial.config["recipe"]}.items()
    ]


def entries(trials: Iterable[StudyTrial], when: str = "best", *, planted: bool = True) -> list[Config]:
    """Return the measurements of each planted canary (or control) at one epoch of each trial."""
    return [entry for trial in trials for entry in trial.result["seen"].get(when, []) if entry["planted"] == planted]


def all_measurements(trials: Iterable[StudyTrial], *, controls: bool = False) -> Iterator[tuple[int, int, Config]]:
    """Yield seed, epoch and measurements of each planted canary, for trials measured at every epoch.

    With ``controls``, yield the measurements of controls too.
    """
    for trial in trials:
        for epoch in range(1, len(trial.result["losses"]) + 1):
            for entry in trial.result["seen"].get(str(epoch), []):
                if entry["planted"] or controls:
                    yield trial.config["seed"], epoch, entry


def bits(measured: Iterable[Config], measure: str = "exposure") -> list[float]:
    """Return exposures in bits by one measure."""
    return [entry[measure]["bits"] for entry in measured]


def mean_bits(measured: Sequence[Config], measure: str = "exposure") -> Measured | str:
    """Return the mean exposure with its interval, limited to the bits of nine digits unless extrapolated.

    If some values are lower bounds, the mean is one too: ``≥ 12.3 n=2``.
    """
    values = bits(measured, measure)
    if any(entry[measure]["method"] == "lower_bound" for entry in measured):
        return f"≥ {fmean(values):.3g} n={len(values)}"
    return Measured.mean(values, math.inf if measure == "extrapolated" else WHOLE)


def exposure_columns(trials: Sequence[StudyTrial], when: str = "best") -> TableRow:
    """Return a row's mean exposures by both measures, and the controls' mean exposure."""
    seen, controls = entries(trials, when), entries(trials, when, planted=False)
    return {**{measure: mean_bits(seen, measure) for measure in BOTH}, "controls": mean_bits(controls)}


def set_up(trials: Sequence[StudyTrial], plan: StudyPlan) -> list[str]:
    """List the differences from the paper's set-up, and the number of exposures that are lower bounds."""
    measured = [entry for trial in trials for epoch_entries in trial.result["seen"].values() for entry in epoch_entries]
    methods = [entry["exposure"]["method"] for entry in measured if "exposure" in entry]
    bounds = methods.count("lower_bound")
    note = (
        f"{bounds} of {len(methods)} exposures are lower bounds, because no sampled filling costs less than the secret."
    )
    return [*differences(plan), _training(trials), *([note] if bounds else [])]


def _training(trials: Sequence[StudyTrial]) -> str:
    """Describe the training of the models and their number."""
    recipes = [trial.config["recipe"] for trial in trials]
    epochs = " or ".join(map(str, sorted({recipe["epochs"] for recipe in recipes})))
    stopped = sorted({recipe["patience"] for recipe in recipes if (recipe["patience"] or math.inf) < recipe["epochs"]})
    ends = f" at most, ended {stopped[0]} epochs after the best validation loss" if stopped else ""
    seeds = {trial.config["seed"] for trial in trials}
    return (
        f"{len(seeds)} models per setting (the paper: 10 in most tables), trained for {epochs} epochs{ends}. 'Best' is "
        "the epoch of lowest validation loss."
    )


def best_loss(trials: Iterable[StudyTrial]) -> list[float]:
    """Return each trial's lowest validation loss in bits per character."""
    return [min(loss for _, loss in trial.result["losses"]) for trial in trials]


register_study = registrar("secret-sharer", SOURCE, SCALES, run)
"""A function that registers a study of this paper."""
