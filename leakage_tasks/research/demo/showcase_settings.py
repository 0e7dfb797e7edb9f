"""How large the showcase is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TextSizes:
    """The canaries in Python's help text, and how the two language models are trained on it.

    ``epsilon`` and ``delta`` are for one row of the text; ``private_batch`` is the expected size of a batch of rows.
    """

    characters: int | None = None
    planted: int = 20
    controls: int = 100
    repetitions: tuple[int, ...] = (1, 4, 16)
    hidden: int = 128
    layers: int = 1
    epochs: int = 8
    private_epochs: int = 12
    private_batch: int = 512
    private_rate: float = 2e-2
    epsilon: float = 8.0
    delta: float = 1e-5


@dataclass(frozen=True)
class LabelledSizes:
    """The labelled docstrings, their canaries, and the encoder and classifier trained on them."""

    classes: int = 20
    samples: int = 3_000
    held_out: int = 500
    planted: int = 20
    controls: int = 100
    repetitions: tuple[int, ...] = (1, 4, 16)
    public_texts: int = 4_000
    vocabulary: int = 2_000
    hidden: int = 128
    pretraining: int = 2
    epochs: int = 8
    max_length: int = 32


@dataclass(frozen=True)
class Sizes:
    """All of it; ``budget`` is for one canary of the text, ``questions`` for each multiple-choice task."""

    text: TextSizes = TextSizes()
    labelled: LabelledSizes = LabelledSizes()
    questions: int = 200
    budget: int = 4_000
