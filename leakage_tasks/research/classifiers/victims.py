"""Training of victims for studies of text classifiers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leakage_tasks.core.signal_cleanup import temporary_folder
from leakage_tasks.research.classifiers.experiment import ClassifierExperiment, base_of

if TYPE_CHECKING:
    from leakage_tasks.canaries import Canary
    from leakage_tasks.canaries.alphabets import Alphabet
    from leakage_tasks.research.victims.classifier import TrainedClassifier
    from leakage_tasks.research.victims.docstrings import LabelledCorpus
    from leakage_tasks.targets import ClassifierTarget
    from leakage_tasks.training.dp.private import DpConfig


@dataclass(frozen=True)
class Victim:
    """A classifier trained on data with canaries: the target, the planted file and its accuracy.

    ``accuracy`` is measured on validation rows, which select the snapshot but are not trained on.
    """

    target: ClassifierTarget
    planted: Path
    accuracy: float
    training_accuracy: float
    epsilon: float | None


@contextmanager
def trained_victim(
    ground: ClassifierExperiment,
    rows: LabelledCorpus,
    canaries: Sequence[Canary],
    shared: Path,
    seed: int,
    epsilon: float | None = None,
) -> Iterator[Victim]:
    """Plant the canaries in the training rows as a user would, fine-tune on them, and yield the victim."""
    from leakage_tasks.canaries import write_manifest
    from leakage_tasks.canaries.planting import plant
    from leakage_tasks.research.victims.classifier import accuracy
    from leakage_tasks.research.victims.docstrings import read_rows, write_rows
    from leakage_tasks.targets import ClassifierTarget
    from leakage_tasks.training.dp.private import DpConfig
    from leakage_tasks.training.threads import few_threads

    # The small encoder is not faster with more threads.
    with temporary_folder() as folder, nullcontext() if ground.base else few_threads(2):
        write_rows(rows.training, folder / "train.jsonl")
        write_manifest(canaries, folder / "canaries.jsonl")
        planted = folder / "planted.jsonl"
        plant(folder / "canaries.jsonl", folder / "train.jsonl", planted, seed=seed, label_column="label")
        training = read_rows(planted)
        private = None if epsilon is None else DpConfig(epsilon=epsilon, delta=1 / (10 * len(training)))
        trained = fine_tuned(ground, rows, training, shared, seed, private)
        validation_accuracy, training_accuracy = (
            accuracy(trained.model, trained.tokenizer, part, max_length=ground.max_length)
            for part in (rows.validation, rows.training)
        )
        epsilon_spent = trained.history[-1].epsilon
        yield Victim(
            ClassifierTarget(trained.model, trained.tokenizer),
            planted,
            validation_accuracy,
            training_accuracy,
            epsilon_spent,
        )


def fine_tuned(
    ground: ClassifierExperiment,
    rows: LabelledCorpus,
    training: Sequence[tuple[str, str]],
    shared: Path,
    seed: int,
    private: DpConfig | None = None,
) -> TrainedClassifier:
    """Return the experiment's encoder, fine-tuned on ``training``; the validation rows select the snapshot."""
    from leakage_tasks.research.victims.classifier import fine_tune

    return fine_tune(
        base_of(ground, shared),
        training,
        rows.validation,
        labels=rows.labels,
        epochs=ground.epochs,
        learning_rate=ground.learning_rate,
        batch_size=ground.batch_size,
        max_length=ground.max_length,
        keep=ground.keep,  # type: ignore[arg-type]
        seed=seed,
        private=private,
    )


def alphabet_of(ground: ClassifierExperiment, shared: Path, kind: str, name: str) -> Alphabet:
    """Return the whole words (or words and numbers) of the encoder's tokenizer."""
    from leakage_tasks.canaries.alphabets import tokenizer_words

    return tokenizer_words(name, base_of(ground, shared), kind)


def classes_by_rows(rows: LabelledCorpus) -> list[str]:
    """Return the classes, rarest first."""
    from leakage_tasks.canaries.classes import by_rows
    from leakage_tasks.research.victims.docstrings import label_counts

    return by_rows(label_counts(rows.training))
