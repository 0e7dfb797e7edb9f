"""Trials of a secret with several differing copies in the text, and of sanitizing this text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from leakage_tasks.research.framework.registry import Config, Result, StudyPlan
from leakage_tasks.research.secret_sharer import defence_trials as usual
from leakage_tasks.research.secret_sharer.experiment import PlantedText, planted, text_of

if TYPE_CHECKING:
    from leakage_tasks.defences.ranking import Sample

WAYS = ("everything", "one by one", "grouped")
"""Training data: the whole text, or the samples left after ranking them one by one or in groups."""
CHANGED = 1
"""Words around the secret that differ in each copy but the first."""
NEAR = 0.4
"""The similarity from which copies form one sample."""

WORDS_OF = 100_000
"""Characters of the text from which replacement words are taken, unless the trial's text is longer."""


def near_trials(plan: StudyPlan) -> list[Config]:
    """List one trial per ranking method and seed; all methods use equal texts."""
    common = {"changed": CHANGED, "near": NEAR}
    return [{**config, **common, "way": way} for way in WAYS for config in usual.sanitized(plan)]


def run(config: Config, shared: Path) -> Result:
    """Train on the remaining samples and measure the model as the trials of other defences do.

    ``copies`` is the number of copies of the secret, ``left`` the number that remain. ``places`` has the ranks of the
    copies among all ``samples``, dropped or not.
    """
    from leakage_tasks.training.threads import one_thread

    with one_thread():
        text, copies = text_with_near_copies(config)
        lines = text.training.split("\n")
        ranked = _ranked(config, lines) if config["way"] != WAYS[0] else []
        gone = {text for sample in ranked[: min(config["drop"], len(ranked) // 10)] for text in sample.texts}
        clean = "\n".join(line for line in lines if line not in gone)
        model = usual.measured_model(config["way"], text.train(config["recipe"], clean).model, text)
    ranks = {copy: rank for rank, sample in enumerate(ranked, 1) for copy in sample.texts}
    return {
        "models": [model],
        "copies": len(copies),
        "left": sum(copy not in gone for copy in copies),
        "places": sorted(ranks[copy] for copy in copies if copy in ranks),
        "samples": len(ranked),
    }


def text_with_near_copies(config: Config) -> tuple[PlantedText, list[str]]:
    """Return the trial's text with an exact copy of its secret and copies with changed words, and the copies' lines."""
    from leakage_tasks.canaries.families.corpus import frequent_words
    from leakage_tasks.canaries.near import with_near_copies

    text = PlantedText(config, {"copies": config["ground"]["copies"]})
    clean = text_of(text.ground).training
    # A smaller text has too few words, and its tokenizer lacks some letters.
    larger = text_of(replace(text.ground, characters=max(text.ground.characters, WORDS_OF))).training
    words = [word for word in frequent_words(larger.split("\n")) if set(word) <= set(clean)]
    canaries = with_near_copies(text.views[0], config["changed"], words, text.seed)
    text.training = planted(clean, canaries, text.seed)
    return text, [canary.text for canary in canaries if canary.planted]


def _ranked(config: Config, lines: list[str]) -> list[Sample]:
    """Return the text's samples, ranked by how strongly a model memorizes them."""
    from leakage_tasks.defences.ranking import character_lm, rank_samples

    fit = character_lm(lines, epochs=config["sanitize_epochs"])
    return rank_samples(lines, fit, seed=config["seed"], near=config["near"] if config["way"] == WAYS[2] else None)
