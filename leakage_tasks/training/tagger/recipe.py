"""What an NLU tagger is trained on, and how it is made and trained."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.stable_inputs import unchanged
from leakage_tasks.data.utterances import Utterance, holds_utterances, read_utterances


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


@dataclass(frozen=True)
class NLUData:
    """Utterances; there may be none to validate or to test on."""

    training: list[Utterance]
    validation: list[Utterance]
    test: list[Utterance]


def read_nlu_data(data: Path, validation: Path | None = None, test: Path | None = None) -> NLUData:
    """What ``data`` holds: utterances to train on, or such in folders or files named train, valid and test.

    Each part is a folder of ``seq.in``, ``seq.out`` and ``label`` or a ``.conll`` file; ``validation`` and ``test``
    take the place of those beside ``train``. Raises PlantingError naming file and line for what cannot be read.
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
    return next((place for place in (data / name, data / f"{name}.conll") if place.exists()), None)
