"""The showcase's classifier: canaries in labelled docstrings, learnt by a small encoder of the lab's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.atomic import replacing
from leakage_tasks.core.jsonl import read_json_lines, write_json_lines
from leakage_tasks.research.demo.settings import ShowcaseFiles, Sizes
from leakage_tasks.research.victims.harness_run import HarnessCommand
from leakage_tasks.research.victims.multiple_choice_tasks import MODULE, module_questions, write_task
from leakage_tasks.training.threads import one_thread

if TYPE_CHECKING:
    from leakage_tasks.research.victims.docstrings import LabelledCorpus, Row

TASKS = ("canary_extraction", "canary_exposure", "label_accuracy", MODULE)


def train_classifier(files: ShowcaseFiles, sizes: Sizes, seed: int) -> dict[str, Any]:
    """Make an encoder and the canaries of its words, plant, fine-tune, save; says how it went.

    The encoder reads docstrings that are in neither part of the labelled data. The canaries are Elmahdy et al.'s: ten
    random words, the last one unknown, in the rarest class, with one supporting canary in each other class.
    """
    from leakage_tasks.canaries.planting import plant
    from leakage_tasks.research.victims.classifier import fine_tune
    from leakage_tasks.research.victims.docstrings import docstring_corpus

    own, folder = sizes.labelled, files.labelled
    rows = docstring_corpus(classes=own.classes, samples=own.samples, held_out=own.held_out, seed=seed)
    write_rows(rows.training, folder / "train.jsonl")
    write_rows(rows.validation, folder / "heldout.jsonl")
    questions = module_questions(rows.validation, rows.labels, count=sizes.questions, seed=seed)
    write_task(files.tasks, MODULE, questions, delimiter=" ")
    with one_thread():
        _encoder(folder / "encoder", rows, sizes, seed)
        _canaries(folder, rows, sizes, seed)
        planted = folder / "planted.jsonl"
        made = plant(folder / "canaries.jsonl", folder / "train.jsonl", planted, seed=seed, label_column="label")
        print(made.summary(), flush=True)
        trained = fine_tune(
            folder / "encoder",
            read_rows(planted),
            rows.validation,
            labels=rows.labels,
            epochs=own.epochs,
            learning_rate=1e-3,
            max_length=own.max_length,
            # The held-out rows are watched, but what is measured on them chooses nothing.
            keep="last",
            seed=seed,
            device="cpu",
        )
    trained.save(files.classifier)
    losses = [asdict(scores) for scores in trained.history]
    return {"parameters": int(trained.model.num_parameters()), "losses": losses}


def classifier_command(files: ShowcaseFiles, sizes: Sizes) -> HarnessCommand:
    """The harness' command for the classifier."""
    folder = files.labelled
    return HarnessCommand(
        files.classifier,
        TASKS,
        {"canaries": str(folder / "canaries.jsonl"), "data": str(folder / "heldout.jsonl")},
        files.results / files.classifier.name,
        kind="classifier-scorer",
        settings={"truncate": True, "max_length": sizes.labelled.max_length},
        include=files.tasks,
    )


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """Write rows as JSON objects with ``text`` and ``label``, one a line."""
    with replacing(path) as beside, beside.open("w", encoding="utf-8", newline="\n") as out:
        write_json_lines(({"text": text, "label": label} for text, label in rows), out)


def read_rows(path: Path) -> list[Row]:
    """Inverse of :func:`write_rows`."""
    with path.open(encoding="utf-8", newline="\n") as lines:
        return [(row["text"], row["label"]) for _, row in read_json_lines(lines)]


def _encoder(folder: Path, rows: LabelledCorpus, sizes: Sizes, seed: int) -> None:
    from leakage_tasks.research.victims.docstrings import docstring_rows
    from leakage_tasks.research.victims.masked_lm import pretrain_masked_lm
    from leakage_tasks.research.victims.wordpiece import train_wordpiece
    from leakage_tasks.training.masked_lm import MaskedRecipe
    from leakage_tasks.training.saved_model import save

    own = sizes.labelled
    private = {text for part in (rows.training, rows.validation) for text, _ in part}
    public = [text for text, _ in docstring_rows() if text not in private]
    texts = public[:: max(1, len(public) // own.public_texts)]
    tokenizer = train_wordpiece(texts, vocabulary=own.vocabulary)
    how = MaskedRecipe(epochs=own.pretraining, learning_rate=2e-3, max_length=own.max_length, seed=seed, device="cpu")
    trained = pretrain_masked_lm(texts, tokenizer, how, hidden=own.hidden)
    save(trained.model, tokenizer, folder)


def _canaries(folder: Path, rows: LabelledCorpus, sizes: Sizes, seed: int) -> None:
    from leakage_tasks.canaries import write_manifest
    from leakage_tasks.canaries.alphabets import tokenizer_words
    from leakage_tasks.canaries.presets import elmahdy_canaries

    own = sizes.labelled
    canaries = elmahdy_canaries(
        tokenizer_words("words", str(folder / "encoder"), "whole-words"),
        own.planted,
        label=rows.rarest,
        classes=rows.labels,
        repetitions=own.repetitions,
        controls=own.controls,
        seed=seed,
    )
    write_manifest(canaries, folder / "canaries.jsonl")
