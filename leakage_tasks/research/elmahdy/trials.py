"""Trials of Elmahdy, Inan and Sim (2022): train a victim on data with canaries and extract them by label search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.classifiers.experiment import (
    PAPER_REDDIT,
    ClassifierExperiment,
    at_scale,
    corpus,
    fingerprint,
)
from leakage_tasks.research.framework.registry import Config, Result, Scale, StudyPlan

SMALL = ClassifierExperiment(epochs=5)
PAPER = PAPER_REDDIT
SCALES: Mapping[Scale, str] = {
    "smoke": "seconds",
    "small": "5 to 15 minutes on 2 cores, less if another study of the paper has run before",
    "paper": "a GPU for hours, bert-base-cased, Reddit posts as $LEAKAGE_DATA/reddit.jsonl",
}
CANARIES = {"smoke": 2, "small": 4, "paper": 1}
"""Canaries per victim, each in its own rare class; the paper plants one."""
SEEDS = {"smoke": 1, "small": 4, "paper": 10}
PENALTIES = (0.0, 0.01, 0.1, 1.0, 10.0)
BEAM = 100
VALUES = 100
"""Number of values that continue each filling of the beam at ``small``; at ``paper`` all values continue it."""


def victim(plan: StudyPlan, seed: int, **changed: Any) -> Config:
    """Return a trial's config: the paper's main setting with the changes in ``changed``.

    Copies are scaled from the paper's.
    """
    ground = at_scale(plan.scale, SMALL, PAPER)
    for name in ("repetitions", "supporting_repetitions"):
        if changed.get(name, 1) > 1:
            changed[name] = ground.copies(changed[name])
    setting = {
        "ground": ground.config(),
        "data": fingerprint(ground),
        "canaries": CANARIES[plan.scale],
        "seed": seed,
        "repetitions": ground.copies(100),
        "supporting": "all",
        "supporting_repetitions": 1,
        "unknown": 1,
        "first_class": 0.0,
        "organic": False,
        "epsilon": None,
        "penalties": [0.0, 0.01],
    }
    return {**setting, **changed}


def main_victim(plan: StudyPlan, seed: int) -> Config:
    """Return the victim that all tables share: 100 copies, supporting canaries in all classes, the last token
    unknown."""
    return victim(plan, seed, penalties=list(PENALTIES))


def run(config: Config, shared: Path) -> Result:
    """Train a victim and search for its canaries with every penalty.

    ``places`` has, for each penalty, the secrets' ranks among all candidates (last token) or in the final beam of 100
    (None if absent). ``controls`` has the ranks of as many canaries that were never planted (λ = 0, last token only).
    """
    from leakage_tasks.attacks import run_attack
    from leakage_tasks.research.classifiers.victims import alphabet_of, classes_by_rows, trained_victim

    ground = ClassifierExperiment(**config["ground"])
    rows = corpus(ground)
    words = alphabet_of(ground, shared, "whole-words", "words")
    ranked = classes_by_rows(rows)
    first = round(config["first_class"] * (len(ranked) - config["canaries"]))
    canaries = trial_canaries(config, words, ranked[first : first + config["canaries"]], rows)
    candidates = [canary for canary in canaries if canary.kind != "supporting"]
    # The gradient of a filling costs two more calls.
    values = len(words) if ground.base else VALUES + 2
    budget = values * BEAM * max(config["unknown"] - 1, 1)
    with trained_victim(ground, rows, canaries, shared, config["seed"], config["epsilon"]) as trained:

        def places(penalty: float, planted: bool) -> list[int | None]:
            settings = {"beam": BEAM, "lambda": penalty} | ({"corpus": str(trained.planted)} if penalty else {})
            searched = [canary for canary in candidates if canary.planted == planted]
            options: dict[str, Any] = {"goal": "extraction", "budget": budget, "settings": settings}
            return [finding.place for finding in run_attack("label-search", trained.target, searched, **options)]

        return {
            "places": {str(penalty): places(penalty, True) for penalty in config["penalties"]},
            "controls": places(0.0, False) if config["unknown"] == 1 else [],
            "alphabet": len(words),
            "accuracy": trained.accuracy,
            "training_accuracy": trained.training_accuracy,
            "epsilon": trained.epsilon,
        }


def trial_canaries(config: Config, words: Any, classes: Sequence[str], rows: Any) -> list[Any]:
    """Make one canary per class with its supporting canaries, and one control per class."""
    from leakage_tasks.canaries import elmahdy_canaries

    sentences = _sentences(rows, words, config["seed"], len(classes)) if config["organic"] else []
    options = {name: config[name] for name in ("unknown", "supporting", "supporting_repetitions", "seed")}
    canaries = []
    for position, label in enumerate(classes):
        canaries += elmahdy_canaries(
            words,
            1,
            label=label,
            classes=rows.labels,
            repetitions=(config["repetitions"],),
            controls=1,
            sentences=[sentences[position]] if config["organic"] else None,
            id_prefix=f"{position}-",
            **options,
        )
    return canaries


def _sentences(rows: Any, words: Any, seed: int, count: int) -> list[str]:
    """Return the first ten words of held-out sentences that end in a whole word, without repetition."""
    import random

    from leakage_tasks.canaries.presets.sentences import words_of

    starts = [words_of(text)[:10] for text, _ in rows.validation]
    sentences = sorted({" ".join(start) for start in starts if len(start) == 10 and start[-1] in words})
    if len(sentences) < count:
        raise LeakageError(
            f"{len(sentences)} sentences of ten words are held out, {count} are needed: hold out more rows"
        )
    return random.Random(f"organic:{seed}").sample(sentences, count)
