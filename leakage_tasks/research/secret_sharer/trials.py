"""A trial of The Secret Sharer's studies: a model trained on a text with secrets in it, and looked at on the way."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from leakage_tasks.research.framework.registry import Config, Result, StudyPlan, StudyTrial, registrar
from leakage_tasks.research.framework.report import Measured
from leakage_tasks.research.secret_sharer.experiment import (
    SCALES,
    SOURCE,
    LanguageModelExperiment,
    Secrets,
    Watch,
    differences,
)
from leakage_tasks.research.secret_sharer.texts import planted, prepared, tokenizer_for

WHOLE = math.log2(10**9)
"""Bits of a secret of nine digits."""
BOTH = ("exposure", "extrapolated")
"""The measures that most tables show."""
EPOCHS = 1_000
"""More than any trial looks at."""


def run(config: Config, shared: Path) -> Result:
    """Train a model as ``config`` says and look at its canaries.

    ``losses`` are bits a character (or word) an epoch, ``best`` the epoch of lowest validation loss, ``seen`` what was
    found at each epoch that was watched, and at the best one under ``best``, a list with an entry a canary.
    """
    from leakage_tasks.research.secret_sharer.watch import observed
    from leakage_tasks.research.victims.language_model import LanguageModelRecipe, train_lm
    from leakage_tasks.targets import CausalTarget
    from leakage_tasks.training.threads import one_thread

    ground, seed = LanguageModelExperiment(**config["ground"]), config["seed"]
    secrets, watch = Secrets(**config["secrets"]), Watch(**config["watch"])
    views = secrets.canaries(seed)
    text = prepared(ground, secrets.units)
    tokenizer = tokenizer_for(text, views[0], secrets.units)
    found: dict[str, Any] = {"seen": {}}

    def look(name: str, model: Any, what: Sequence[str]) -> None:
        target = CausalTarget(model, tokenizer)
        # With one seed for all, the estimates of all epochs would be of the same random numbers.
        drawn = EPOCHS * seed + len(found["seen"])
        found["seen"][name] = observed(target, views, what, ground.budget, drawn)

    def on_epoch(epoch: int, model: Any, losses: Sequence[Any]) -> None:
        if watch.at(epoch):
            look(str(epoch), model, watch.what)

    with one_thread():
        trained = train_lm(
            planted(text.training, views[0], seed),
            LanguageModelRecipe(**config["recipe"]),
            validation=text.held_out,
            tokenizer=tokenizer,
            seed=seed,
            on_epoch=on_epoch,
        )
        if watch.at_best:
            look("best", trained.model, watch.at_best)
    losses = [[loss.training, loss.validation or 0.0] for loss in trained.losses]
    best = min(range(len(losses)), key=lambda epoch: losses[epoch][1]) + 1
    parameters = sum(parameter.numel() for parameter in trained.model.parameters())
    return {**found, "losses": losses, "best": best, "parameters": parameters, "characters": len(text.training)}


def chosen(trials: Iterable[StudyTrial], **wanted: Any) -> list[StudyTrial]:
    """The trials whose recipe, secrets or config have these values."""
    return [
        trial
        for trial in trials
        if all(
            {**trial.config, **trial.config["secrets"], **trial.config["recipe"]}[name] == value
            for name, value in wanted.items()
        )
    ]


def entries(trials: Iterable[StudyTrial], when: str = "best", *, planted: bool = True) -> list[Config]:
    """What was found out about each planted canary (or control) at one epoch of each trial."""
    return [entry for trial in trials for entry in trial.result["seen"].get(when, []) if entry["planted"] == planted]


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
