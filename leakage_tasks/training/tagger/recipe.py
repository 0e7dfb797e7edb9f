"""How an NLU tagger is made and trained."""

from __future__ import annotations

import math
from dataclasses import dataclass

from leakage_tasks.core.errors import OptionError


@dataclass(frozen=True)
class NLURecipe:
    """How a tagger is made and trained; the paper names layers, dropout and patience, and no other of these.

    ``embeddings`` is a file of word vectors (see :func:`~leakage_tasks.training.word_vectors.read_word_vectors`), which
    then say the ``embedding_size``; ``frozen`` keeps the embeddings as they were at the start. ``hidden_size`` counts
    one direction's units. ``characters`` adds the character layer. Training ends after ``patience`` epochs without a
    lower validation loss (the paper takes 20) and keeps the weights of the lowest. Raises OptionError on unusable
    values.
    """

    embedding_size: int = 100
    hidden_size: int = 100
    layers: int = 2
    epochs: int = 10
    batch_size: int = 64
    learning_rate: float = 2e-3
    dropout: float = 0.0
    characters: bool = False
    patience: int | None = None
    embeddings: str | None = None
    frozen: bool = False

    def __post_init__(self) -> None:
        for name in ("embedding_size", "hidden_size", "layers", "epochs", "batch_size", "patience"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise OptionError(f"{name} is {value}: give 1 or more")
        if not 0 <= self.dropout < 1:
            raise OptionError(f"dropout is {self.dropout}: give a share from 0 up to, not including, 1")
        if not 0 <= self.learning_rate < math.inf:
            raise OptionError(f"learning_rate is {self.learning_rate}: give a finite number, 0 or more")
        if self.frozen and self.embeddings is None:
            raise OptionError("frozen keeps embeddings that were loaded: name their file too (embeddings)")


DEFAULT = NLURecipe()
