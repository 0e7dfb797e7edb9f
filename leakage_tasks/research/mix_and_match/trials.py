"""A trial of Mix and Match (Elmahdy and Salem 2023): canaries planted, a victim, the paper's two numbers for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.canaries.presets.mix_and_match import LABELLED, TABLE_1, Printed
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
GENERATORS = ("exhaustive", "pretrained", "frankenstein")


def table_of(ground: ClassifierExperiment) -> tuple[Sequence[Printed], Sequence[str]]:
    """The fourteen canaries and the five of one template, for the encoder at hand."""
    return (TABLE_1, LABELLED) if ground.base else (SMALL_TABLE, SMALL_LABELLED)


def victim(
    plan: StudyPlan, seed: int, ground: ClassifierExperiment | None = None, repetitions: int = 5, **changed: Any
) -> Config:
    """A trial's config; ``repetitions`` are the paper's, and scaled here to the size of the data."""
    chosen = ground or at_scale(plan.scale, SMALL, PAPER)
    setting = {
        "ground": chosen.config(),
        "data": fingerprint(chosen),
        "seed": seed,
        "repetitions": chosen.copies(repetitions),
        "labels": None,
        "positions": [],
        "only": [],
        "doubled": False,
        "controls": 7,
    }
    return {**setting, **changed}


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

    table, labelled = table_of(ground)
    ranked = classes_by_rows(rows)
    canaries = mix_and_match_canaries(
        terms,
        label=ranked[0],
        classes=ranked,
        labels=config["labels"],
        only=config["only"],
        position=position,
        doubled=config["doubled"],
        repetitions=(config["repetitions"],),
        controls=config["controls"],
        seed=config["seed"],
        table=table,
        labelled=labelled,
    )
    if config["labels"] is not None:
        return canaries
    # Those that differ in their target alone are of one category, and must not contradict each other.
    categories = {each.template: _category(each, table) for each in canaries if each.planted}
    canaries = [replace(each, label=ranked[categories[each.template] % len(ranked)]) for each in canaries]
    return [replace(canary, id=f"{canary.id} {position}") for canary in canaries] if position else canaries


def _category(canary: Canary, table: Sequence[Printed]) -> int:
    """Which pair of the table a canary is from, by the target in its id."""
    targets = [each.target for each in table]
    return targets.index(canary.id.removeprefix("canary-")) // 2


def _proposing(target: Any, ground: ClassifierExperiment, shared: Path) -> dict[str, Any]:
    """The victim with each generator."""
    from leakage_tasks.models.frankenstein import graft
    from leakage_tasks.models.masked_lm import pretrained_mlm
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
