"""Experiments of Ethicist's studies at each scale: models, pairs, prompt tuning and draws."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.pairs.submission import wrong_allowed
from leakage_tasks.research.framework.registry import Scale

if TYPE_CHECKING:
    from leakage_tasks.research.victims.pair_lm import PairRecipe

Victim = str | dict[str, Any]
"""A hub name, or arguments of :func:`~leakage_tasks.research.victims.pair_lm.lab_pair_lm`, which trains a model."""
READING = 32
"""Batches of other text that models at ``small`` are trained on after their pairs."""


@dataclass(frozen=True)
class PairExperiment:
    """The settings that all trials of a scale share; defaults are the paper's."""

    sizes: Mapping[str, Victim]
    """The attacked models by name, smallest first."""
    main: str
    """Name of the model that most studies attack."""
    compared: Victim
    """The second model, which the confidence ``comparing_lm`` uses."""
    tuning: Mapping[str, Any]
    """Fields of :class:`~leakage_tasks.training.prompt.settings.PromptSettings`."""
    test: int
    """Pairs to attack; 0 for the project's split of the 15,000 pairs.

    Pairs outside test and validation tune the prompt.
    """
    validation: int
    """Pairs that stop the tuning and fit confidences."""
    samples: int = 100
    """Draws after each prefix (K)."""
    few_samples: int = 100
    """K for several model sizes and prefix lengths, which take long because draws rarely repeat."""
    prefix_lengths: tuple[int, ...] = (10, 20, 30, 40, 50)
    """Prefix lengths of Figure 4."""
    suffix_lengths: tuple[int, ...] = (1, 5, 10, 20, 30, 40, 50)
    """Suffix lengths of Figure 5."""
    sample_counts: tuple[int, ...] = (1, 2, 5, 10, 20, 50)
    """Numbers of draws in Figure 8, without K itself."""


def ground_at(scale: Scale) -> PairExperiment:
    """Return the experiment of a scale."""
    return {"smoke": _smoke, "small": _small, "paper": _paper}[scale]()


def _smoke() -> PairExperiment:
    from leakage_tasks.research.victims.pair_lm import SMOKE

    narrow, wide = (_reader(recipe, 2) for recipe in (replace(SMOKE, hidden=32, epochs=20), SMOKE))
    return PairExperiment(
        sizes={"narrow": narrow, "wide": wide},
        main="wide",
        compared=narrow,
        tuning={"length": 4, "epochs": 2, "learning_rate": 1e-2},
        test=20,
        validation=16,
        samples=8,
        few_samples=4,
        prefix_lengths=(4, 8, 12),
        suffix_lengths=(1, 4, 8),
        sample_counts=(1, 4),
    )


def _small() -> PairExperiment:
    from leakage_tasks.research.victims.pair_lm import PUBLIC

    sizes = {hidden: _reader(replace(PUBLIC, hidden=hidden, epochs=14), READING) for hidden in (64, 128, 192, 256)}
    return PairExperiment(
        sizes={f"3 × {hidden}": sizes[hidden] for hidden in (128, 192, 256)},
        main="3 × 192",
        compared=sizes[64],
        tuning={"length": 20, "epochs": 5, "learning_rate": 0.1, "weight_decay": 0.0},
        test=200,
        validation=100,
        few_samples=10,
    )


def _reader(recipe: PairRecipe, batches: int) -> Victim:
    return {"recipe": asdict(recipe), "reading": batches, "reading_rate": 3e-4}


def _paper() -> PairExperiment:
    gpt_neo = {size: f"EleutherAI/gpt-neo-{size.lower()}" for size in ("125M", "1.3B", "2.7B")}
    return PairExperiment(
        sizes={**gpt_neo, "6B": "EleutherAI/gpt-j-6b"},
        main="1.3B",
        compared="EleutherAI/gpt-neo-125m",
        tuning={"length": 100, "epochs": 20, "learning_rate": 1e-3, "batch_size": 32, "warmup": 500},
        test=0,
        validation=0,
    )


def fingerprint(victim: Victim) -> str:
    """Return the SHA-256 of the public pairs' files; empty for generated pairs, or if the files are missing."""
    data = os.environ.get("LEAKAGE_DATA", "")
    public = isinstance(victim, str) or victim["recipe"]["public"]
    return _hash_of(data) if public and data else ""


@lru_cache
def _hash_of(data: str) -> str:
    digest = hashlib.sha256()
    pairs = [f"lm_extraction/train_{part}.npy" for part in ("prefix", "suffix")]
    for name in (*pairs, "gpt2/vocab.json", "gpt2/merges.txt"):
        path = Path(data) / name
        digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()[:16]


def differences(scale: Scale) -> list[str]:
    """List the differences from the paper's set-up, one sentence per difference."""
    ground = ground_at(scale)
    if scale == "paper":
        return [
            "The paper names neither its second language model nor the split of the 14,000 pairs outside the test "
            f"set; here the model is {ground.compared}, and a random tenth is for validation."
        ]
    victim, second, tuning = ground.sizes[ground.main], ground.compared, ground.tuning
    assert isinstance(victim, dict)
    assert isinstance(second, dict)
    recipe = victim["recipe"]
    rest = recipe["pairs"] - ground.test - ground.validation
    pairs = "public pairs" if recipe["public"] else "pairs of Python's help text"
    return [
        f"The model is a GPT-NeoX of {recipe['layers']} layers and {recipe['hidden']} units, trained here on "
        f"{recipe['pairs']:,} {pairs}, each after other text of random length, then on {victim['reading']} batches of "
        "other text, which weakens its memory of the pairs; not GPT-Neo 1.3B.",
        f"{ground.test} pairs are for testing, {ground.validation} for validation, {rest} for tuning (the paper's: "
        f"1,000, 1,400 and 12,600), so {wrong_allowed(ground.test)} wrong guesses are allowed, not 100.",
        f"The prompt has {tuning['length']} vectors, tuned at {tuning['learning_rate']:g} for up to {tuning['epochs']} "
        "epochs (the paper's: 100, 0.001, 20).",
        f"The second language model is trained in this way with {second['recipe']['hidden']} units; the paper does "
        "not name its model.",
        "Seeds change the prompt and the draws, never the model or the split.",
    ]
