"""Trials of the future work of Parikh, Dupuy and Gupta (2022): other alphabets, lengths and copies, on any data set."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from leakage_tasks.research.canary_inversion.experiment import (
    ATIS,
    GENERATED,
    OVERTRAINED,
    SNIPS,
    TaggerExperiment,
    fingerprint,
    ground_at,
    utterances,
)
from leakage_tasks.research.canary_inversion.trials import ONE_START, PATTERNS, attacked_tagger
from leakage_tasks.research.framework.registry import Config, Result, Scale, StudyPlan, registrar
from leakage_tasks.research.framework.shared import data_folder

if TYPE_CHECKING:
    from leakage_tasks.canaries.canary import Canary
    from leakage_tasks.data.utterances import Utterance

SCALES: Mapping[Scale, str] = {
    "smoke": "seconds, on the generated set",
    "small": "10 to 40 minutes of a core; the set's folder in LEAKAGE_DATA",
    "paper": "a GPU for hours: 10 trials a setting on the whole set, and word vectors in LEAKAGE_DATA",
}
SEEDS = {"smoke": 1, "small": 4, "paper": 10}
VECTORS = "vectors.vec"
"""The file in a set's folder with word vectors for its taggers, which keep them fixed."""
WORDS = "vocabulary"
"""The name of an alphabet of the data set's words."""


def sets() -> list[str]:
    """Return Snips, ATIS, and all other folders of ``LEAKAGE_DATA`` with ``train``, ``valid`` and ``test``."""
    folder = os.environ.get("LEAKAGE_DATA")
    names = sorted(path.parent.parent.name for path in Path(folder).glob("*/train/seq.in")) if folder else []
    return list(dict.fromkeys([SNIPS, ATIS, *(name for name in names if re.fullmatch(r"[\w-]+", name))]))


def tagger_ground(scale: Scale, data: str) -> TaggerExperiment:
    """Return the experiment on a data set, with fixed word vectors if its folder has a file of them."""
    ground = ground_at(scale, data)
    if ground.data == GENERATED or not (data_folder() / data / VECTORS).is_file():
        return ground
    epochs = max(ground.epochs, OVERTRAINED)
    return replace(ground, vectors=f"{data}/{VECTORS}", epochs=epochs)


def future_victims(plan: StudyPlan, data: str, unknown: int, copies: int, alphabet: int | None = None) -> list[Config]:
    """List a config per seed: a canary of each pattern with ``unknown`` tokens, ``copies`` times in the training set.

    ``alphabet`` is the number of the data set's words that a token may be, instead of the pattern's alphabet.
    """
    ground = tagger_ground(plan.scale, data)
    setting = {
        "ground": asdict(ground),
        "data": fingerprint(ground),
        "copies": copies,
        "unknown": dict.fromkeys(PATTERNS, unknown),
        "alphabet": alphabet,
        "attacks": ["published", ONE_START],
        "steps": 3 if plan.scale == "smoke" else 250,
    }
    return [{**setting, "seed": seed} for seed in plan.seeds(SEEDS[plan.scale])]


def run(config: Config, shared: Path) -> Result:
    """Train a tagger and attack its canaries. Return results as :func:`~.trials.run` of the paper's studies does."""
    ground = TaggerExperiment(**config["ground"])
    parts = utterances(ground)
    result, _ = attacked_tagger(config, ground, parts, _canaries(config, parts.training), shared)
    return {**result, "utterances": len(parts.training)}


def _canaries(config: Config, training: Sequence[Utterance]) -> list[Canary]:
    """Make a canary of each pattern, identical in all trials of a setting and seed."""
    from leakage_tasks.canaries.alphabets import word_list
    from leakage_tasks.canaries.generate import make_canaries
    from leakage_tasks.canaries.presets.nlu import COLORS
    from leakage_tasks.canaries.presets.nlu import PATTERNS as PUBLISHED

    size = config["alphabet"]
    values = None if size is None else word_list(WORDS, set_words(training, size, config["ground"]["data"]))
    canaries = []
    for pattern, unknown in config["unknown"].items():
        published = PUBLISHED[pattern]
        known = published.known.split()
        canaries += make_canaries(
            " ".join([*known, f"{{{published.alphabet if values is None else WORDS}:{unknown}}}"]),
            1,
            repetitions=(config["copies"],),
            seed=config["seed"],
            alphabets={COLORS.name: COLORS} | ({} if values is None else {WORDS: values}),
            label=published.intent,
            tags=["O"] * len(known) + ["B-canary"] + ["I-canary"] * (unknown - 1),
            id_prefix=f"{pattern}-",
        )
    return canaries


def set_words(training: Sequence[Utterance], size: int, data: str) -> list[str]:
    """Return ``size`` of the training utterances' words of letters, in a fixed random order.

    Raises LeakageError if there are fewer.
    """
    from leakage_tasks.core.errors import LeakageError

    words = sorted({word for row in training for word in row.words if word.isalpha()})
    if len(words) < size:
        raise LeakageError(
            f"the training utterances of {data} have {len(words):,} words of letters, {size:,} are needed: use a "
            "larger set"
        )
    random.Random(WORDS).shuffle(words)
    return words[:size]


register_future_study = registrar("nlu", "Parikh, Dupuy and Gupta 2022", SCALES, run)
"""A function that registers a study of the paper's future work."""
