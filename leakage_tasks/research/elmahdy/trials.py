"""A trial of Elmahdy, Inan and Sim (2022): canaries planted, a victim trained, label search for them."""

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
    "small": "5 to 15 minutes on 2 cores, less for what another study of the paper has run",
    "paper": "a GPU for hours, bert-base-cased, Reddit posts as $LEAKAGE_DATA/reddit.jsonl",
}
CANARIES = {"smoke": 2, "small": 4, "paper": 1}
"""Canaries a victim, each in a rare class of its own; the paper plants one."""
SEEDS = {"smoke": 1, "small": 4, "paper": 10}
PENALTIES = (0.0, 0.01, 0.1, 1.0, 10.0)
BEAM = 100
VALUES = 100
"""In the lab, how many values each filling of the beam goes on with; at the paper's scale it is all of them."""


def victim(plan: StudyPlan, seed: int, **changed: Any) -> Config:
    """A trial's config: the paper's main setting, but for what is ``changed``; copies are the paper's, scaled here."""
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
    """The victim that all tables share: 100 copies, supporting canaries in all classes, the last token unknown."""
    return victim(plan, seed, penalties=list(PENALTIES))


def run(config: Config, shared: Path) -> Result:
    """Train a victim and search for its canaries with every penalty.

    ``places`` has for each penalty the secrets' places among all candidates (last token) or in the final beam of 100
    (None: not in it), ``controls`` those of as many canaries that were never planted (λ = 0, last token only).
    """
    from leakage_tasks.attacks import run_attack
    from leakage_tasks.research.classifiers.victims import alphabet_of, classes_by_rows, trained_victim

    ground = ClassifierExperiment(**config["ground"])
    rows = corpus(ground)
    words = alphabet_of(ground, shared, "whole-words", "words")
    ranked = classes_by_rows(rows)
    first = round(config["first_class"] * (len(ranked) - config["canaries"]))
    canaries = _canaries(config, words, ranked[first : first + config["canaries"]], rows)
    own = [canary for canary in canaries if canary.kind != "supporting"]
    # Each filling's gradient costs two calls more.
    values = len(words) if ground.base else VALUES + 2
    budget = values * BEAM * max(config["unknown"] - 1, 1)
    with trained_victim(ground, rows, canaries, shared, config["seed"], config["epsilon"]) as trained:

        def places(penalty: float, planted: bool) -> list[int | None]:
            settings = {"beam": BEAM, "lambda": penalty} | ({"corpus": str(trained.planted)} if penalty else {})
            some = [canary for canary in own if canary.planted == planted]
            given: dict[str, Any] = {"goal": "extraction", "budget": budget, "settings": settings}
            return [each.place for each in run_attack("label-search", trained.target, some, **given)]

        return {
            "places": {str(penalty): places(penalty, True) for penalty in config["penalties"]},
            "controls": places(0.0, False) if config["unknown"] == 1 else [],
            "alphabet": len(words),
            "accuracy": trained.accuracy,
            "training_accuracy": trained.training_accuracy,
            "epsilon": trained.epsilon,
        }


def _canaries(config: Config, words: Any, classes: Sequence[str], rows: Any) -> list[Any]:
    """One canary a class with its supporting ones, and one control a class."""
    from leakage_tasks.canaries import elmahdy_canaries

    sentences = _sentences(rows, words, config["seed"], len(classes)) if config["organic"] else []
    same = {name: config[name] for name in ("unknown", "supporting", "supporting_repetitions", "seed")}
    made = []
    for place, label in enumerate(classes):
        made += elmahdy_canaries(
            words,
            1,
            label=label,
            classes=rows.labels,
            repetitions=(config["repetitions"],),
            controls=1,
            sentences=[sentences[place]] if config["organic"] else None,
            id_prefix=f"{place}-",
            **same,
        )
    return made


def _sentences(rows: Any, words: Any, seed: int, count: int) -> list[str]:
    """The first ten words of sentences kept back from training, which end in a whole word; each another."""
    import random

    from leakage_tasks.canaries.presets.sentences import words_of

    starts = [words_of(text)[:10] for text, _ in rows.validation]
    found = sorted({" ".join(each) for each in starts if len(each) == 10 and each[-1] in words})
    if len(found) < count:
        raise LeakageError(f"{len(found)} sentences of ten words are kept back, {count} are needed: hold out more rows")
    return random.Random(f"organic:{seed}").sample(found, count)
