"""What attacks on classifiers have beyond the others: the class loss, and the two ranks of Mix and Match."""

from __future__ import annotations

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.metrics.aggregates import mean, median
from leakage_tasks.metrics.metric import Metric, Value, controls, planted

ON_CLASSIFIERS = ("class-loss", "label-search", "mix-and-match")


def on_classifiers(found: Finding) -> bool:
    """Whether the attack was one on a classifier."""
    return found.attack in ON_CLASSIFIERS


def elsewhere(found: Finding) -> bool:
    """Whether the attack was one on a language model."""
    return not on_classifiers(found)


def _extra(name: str) -> Value:
    return lambda found: found.extra.get(name)


def _proposed(found: Finding) -> bool:
    return "candidate_rank" in found.extra


def _rank(name: str, words: str) -> list[Metric]:
    value = _extra(name)
    theirs = f"the same for controls, whose secret no model saw: what {name} is without a leak"
    return [
        Metric(name, planted(value), median, "higher", words, applies=_proposed),
        Metric(f"control_{name}", controls(value), median, None, theirs, applies=_proposed),
    ]


CLASS_LOSS = Metric(
    "class_loss",
    planted(_extra("class_loss")),
    mean,
    "higher",
    "−log2 of the probability of the canary's label (on taggers label and tags), mean",
    "bits",
    applies=on_classifiers,
)
TWO_RANKS: list[Metric] = [
    *_rank("candidate_rank", "place of the secret in the generator's order of all it could put there, from 1; median"),
    *_rank(
        "pruned_rank",
        "place of the secret by class loss among the candidates down to its own place, for words; median",
    ),
]
