"""Where the utterances to train on, to stop by and to test on lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leakage_tasks.core.steady import unchanged
from leakage_tasks.data.utterances import Utterance, holds_utterances, read_utterances


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
            read_utterances(training),
            *([] if part is None else read_utterances(part) for part in (validation, test)),
        )


def _part(data: Path, name: str) -> Path | None:
    if holds_utterances(data):
        return None
    return next((place for place in (data / name, data / f"{name}.conll") if place.exists()), None)
