"""Something to extract suffixes from: recipes for pairs and a model that knows part of them by heart, in a folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from leakage_tasks.core.atomic import replacing
from leakage_tasks.core.errors import OptionError
from leakage_tasks.research.victims.pair_corpus import PairCorpus, own_pairs, public_pairs
from leakage_tasks.research.victims.pair_training import PairLM, PairTraining, train_pair_lm


@dataclass(frozen=True, kw_only=True)
class PairRecipe(PairTraining):
    """A corpus of pairs, and how a model learns it."""

    public: bool
    """Whether the pairs are the public ones (of 50 + 50 tokens) or some of Python's help text."""
    pairs: int
    """How many."""
    prefix_length: int = 50
    """In tokens."""
    suffix_length: int = 50
    """In tokens."""
    vocabulary: int = 1_000
    """Tokens; of use to pairs of the help text alone."""

    def corpus(self, seed: int = 0, data: str | Path | None = None) -> PairCorpus:
        """The pairs; see :func:`public_pairs` (``data`` is its folder) and :func:`own_pairs`."""
        if not self.public:
            return own_pairs(self.pairs, self.prefix_length, self.suffix_length, self.vocabulary, seed)
        if (self.prefix_length, self.suffix_length) != (50, 50):
            raise OptionError("the public pairs have 50 + 50 tokens: leave prefix_length and suffix_length at 50")
        return public_pairs(self.pairs, seed, data)


PUBLIC = PairRecipe(public=True, pairs=900)
"""Ends at a greedy recall of about 0.4, after minutes on a CPU core with bfloat16 arithmetic."""
SMOKE = PairRecipe(
    public=False,
    pairs=60,
    prefix_length=12,
    suffix_length=8,
    vocabulary=400,
    layers=1,
    hidden=64,
    heads=2,
    epochs=40,
    until=0.4,
    learning_rate=5e-3,
    filler=(0, 8),
)
"""Seconds, without data."""


def lab_pair_lm(
    recipe: PairRecipe,
    folder: str | Path,
    *,
    seed: int = 0,
    data: str | Path | None = None,
    device: str | torch.device | None = None,
) -> float:
    """Make pairs and train a model of them, all into ``folder`` (replaced whole); returns its greedy recall.

    ``model`` in it is a folder for the harness, ``pairs`` one for suffix extraction, and ``recipe.json`` holds the
    recipe, the seed and the curves of loss and greedy recall. Raises what :func:`public_pairs`, :func:`own_pairs` and
    :func:`train_pair_lm` raise.
    """
    corpus = recipe.corpus(seed, data)
    trained = train_pair_lm(corpus, recipe, seed=seed, device=device)
    record = {"recipe": asdict(recipe), "seed": seed, "losses": trained.losses, "recalls": trained.recalls}
    save_pair_lm(folder, trained, corpus, "recipe.json", record)
    return trained.recalls[-1]


def save_pair_lm(folder: str | Path, trained: PairLM, corpus: PairCorpus, name: str, record: Any) -> None:
    """Write a model, its pairs and a ``record`` of that ``name`` as JSON, all into ``folder`` (replaced whole)."""
    with replacing(folder) as beside:
        beside.mkdir()
        trained.save(beside / "model")
        corpus.save(beside / "pairs")
        (beside / name).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
