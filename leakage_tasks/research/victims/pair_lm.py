"""Recipes for pairs and a model that memorizes part of them, saved in a folder, as a target of suffix extraction."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from leakage_tasks.core.atomic import replacing
from leakage_tasks.core.errors import OptionError
from leakage_tasks.research.victims.pair_corpus import PairCorpus, own_pairs, public_pairs
from leakage_tasks.research.victims.pair_training import PROBE, PairTraining, greedy_recall, read_on, train_pair_lm


@dataclass(frozen=True, kw_only=True)
class PairRecipe(PairTraining):
    """A corpus of pairs and the training of a model on it."""

    public: bool
    """True for the public pairs (50 + 50 tokens), False for pairs of Python's help text."""
    pairs: int
    """Number of pairs."""
    prefix_length: int = 50
    """Tokens per prefix."""
    suffix_length: int = 50
    """Tokens per suffix."""
    vocabulary: int = 1_000
    """Tokens of the vocabulary; only for pairs of the help text."""

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> PairRecipe:
        """Return the recipe with these ``fields`` from JSON, which has lists for tuples."""
        values: dict[str, Any] = {
            name: tuple(field) if isinstance(field, list) else field for name, field in fields.items()
        }
        return cls(**values)

    def corpus(self, seed: int = 0, data: str | Path | None = None) -> PairCorpus:
        """Return the pairs from :func:`public_pairs` (with its folder ``data``) or :func:`own_pairs`."""
        if not self.public:
            return own_pairs(self.pairs, self.prefix_length, self.suffix_length, self.vocabulary, seed)
        if (self.prefix_length, self.suffix_length) != (50, 50):
            raise OptionError("the public pairs have 50 + 50 tokens: set prefix_length and suffix_length to 50")
        return public_pairs(self.pairs, seed, data)


PUBLIC = PairRecipe(public=True, pairs=900)
"""Recipe with public pairs. The model reaches a greedy recall of about 0.4 after a few minutes on a CPU core with
bfloat16 arithmetic."""
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
"""Recipe with pairs of Python's help text. Training takes seconds and needs no data."""


def lab_pair_lm(
    recipe: PairRecipe,
    folder: str | Path,
    *,
    seed: int = 0,
    data: str | Path | None = None,
    device: str | torch.device | None = None,
    reading: int = 0,
    reading_rate: float = 3e-4,
) -> float:
    """Create pairs and train a model on them, and then on other text.

    Args:
        recipe: pairs and training.
        folder: replaced completely. It gets ``model`` for the harness, ``pairs`` for suffix extraction, and
            ``recipe.json`` with the arguments, losses, greedy recalls by epoch, and the recall of the saved model.
        seed: of the pairs, the weights and the order.
        data: folder of the public pairs; default: LEAKAGE_DATA.
        device: default: a GPU if there is one.
        reading: batches of other text after the pairs.
        reading_rate: learning rate for this text.

    Returns:
        The greedy recall of the saved model.

    Raises:
        OptionError, LeakageError: as :func:`public_pairs`, :func:`own_pairs` and :func:`train_pair_lm`.
    """
    corpus = recipe.corpus(seed, data)
    trained = train_pair_lm(corpus, recipe, seed=seed, device=device)
    record = {"recipe": asdict(recipe), "seed": seed, "losses": trained.losses, "recalls": trained.recalls}
    after = trained.recalls[-1]
    if reading:
        read_on(trained.model, corpus, reading, reading_rate, seed)
        after = greedy_recall(trained.model, corpus.prefixes[:PROBE], corpus.suffixes[:PROBE])
    record |= {"reading": reading, "reading_rate": reading_rate, "after": after}
    with replacing(folder) as temporary:
        temporary.mkdir()
        trained.save(temporary / "model")
        corpus.save(temporary / "pairs")
        (temporary / "recipe.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return after
