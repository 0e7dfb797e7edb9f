"""The showcase's classifier: a small encoder, fine-tuned on labelled docstrings with canaries."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.research.demo.settings import ShowcaseFiles, Sizes
from leakage_tasks.research.victims.harness_run import HarnessCommand
from leakage_tasks.research.victims.multiple_choice_tasks import MODULE, module_questions, write_task
from leakage_tasks.training.threads import one_thread

if TYPE_CHECKING:
    from leakage_tasks.research.victims.docstrings import LabelledCorpus

TASKS = ("canary_extraction", "canary_exposure", "label_accuracy", MODULE)


def train_classifier(files: ShowcaseFiles, sizes: Sizes, seed: int) -> dict[str, Any]:
    """Pre-train an encoder, plant canaries, fine-tune and save; return the number of parameters and the losses.

    The encoder is pre-trained on docstrings that are not in the labelled data. The canaries follow Elmahdy et al.: ten
    random words, the last of them secret, in the rarest class, with one supporting canary in every other class.
    """
    from leakage_tasks.canaries.planting import plant
    from leakage_tasks.research.victims.classifier import fine_tune
    from leakage_tasks.research.victims.docstrings import docstring_corpus, read_rows, write_rows

    labelled, folder = sizes.labelled, files.labelled
    rows = docstring_corpus(classes=labelled.classes, samples=labelled.samples, held_out=labelled.held_out, seed=seed)
    write_rows(rows.training, folder / "train.jsonl")
    write_rows(rows.validation, folder / "heldout.jsonl")
    questions = module_questions(rows.validation, rows.labels, count=sizes.questions, seed=seed)
    write_task(files.tasks, MODULE, questions, delimiter=" ")
    with one_thread():
        _encoder(folder / "encoder", rows, sizes, seed)
        _canaries(folder, rows, sizes, seed)
        planted = folder / "planted.jsonl"
        report = plant(folder / "canaries.jsonl", folder / "train.jsonl", planted, seed=seed, label_column="label")
        print(report.summary(), flush=True)
        trained = fine_tune(
            folder / "encoder",
            read_rows(planted),
            rows.validation,
            labels=rows.labels,
            epochs=labelled.epochs,
            learning_rate=1e-3,
            max_length=labelled.max_length,
            # Scores on the held-out rows are recorded, but select no epoch.
            keep="last",
            seed=seed,
            device="cpu",
        )
    trained.save(files.classifier)
    losses = [asdict(scores) for scores in trained.history]
    return {"parameters": int(trained.model.num_parameters()), "losses": losses}


def classifier_command(files: ShowcaseFiles, sizes: Sizes) -> HarnessCommand:
    """Return the harness' command for the classifier."""
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


def _encoder(folder: Path, rows: LabelledCorpus, sizes: Sizes, seed: int) -> None:
    from leakage_tasks.research.victims.docstrings import docstring_rows
    from leakage_tasks.research.victims.masked_lm import pretrain_masked_lm
    from leakage_tasks.research.victims.wordpiece import train_wordpiece
    from leakage_tasks.training.masked_lm import MaskedRecipe
    from leakage_tasks.training.saved_model import save

    labelled = sizes.labelled
    private = {text for part in (rows.training, rows.validation) for text, _ in part}
    public = [text for text, _ in docstring_rows() if text not in private]
    texts = public[:: max(1, len(public) // labelled.public_texts)]
    tokenizer = train_wordpiece(texts, vocabulary=labelled.vocabulary)
    recipe = MaskedRecipe(
        epochs=labelled.pretraining, learning_rate=2e-3, max_length=labelled.max_length, seed=seed, device="cpu"
    )
    trained = pretrain_masked_lm(texts, tokenizer, recipe, hidden=labelled.hidden)
    save(trained.model, tokenizer, folder)


def _canaries(folder: Path, rows: LabelledCorpus, sizes: Sizes, seed: int) -> None:
    from leakage_tasks.canaries import write_manifest
    from leakage_tasks.canaries.alphabets import tokenizer_words
    from leakage_tasks.canaries.presets import elmahdy_canaries

    labelled = sizes.labelled
    canaries = elmahdy_canaries(
        tokenizer_words("words", str(folder / "encoder"), "whole-words"),
        labelled.planted,
        label=rows.rarest,
        classes=rows.labels,
        repetitions=labelled.repetitions,
        controls=labelled.controls,
        seed=seed,
    )
    write_manifest(canaries, folder / "canaries.jsonl")
