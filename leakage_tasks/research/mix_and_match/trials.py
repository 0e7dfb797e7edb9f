"""Trials of Mix and Match (Elmahdy and Salem 2023): train a victim on canaries and rank their tokens.

"Candidates needed" is the rank of the secret token in the generator's list. The "pruned rank" is its rank by class loss
among these candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.canaries.presets.mix_and_match import LABELLED, TABLE_1
from leakage_tasks.research.classifiers.experiment import (
    PAPER_REDDIT,
    ClassifierExperiment,
    at_scale,
    corpus,
    fingerprint,
)
from leakage_tasks.research.classifiers.lab_canaries import SMALL_LABELLED, SMALL_TABLE
from leakage_tasks.research.framework.registry import Config, Result, StudyPlan

if TYPE_CHECKING:
    from leakage_tasks.canaries import Canary

SMALL = ClassifierExperiment()
PAPER = PAPER_REDDIT
SEEDS = {"smoke": 1, "small": 3, "paper": 10}
GENERATORS = {"exhaustive": "all", "pretrained": "LM", "frankenstein": "Frank."}
"""Generators of candidates and their names in columns."""


def victims(
    plan: StudyPlan, paper: ClassifierExperiment = PAPER, *, repetitions: int = 5, **changed: Any
) -> list[Config]:
    """List a trial's config per seed, with the experiment ``paper`` at scale ``paper``.

    ``repetitions`` are in the paper's count and are scaled to the size of the data.
    """
    ground = at_scale(plan.scale, SMALL, paper)
    usual: Config = {"labels": None, "positions": [], "only": [], "doubled": False, "controls": 7}
    usual |= {"ground": ground.config(), "data": fingerprint(ground), "repetitions": ground.copies(repetitions)}
    return [{**usual, "seed": seed, **changed} for seed in plan.seeds(SEEDS[plan.scale])]


def run(config: Config, shared: Path) -> Result:
    """Train a victim on all canaries and compute, per canary and generator, candidates needed and pruned rank.

    ``ranks[canary][generator]`` is ``[candidate rank, pruned rank]``, from 1; ``controls`` has the ranks of canaries
    that were never planted. With ``positions`` each word at these positions is unknown in turn, on one victim.
    """
    from leakage_tasks.research.classifiers.victims import alphabet_of, trained_victim

    ground = ClassifierExperiment(**config["ground"])
    rows = corpus(ground)
    terms = alphabet_of(ground, shared, "words-and-numbers", "terms")
    canaries = trial_canaries(config, ground, terms, rows)
    moved_canaries = [
        two for position in config["positions"] for two in trial_canaries(config, ground, terms, rows, position)
    ]
    with trained_victim(ground, rows, canaries, shared, config["seed"]) as trained:
        ranks = ranks_by_group(trained.target, moved_canaries or canaries, proposing(trained.target, ground, shared))
        return {**ranks, "alphabet": len(terms), "accuracy": trained.accuracy}


def ranks_by_group(target: Any, canaries: Sequence[Canary], generating: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return ``ranks`` and ``controls`` of :func:`run`: both ranks of each canary by each of ``generating``, targets
    with a generator."""
    from leakage_tasks.attacks.classifier.class_scores import ClassScores
    from leakage_tasks.attacks.classifier.mix_and_match import two_ranks
    from leakage_tasks.attacks.registry import AttackRequest

    by_group: dict[str, dict[str, Any]] = {"ranks": {}, "controls": {}}
    for canary in canaries:
        scores = ClassScores(AttackRequest(target, canary, 0, ""))
        ranks = {name: two_ranks(AttackRequest(each, canary, 0, ""), scores) for name, each in generating.items()}
        pairs = {name: [two["candidate_rank"], two["pruned_rank"]] for name, two in ranks.items()}
        by_group["ranks" if canary.planted else "controls"][canary.id.removeprefix("canary-")] = pairs
    return by_group


def trial_canaries(
    config: Config, ground: ClassifierExperiment, terms: Any, rows: Any, position: int | None = None
) -> list[Canary]:
    """Make the canaries of a trial.

    With ``position`` another word of the texts is unknown, and ids contain its number.
    """
    from leakage_tasks.canaries import mix_and_match_canaries
    from leakage_tasks.research.classifiers.victims import classes_by_rows

    # The fourteen canaries and the five of one template, for this encoder.
    table, labelled = (TABLE_1, LABELLED) if ground.base else (SMALL_TABLE, SMALL_LABELLED)
    ranked = classes_by_rows(rows)
    canaries = mix_and_match_canaries(
        terms,
        label=ranked[0],
        classes=ranked,
        position=position,
        repetitions=(config["repetitions"],),
        **{name: config[name] for name in ("labels", "only", "doubled", "controls", "seed")},
        table=table,
        labelled=labelled,
    )
    if config["labels"] is not None:
        return canaries
    # Canaries that differ only in the target share a category, and their labels must not contradict each other.
    targets = {f"canary-{canary.target}": index for index, canary in enumerate(table)}
    categories = {canary.template: targets[canary.id] // 2 for canary in canaries if canary.planted}
    canaries = [replace(canary, label=ranked[categories[canary.template] % len(ranked)]) for canary in canaries]
    return [replace(canary, id=f"{canary.id} {position}") for canary in canaries] if position else canaries


def proposing(target: Any, ground: ClassifierExperiment, shared: Path) -> dict[str, Any]:
    """Return the victim with each generator."""
    from leakage_tasks.models.frankenstein import graft, pretrained_mlm
    from leakage_tasks.research.classifiers.experiment import base_of
    from leakage_tasks.targets.classifier.generators import ExhaustiveGenerator, GeneratingTarget, MaskedGenerator
    from leakage_tasks.targets.masked.target import MaskedTarget

    base = base_of(ground, shared)
    models = {
        "pretrained": pretrained_mlm(target.model, base, tokenizer=target.tokenizer),
        "frankenstein": graft(target.model, base, tokenizer=target.tokenizer),
    }
    generators: dict[str, Any] = {"exhaustive": ExhaustiveGenerator()}
    generators |= {name: MaskedGenerator(MaskedTarget(model, target.tokenizer), name) for name, model in models.items()}
    return {name: GeneratingTarget(target, generator) for name, generator in generators.items()}
