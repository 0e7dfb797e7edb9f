"""A trial of Mix and Match (Elmahdy and Salem 2023): canaries planted, a victim, the paper's two numbers for each."""

from __future__ import annotations

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
"""Generators of candidates, and what columns call them."""


def victims(
    plan: StudyPlan, paper: ClassifierExperiment = PAPER, *, repetitions: int = 5, **changed: Any
) -> list[Config]:
    """A trial's config for each seed, trained on ``paper`` where the plan's scale is the paper's.

    ``repetitions`` are the paper's, and scaled here to the size of the data.
    """
    ground = at_scale(plan.scale, SMALL, paper)
    usual: Config = {"labels": None, "positions": [], "only": [], "doubled": False, "controls": 7}
    usual |= {"ground": ground.config(), "data": fingerprint(ground), "repetitions": ground.copies(repetitions)}
    return [{**usual, "seed": seed, **changed} for seed in plan.seeds(SEEDS[plan.scale])]


def run(config: Config, shared: Path) -> Result:
    """Train a victim on all canaries and count, for each of them and each generator, the paper's two numbers.

    ``ranks[canary][generator]`` is ``[candidate rank, pruned rank]``, from 1; ``controls`` the same of canaries that
    were never planted. With ``positions`` each word there is the unknown one in turn, on one and the same victim.
    """
    from leakage_tasks.attacks.classifier.class_scores import ClassScores
    from leakage_tasks.attacks.classifier.mix_and_match import two_ranks
    from leakage_tasks.attacks.registry import AttackRequest
    from leakage_tasks.research.classifiers.victims import alphabet_of, trained_victim

    ground = ClassifierExperiment(**config["ground"])
    rows = corpus(ground)
    terms = alphabet_of(ground, shared, "words-and-numbers", "terms")
    canaries = _canaries(config, ground, terms, rows)
    moved = [each for place in config["positions"] for each in _canaries(config, ground, terms, rows, place)]
    with trained_victim(ground, rows, canaries, shared, config["seed"]) as trained:
        proposing = _proposing(trained.target, ground, shared)
        found: dict[str, dict[str, dict[str, Any]]] = {"ranks": {}, "controls": {}}
        for canary in moved or canaries:
            scores = ClassScores(AttackRequest(trained.target, canary, 0, ""))
            ranks = {
                name: two_ranks(AttackRequest(target, canary, 0, ""), scores) for name, target in proposing.items()
            }
            pairs = {name: [each["candidate_rank"], each["pruned_rank"]] for name, each in ranks.items()}
            found["ranks" if canary.planted else "controls"][canary.id.removeprefix("canary-")] = pairs
        return {**found, "alphabet": len(terms), "accuracy": trained.accuracy}


def _canaries(
    config: Config, ground: ClassifierExperiment, terms: Any, rows: Any, position: int | None = None
) -> list[Canary]:
    """The canaries of a trial; with ``position`` the same texts with another word unknown, its number in the id."""
    from leakage_tasks.canaries import mix_and_match_canaries
    from leakage_tasks.research.classifiers.victims import classes_by_rows

    # The fourteen canaries and the five of one template, for the encoder at hand.
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
    # Those that differ in their target alone are of one category, and must not contradict each other.
    targets = {f"canary-{each.target}": place for place, each in enumerate(table)}
    categories = {each.template: targets[each.id] // 2 for each in canaries if each.planted}
    canaries = [replace(each, label=ranked[categories[each.template] % len(ranked)]) for each in canaries]
    return [replace(canary, id=f"{canary.id} {position}") for canary in canaries] if position else canaries


def _proposing(target: Any, ground: ClassifierExperiment, shared: Path) -> dict[str, Any]:
    """The victim with each generator."""
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
