"""Trials of Mix and Match's free text (section 6.3): a causal model of public text writes texts, which are pruned."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leakage_tasks.research.classifiers.experiment import ClassifierExperiment, base_of, corpus, public_texts
from leakage_tasks.research.framework.registry import Config, Result, StudyPlan
from leakage_tasks.research.framework.shared import create_once
from leakage_tasks.research.mix_and_match import trials
from leakage_tasks.research.mix_and_match.extension_trials import REPETITIONS

CAUSAL = "causal"
"""The generator that uses the writer's probability of each value and draws no text."""
PRUNED = ("candidates", "template")
TEXTS = {"smoke": (20, 200), "small": (500, 5_000, 50_000), "paper": (500, 5_000, 50_000)}
"""Numbers of texts per canary; smaller numbers use the first texts of larger ones."""
WRITERS: dict[str, Config] = {
    "smoke": {"epochs": 1, "layers": 1, "hidden": 16},
    "small": {"epochs": 4, "layers": 2, "hidden": 128},
    "paper": {"hub": "gpt2"},
}
"""The model that writes: a hub name, or the sizes of a GPT-2 trained on the encoder's public texts."""


def free_text(plan: StudyPlan) -> list[Config]:
    """List a trial's config per seed."""
    more: Config = {"writer": WRITERS[plan.scale], "texts": list(TEXTS[plan.scale])}
    return [{**config, **more} for config in trials.victims(plan, repetitions=REPETITIONS)]


def writing(pruned: str, texts: int) -> str:
    """Return the name of the generator that prunes this number of texts."""
    return f"{pruned}-{texts}"


def run(config: Config, shared: Path) -> Result:
    """Run a trial as :func:`trials.run` does, with generators ``causal``, ``candidates-N`` and ``template-N`` too.

    Ranks are None if no text remains. ``kept[canary][generator]`` has the number of remaining texts, and the number of
    these with the canary's token.
    """
    from leakage_tasks.research.classifiers.victims import alphabet_of, trained_victim

    ground = ClassifierExperiment(**config["ground"])
    rows = corpus(ground)
    terms = alphabet_of(ground, shared, "words-and-numbers", "terms")
    canaries = trials.trial_canaries(config, ground, terms, rows)
    by_group: dict[str, dict[str, Any]] = {"ranks": {}, "controls": {}, "kept": {}}
    with trained_victim(ground, rows, canaries, shared, config["seed"]) as trained:
        proposing = trials.proposing(trained.target, ground, shared) | _writing(trained.target, config, ground, shared)
        for canary in canaries:
            pairs, text_counts = _measured(canary, trained.target, proposing)
            name = canary.id.removeprefix("canary-")
            by_group["ranks" if canary.planted else "controls"][name] = pairs
            if canary.planted:
                by_group["kept"][name] = text_counts
        return {**by_group, "alphabet": len(terms), "accuracy": trained.accuracy}


def _measured(
    canary: Any, victim: Any, proposing: dict[str, Any]
) -> tuple[dict[str, list[int | None]], dict[str, list[int]]]:
    """Return both ranks of a canary by generator, and the counts of remaining texts of generators that write."""
    from leakage_tasks.attacks.classifier.class_scores import ClassScores
    from leakage_tasks.attacks.classifier.mix_and_match import two_ranks
    from leakage_tasks.attacks.registry import AttackRequest
    from leakage_tasks.targets.classifier.text_generator import TextGenerator

    scores = ClassScores(AttackRequest(victim, canary, 0, ""))
    pairs: dict[str, list[int | None]] = {}
    text_counts: dict[str, list[int]] = {}
    for name, target in proposing.items():
        counts: Mapping[str, int] = {}
        if isinstance(target.generator, TextGenerator):
            counts = target.generator.value_counts(canary.attack_space, (), 0)
            text_counts[name] = [sum(counts.values()), counts.get(canary.secret[0], 0)]
            if not counts:
                # Without candidates the attack would raise an error.
                pairs[name] = [None, None]
                continue
        ranks = two_ranks(AttackRequest(target, canary, 0, ""), scores)
        pairs[name] = [candidates_down_to(canary.secret[0], counts) or ranks["candidate_rank"], ranks["pruned_rank"]]
    return pairs, text_counts


def candidates_down_to(value: str, counts: Mapping[str, int]) -> int | None:
    """Return the number of values in at least as many texts as ``value``, or None if it is in no text.

    With few texts many values tie. Pruning scores all of them, but a rank counts only the better values.
    """
    own_count = counts.get(value, 0)
    return sum(count >= own_count for count in counts.values()) if own_count else None


def _writing(victim: Any, config: Config, ground: ClassifierExperiment, shared: Path) -> dict[str, Any]:
    """Return the victim with each generator of a causal model."""
    from leakage_tasks.targets.causal.generator import CausalGenerator
    from leakage_tasks.targets.classifier.generators import GeneratingTarget
    from leakage_tasks.targets.classifier.text_generator import TextGenerator
    from leakage_tasks.targets.suffix.target import load_causal_target

    name = writer_of(config["writer"], ground, shared)
    writer = load_causal_target(name, f"writer={name}", victim.model.device)
    generators: dict[str, Any] = {CAUSAL: CausalGenerator(writer, CAUSAL)}
    for pruned in PRUNED:
        for texts in config["texts"]:
            options: dict[str, Any] = {"texts": texts, "prune": pruned, "seed": config["seed"]}
            generators[writing(pruned, texts)] = TextGenerator(writer, CAUSAL, **options)
    return {name: GeneratingTarget(victim, generator) for name, generator in generators.items()}


def writer_of(writer: Config, ground: ClassifierExperiment, shared: Path) -> str:
    """Return the model that writes: a hub name, or a folder under ``shared`` with a GPT-2 trained once."""
    from leakage_tasks.models.loading import read_tokenizer
    from leakage_tasks.research.victims.public_lm import WriterRecipe, train_writer, writing_tokenizer
    from leakage_tasks.training.threads import few_threads

    if "hub" in writer:
        return str(writer["hub"])
    key = json.dumps([writer, ground.config()], sort_keys=True)
    folder = shared / f"writer-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    base = base_of(ground, shared)
    with create_once(folder) as missing, few_threads(2):
        if missing:
            tokenizer = writing_tokenizer(read_tokenizer(base))
            train_writer(public_texts(ground), tokenizer, WriterRecipe(**writer)).save(folder)
    return str(folder)
