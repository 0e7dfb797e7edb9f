"""A trial of a secret that stands in its text several times, in copies that differ, and of what sanitizing finds."""

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
"""What a model is trained on: all of the text, or what is left of samples that are ranked one by one or in groups."""
CHANGED = 1
"""Words around the secret that differ in each copy but the first."""
NEAR = 0.4
"""The similarity from which copies are one sample."""

WORDS_OF = 100_000
"""Characters of the text from which words are taken, unless the trial's own is larger."""


def near_trials(plan: StudyPlan) -> list[Config]:
    """A model for each way and seed, of the same texts."""
    # Its names are private there: to edit that module would set aside all that it has measured.
    common = {"changed": CHANGED, "near": NEAR}
    return [{**config, **common, "way": way} for way in WAYS for config in usual.sanitized(plan)]


def run(config: Config, shared: Path) -> Result:
    """Train on what is left: ``copies`` of the secret there were, ``left`` is how many of them are; see ``_look``.

    ``places`` are those of the copies among all ``samples``, dropped or not.
    """
    from leakage_tasks.training.threads import one_thread

    with one_thread():
        text, copies = text_with_near_copies(config)
        lines = text.training.split("\n")
        ranked = _ranked(config, lines) if config["way"] != WAYS[0] else []
        gone = {text for sample in ranked[: min(config["drop"], len(ranked) // 10)] for text in sample.texts}
        clean = "\n".join(line for line in lines if line not in gone)
        model = usual._look(config["way"], text.train(config["recipe"], clean).model, text)
    places = {each: place for place, sample in enumerate(ranked, 1) for each in sample.texts}
    return {
        "models": [model],
        "copies": len(copies),
        "left": sum(copy not in gone for copy in copies),
        "places": sorted(places[copy] for copy in copies if copy in places),
        "samples": len(ranked),
    }


def text_with_near_copies(config: Config) -> tuple[PlantedText, list[str]]:
    """The trial's text with one exact copy of its secret and others with words changed, and the copies' lines."""
    from leakage_tasks.canaries.families.corpus import frequent_words
    from leakage_tasks.canaries.near import with_near_copies

    text = PlantedText(config, {"copies": config["ground"]["copies"]})
    clean = text_of(text.ground).training
    # A smaller text has too few words of its own, and its tokenizer not all letters.
    larger = text_of(replace(text.ground, characters=max(text.ground.characters, WORDS_OF))).training
    words = [word for word in frequent_words(larger.split("\n")) if set(word) <= set(clean)]
    canaries = with_near_copies(text.views[0], config["changed"], words, text.seed)
    text.training = planted(clean, canaries, text.seed)
    return text, [canary.text for canary in canaries if canary.planted]


def _ranked(config: Config, lines: list[str]) -> list[Sample]:
    """The text's samples, those that a model learns most by heart first."""
    from leakage_tasks.defences.ranking import character_lm, rank_samples

    fit = character_lm(lines, epochs=config["sanitize_epochs"])
    return rank_samples(lines, fit, seed=config["seed"], near=config["near"] if config["way"] == WAYS[2] else None)
