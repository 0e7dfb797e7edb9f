"""Trials of the calibrated signal: label search on a victim of Table 3 by its loss, and with a reference classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leakage_tasks.attacks.signal import CALIBRATED, LOSS
from leakage_tasks.research.classifiers.experiment import ClassifierExperiment, corpus
from leakage_tasks.research.elmahdy import trials
from leakage_tasks.research.framework.registry import Config, Result

SIGNALS = (LOSS, CALIBRATED)


def run(config: Config, shared: Path) -> Result:
    """Train a victim of Table 3 and a reference without canaries, and rank all values by both signals.

    ``places`` has, for each signal, the secrets' ranks among all values of the last token, in the canaries' order.
    ``controls`` has the ranks of as many canaries that were never planted.
    """
    from leakage_tasks.attacks import run_attack
    from leakage_tasks.research.classifiers.reference import reference_classifier
    from leakage_tasks.research.classifiers.victims import alphabet_of, classes_by_rows, trained_victim

    ground = ClassifierExperiment(**config["ground"])
    rows = corpus(ground)
    words = alphabet_of(ground, shared, "whole-words", "words")
    canaries = trials.trial_canaries(config, words, classes_by_rows(rows)[: config["canaries"]], rows)
    reference = reference_classifier(ground, rows, shared, config["seed"])
    with trained_victim(ground, rows, canaries, shared, config["seed"]) as trained:
        trained.target.reference = reference

        def places(signal: str, planted: bool) -> list[int | None]:
            searched = [canary for canary in canaries if canary.kind != "supporting" and canary.planted == planted]
            options: dict[str, Any] = {"goal": "extraction", "settings": {"beam": trials.BEAM, "signal": signal}}
            return [canary.place for canary in run_attack("label-search", trained.target, searched, **options)]

        return {
            "places": {signal: places(signal, True) for signal in SIGNALS},
            "controls": {signal: places(signal, False) for signal in SIGNALS},
            "alphabet": len(words),
            "accuracy": trained.accuracy,
            "training_accuracy": trained.training_accuracy,
        }
