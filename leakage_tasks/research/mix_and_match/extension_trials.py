"""Trials of extensions of Mix and Match: DP-SGD, and bridges between encoder and generation head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leakage_tasks.research.classifiers.experiment import ClassifierExperiment, base_of, corpus, public_texts
from leakage_tasks.research.framework.registry import Config, Result, StudyPlan
from leakage_tasks.research.mix_and_match import trials

REPETITIONS = 100
"""The largest number of repetitions in the paper, so that there is a leak to defend against."""
BRIDGES = ("adapter", "prompt")
BRIDGE_TRAINING: dict[str, dict[str, int]] = {
    "smoke": {"texts": 60, "epochs": 1},
    "small": {"texts": 4_000, "epochs": 3},
    "paper": {"texts": 20_000, "epochs": 3},
}
"""Number of public texts and epochs for the training of bridges."""
LENGTH = 48
"""Tokens of a public text."""


def extended(plan: StudyPlan, epsilon: float | None = None) -> list[Config]:
    """List a trial's config per seed. Victims without ``epsilon`` are trained without DP-SGD and get bridges."""
    bridges = [] if epsilon else list(BRIDGES)
    more: Config = {"epsilon": epsilon, "bridges": bridges, "bridge_training": BRIDGE_TRAINING[plan.scale]}
    return [{**config, **more} for config in trials.victims(plan, repetitions=REPETITIONS)]


def run(config: Config, shared: Path) -> Result:
    """Run a trial as :func:`trials.run` does, with the generators ``adapter`` and ``prompt`` if the config lists them.

    ``losses`` has the bridges' losses in nats per masked token, one per epoch. ``epsilon`` is the budget that DP-SGD
    spent for one row.
    """
    from leakage_tasks.research.classifiers.victims import alphabet_of, trained_victim

    ground = ClassifierExperiment(**config["ground"])
    rows = corpus(ground)
    terms = alphabet_of(ground, shared, "words-and-numbers", "terms")
    canaries = trials.trial_canaries(config, ground, terms, rows)
    with trained_victim(ground, rows, canaries, shared, config["seed"], config["epsilon"]) as trained:
        generating = trials.proposing(trained.target, ground, shared)
        bridged, losses = _bridged(trained.target, config, ground, shared)
        ranks = trials.ranks_by_group(trained.target, canaries, generating | bridged)
        about = {"alphabet": len(terms), "accuracy": trained.accuracy, "epsilon": trained.epsilon, "losses": losses}
        return {**ranks, **about}


def _bridged(
    target: Any, config: Config, ground: ClassifierExperiment, shared: Path
) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """Return the victim with a generator for each bridge, and the bridges' losses."""
    from leakage_tasks.targets.classifier.generators import GeneratingTarget, MaskedGenerator
    from leakage_tasks.targets.masked.target import MaskedTarget
    from leakage_tasks.training.bridge import BridgeRecipe, train_bridge

    training = config["bridge_training"]
    texts = public_texts(ground)
    texts = texts[:: max(1, len(texts) // training["texts"])][: training["texts"]]
    targets, losses = {}, {}
    for kind in config["bridges"]:
        recipe = BridgeRecipe(kind=kind, epochs=training["epochs"], seed=config["seed"], max_length=LENGTH)
        trained = train_bridge(target.model, target.tokenizer, base_of(ground, shared), texts, recipe)
        generator = MaskedGenerator(MaskedTarget(trained.model, target.tokenizer), kind)
        targets[kind], losses[kind] = GeneratingTarget(target, generator), trained.losses
    return targets, losses
