"""Options and data of the training of an NLU tagger."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.stable_inputs import unchanged
from leakage_tasks.data.utterances import Utterance, holds_utterances, read_utterances


@dataclass(frozen=True)
class NLURecipe:
    """Options of a tagger and its training. The paper states only layers, dropout and patience.

    ``embeddings`` is a file of word vectors (see :func:`~leakage_tasks.training.word_vectors.read_word_vectors`), whose
    size replaces ``embedding_size``; ``frozen`` does not train them. ``hidden_size`` is the number of units per
    direction. ``characters`` adds the character layer. Training stops after ``patience`` epochs without a lower
    validation loss (20 in the paper) and keeps the weights of the best epoch. Raises OptionError for an invalid value.
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
            raise OptionError(f"dropout is {self.dropout}: give a share of at least 0 and below 1")
        if not 0 <= self.learning_rate < math.inf:
            raise OptionError(f"learning_rate is {self.learning_rate}: give a finite number, 0 or more")
        if self.frozen and self.embeddings is None:
            raise OptionError("frozen needs word vectors from a file: give embeddings too")


DEFAULT = NLURecipe()


@dataclass(frozen=True)
class NLUData:
    """Utterances for training, validation and test. The last two may be empty."""

    training: list[Utterance]
    validation: list[Utterance]
    test: list[Utterance]


def read_nlu_data(data: Path, validation: Path | None = None, test: Path | None = None) -> NLUData:
    """Read training data, either directly in ``data`` or in its folders or files ``train``, ``valid`` and ``test``.

    Each part is a folder with ``seq.in``, ``seq.out`` and ``label``, or a ``.conll`` file. ``validation`` and ``test``
    replace the parts in ``data``. Raises PlantingError, with file and line, if a part cannot be read.
    """
    training = _part(data, "train")
    if training is not None:
        validation, test = validation or _part(data, "valid"), test or _part(data, "test")
    training = training or data
    with unchanged(*(part for part in (training, validation, test) if part is not None)):
        return NLUData(
            read_utterances(training), *([] if part is None else read_utterances(part) for part in (validation, test))
        )


def _part(data: Path, name: str) -> Path | None:
    if holds_utterances(data):
        return None
    return next((path for path in (data / name, data / f"{name}.conll") if path.exists()), None)
