"""A trial of Mix and Match's free text (section 6.3): a causal model of public text writes, what it wrote is pruned."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leakage_tasks.research.classifiers.experiment import ClassifierExperiment, base_of, corpus, public_texts
from leakage_tasks.research.framework.registry import Config, Result, StudyPlan
from leakage_tasks.research.framework.shared import sole_maker
from leakage_tasks.research.mix_and_match import trials
from leakage_tasks.research.mix_and_match.extension_trials import REPETITIONS

CAUSAL = "causal"
"""The generator that asks the writer for each value's probability, and draws nothing."""
PRUNED = ("candidates", "template")
TEXTS = {"smoke": (20, 200), "small": (500, 5_000, 50_000), "paper": (500, 5_000, 50_000)}
"""How many texts are written for a canary; the fewer are the first of the more."""
WRITERS: dict[str, Config] = {
    "smoke": {"epochs": 1, "layers": 1, "hidden": 16},
    "small": {"epochs": 4, "layers": 2, "hidden": 128},
    "paper": {"hub": "gpt2"},
}
"""What writes: a hub name, or how a GPT-2 is made of the public texts that the lab's encoder has read."""


def free_text(plan: StudyPlan) -> list[Config]:
    """A trial's config for each seed."""
    more: Config = {"writer": WRITERS[plan.scale], "texts": list(TEXTS[plan.scale])}
    return [{**config, **more} for config in trials.victims(plan, repetitions=REPETITIONS)]


def writing(pruned: str, texts: int) -> str:
    """The name of the generator that prunes so many texts."""
    return f"{pruned}-{texts}"


def run(config: Config, shared: Path) -> Result:
    """As :func:`trials.run`, with ``causal`` and, for each number of texts, ``candidates-N`` and ``template-N`` too.

    Both numbers are None where no text is kept. ``kept[canary][generator]`` is how many of the texts are, and how many
    of these have the canary's own token.
    """
    from leakage_tasks.research.classifiers.victims import alphabet_of, trained_victim

    ground = ClassifierExperiment(**config["ground"])
    rows = corpus(ground)
    terms = alphabet_of(ground, shared, "words-and-numbers", "terms")
    canaries = trials._canaries(config, ground, terms, rows)
    found: dict[str, dict[str, Any]] = {"ranks": {}, "controls": {}, "kept": {}}
    with trained_victim(ground, rows, canaries, shared, config["seed"]) as trained:
        proposing = trials._proposing(trained.target, ground, shared) | _writing(trained.target, config, ground, shared)
        for canary in canaries:
            pairs, kept = _measured(canary, trained.target, proposing)
            name = canary.id.removeprefix("canary-")
            found["ranks" if canary.planted else "controls"][name] = pairs
            if canary.planted:
                found["kept"][name] = kept
        return {**found, "alphabet": len(terms), "accuracy": trained.accuracy}


def _measured(
    canary: Any, victim: Any, proposing: dict[str, Any]
) -> tuple[dict[str, list[int | None]], dict[str, list[int]]]:
    """Both numbers of a canary by generator, and of those that write how many texts are kept, and hold its token."""
    from leakage_tasks.attacks.classifier.class_scores import ClassScores
    from leakage_tasks.attacks.classifier.mix_and_match import two_ranks
    from leakage_tasks.attacks.registry import AttackRequest
    from leakage_tasks.targets.classifier.text_generator import TextGenerator

    scores = ClassScores(AttackRequest(victim, canary, 0, ""))
    pairs: dict[str, list[int | None]] = {}
    kept: dict[str, list[int]] = {}
    for name, target in proposing.items():
        counts: Mapping[str, int] = {}
        if isinstance(target.generator, TextGenerator):
            counts = target.generator.value_counts(canary.attack_space, (), 0)
            kept[name] = [sum(counts.values()), counts.get(canary.secret[0], 0)]
            if not counts:
                # The attack stops here with an error: there is no candidate.
                pairs[name] = [None, None]
                continue
        ranks = two_ranks(AttackRequest(target, canary, 0, ""), scores)
        pairs[name] = [candidates_down_to(canary.secret[0], counts) or ranks["candidate_rank"], ranks["pruned_rank"]]
    return pairs, kept


def candidates_down_to(value: str, counts: Mapping[str, int]) -> int | None:
    """How many values are in as many texts as ``value`` or more; None for one in no text.

    Few texts leave many values alike, and pruning goes through all of them, where a place counts the better ones.
    """
    own = counts.get(value, 0)
    return sum(each >= own for each in counts.values()) if own else None


def _writing(victim: Any, config: Config, ground: ClassifierExperiment, shared: Path) -> dict[str, Any]:
    """The victim with the generators that a causal model makes."""
    from leakage_tasks.targets.classifier.generators import CausalGenerator, GeneratingTarget, TextGenerator
    from leakage_tasks.targets.suffix.target import load_causal_target

    name = writer_of(config["writer"], ground, shared)
    writer = load_causal_target(name, f"writer={name}", victim.model.device)
    generators: dict[str, Any] = {CAUSAL: CausalGenerator(writer, CAUSAL)}
    for pruned in PRUNED:
        for texts in config["texts"]:
            how: dict[str, Any] = {"texts": texts, "prune": pruned, "seed": config["seed"]}
            generators[writing(pruned, texts)] = TextGenerator(writer, CAUSAL, **how)
    return {name: GeneratingTarget(victim, generator) for name, generator in generators.items()}


def writer_of(writer: Config, ground: ClassifierExperiment, shared: Path) -> str:
    """The model that writes: a hub name, or a folder under ``shared`` with a GPT-2 made once."""
    from leakage_tasks.models.loading import read_tokenizer
    from leakage_tasks.research.victims.public_lm import WriterRecipe, train_writer, writing_tokenizer
    from leakage_tasks.training.threads import few_threads

    if "hub" in writer:
        return str(writer["hub"])
    told = json.dumps([writer, ground.config()], sort_keys=True)
    folder = shared / f"writer-{hashlib.sha256(told.encode()).hexdigest()[:12]}"
    base = base_of(ground, shared)
    with sole_maker(folder) as missing, few_threads(2):
        if missing:
            tokenizer = writing_tokenizer(read_tokenizer(base))
            train_writer(public_texts(ground), tokenizer, WriterRecipe(**writer)).save(folder)
    return str(folder)
