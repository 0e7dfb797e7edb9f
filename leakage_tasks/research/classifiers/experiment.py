"""Experiments with text classifiers: data, the encoder to start from, and its fine-tuning."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.classifiers.lab_canaries import words
from leakage_tasks.research.framework.registry import Config, Scale
from leakage_tasks.research.framework.shared import create_once, data_folder, file_hash

if TYPE_CHECKING:
    from leakage_tasks.research.victims.docstrings import LabelledCorpus

DOCSTRINGS, REDDIT, YELP = "docstrings", "reddit", "yelp"
PAPER_ROWS = 10_000


@dataclass(frozen=True)
class ClassifierExperiment:
    """A data set, its size, an encoder and its fine-tuning. All fields are JSON values for a trial's config."""

    data: str = DOCSTRINGS
    """``docstrings``, ``reddit`` or ``yelp``."""
    classes: int = 40
    """Number of labels."""
    samples: int = 3_000
    """Training rows."""
    held_out: int = 500
    """Validation rows, which select the snapshot."""
    base: str = ""
    """Hub name of the encoder; empty for an encoder that this study pre-trains, described by the next five fields."""
    vocabulary: int = 8_000
    """Entries of its WordPiece vocabulary."""
    layers: int = 2
    """Number of layers."""
    hidden: int = 128
    """Units per layer."""
    pretraining: int = 8
    """Epochs of pre-training."""
    pretraining_texts: int = 0
    """Public texts for pre-training; 0 for all."""
    epochs: int = 10
    """Epochs of fine-tuning. The remaining fields concern fine-tuning too."""
    learning_rate: float = 1e-3
    """Highest learning rate of the schedule."""
    batch_size: int = 32
    """Rows per batch."""
    max_length: int = 24
    """Maximum number of tokens of a text; longer texts are truncated."""
    keep: str = "loss"
    """The measure by which early stopping selects the snapshot."""

    def copies(self, published: int) -> int:
        """Return the copies whose share in this data equals that of ``published`` copies in 10,000 rows; at least 1."""
        return max(1, round(published * self.samples / PAPER_ROWS))

    def config(self) -> Config:
        """Return the experiment as JSON values."""
        return asdict(self)


PAPER_REDDIT = ClassifierExperiment(
    data=REDDIT,
    classes=100,
    samples=PAPER_ROWS,
    held_out=2_500,
    base="bert-base-cased",
    epochs=10,
    learning_rate=1e-6,
    max_length=128,
    keep="accuracy",
)
"""The data and fine-tuning of both papers."""
PAPER_YELP = replace(PAPER_REDDIT, data=YELP, classes=5)
SMOKE = ClassifierExperiment(
    classes=6,
    samples=120,
    held_out=20,
    vocabulary=900,
    layers=1,
    hidden=16,
    pretraining=1,
    pretraining_texts=200,
    epochs=1,
)


def at_scale(scale: Scale, small: ClassifierExperiment, paper: ClassifierExperiment) -> ClassifierExperiment:
    """Return the experiment of a scale; ``smoke`` is one experiment for all studies."""
    return {"smoke": SMOKE, "small": small, "paper": paper}[scale]


def corpus(ground: ClassifierExperiment) -> LabelledCorpus:
    """Return the experiment's rows: docstrings, or ``$LEAKAGE_DATA/reddit.jsonl`` or ``yelp.jsonl`` (text, label).

    Yelp's rows come from the hub if the file is missing. Raises LeakageError if a data set is not available.
    """
    from leakage_tasks.research.victims.docstrings import LabelledCorpus, docstring_corpus, label_counts

    if ground.data == DOCSTRINGS:
        return docstring_corpus(classes=ground.classes, samples=ground.samples, held_out=ground.held_out)
    path = _published_file(ground)
    rows = list(_published_rows(path, ground.data))
    largest = {label for label, _ in label_counts(rows).most_common(ground.classes)}
    chosen = [row for row in rows if row[1] in largest]
    needed = ground.samples + ground.held_out
    if len(largest) < ground.classes or len(chosen) < needed:
        raise LeakageError(
            f"{path}: {len(chosen)} rows in {len(largest)} classes, {needed} in {ground.classes} are needed: add more "
            "rows"
        )
    random.Random("published").shuffle(chosen)
    training = chosen[: ground.samples]
    return LabelledCorpus(training, chosen[ground.samples : needed], tuple(sorted({label for _, label in training})))


def _published_rows(path: Path, data: str) -> Iterator[tuple[str, str]]:
    from datasets import load_dataset

    if path.is_file():
        table: Any = load_dataset("json", data_files=str(path), split="train")
    elif data == YELP:
        table = load_dataset("yelp_review_full", split="train")
    else:
        raise LeakageError(
            f"{path}: no such file: save the posts there, one JSON object with 'text' and 'label' per line"
        )
    if missing := {"text", "label"}.difference(table.column_names):
        raise LeakageError(f"{path}: no column {sorted(missing)[0]!r}: expected 'text' and 'label'")
    pairs = ((row["text"], row["label"]) for row in table)
    return ((str(text), str(label)) for text, label in pairs if None not in (text, label))


def _published_file(ground: ClassifierExperiment) -> Path:
    return data_folder() / f"{ground.data}.jsonl"


def fingerprint(ground: ClassifierExperiment) -> str:
    """Return the SHA-256 of a published data file, or an empty string for data from Python or the hub."""
    return "" if ground.data == DOCSTRINGS else file_hash(_published_file(ground))


def base_of(ground: ClassifierExperiment, shared: Path) -> str:
    """Return the encoder to start from: a hub name, or a folder under ``shared`` with an encoder trained once."""
    if ground.base:
        return ground.base
    from leakage_tasks.research.victims.masked_lm import pretrain_masked_lm
    from leakage_tasks.research.victims.wordpiece import train_wordpiece
    from leakage_tasks.training.masked_lm import MaskedRecipe
    from leakage_tasks.training.saved_model import save

    size = f"{ground.layers}x{ground.hidden}-v{ground.vocabulary}"
    read = f"e{ground.pretraining}-t{ground.pretraining_texts}-{ground.classes}x{ground.samples}+{ground.held_out}"
    folder = shared / f"bert-{size}-{read}"
    with create_once(folder) as missing:
        if missing:
            texts = public_texts(ground)
            tokenizer = train_wordpiece(texts, vocabulary=ground.vocabulary, words=words())
            how = MaskedRecipe(epochs=ground.pretraining, learning_rate=2e-3, max_length=48)
            trained = pretrain_masked_lm(texts, tokenizer, how, layers=ground.layers, hidden=ground.hidden)
            save(trained.model, tokenizer, folder)
    return str(folder)


def public_texts(ground: ClassifierExperiment) -> list[str]:
    """Return the texts for pre-training: Python's help, and docstrings that are not in the experiment's data."""
    from leakage_tasks.research.victims.corpus import pydoc_topics
    from leakage_tasks.research.victims.docstrings import docstring_rows

    rows = corpus(ground)
    private = {text for part in (rows.training, rows.validation) for text, _ in part}
    texts = [text for text, _ in docstring_rows() if text not in private]
    help_text = [" ".join(part.split()) for part in pydoc_topics().training.split("\n\n")]
    texts = [*texts, *(part for part in help_text if len(part.split()) > 3)]
    return texts[:: max(1, len(texts) // ground.pretraining_texts)] if ground.pretraining_texts else texts


def differences(ground: ClassifierExperiment, paper: ClassifierExperiment) -> list[str]:
    """List the differences from the paper's experiment, one sentence per difference."""
    schedule = f"The rate rises over a tenth of training, then falls; texts are cut at {ground.max_length} tokens."
    if ground == paper:
        return [f"{schedule} The paper does not say."]
    return [
        f"{ground.samples:,} docstring sentences of the standard library in {ground.classes} classes (by module) "
        f"replace {paper.samples:,} of {paper.data}'s in {paper.classes}.",
        f"The encoder is a BERT of {ground.layers} layers, {ground.hidden} units and {ground.vocabulary:,} entries, "
        f"pre-trained here for {ground.pretraining} epochs on other docstrings, not {paper.base}.",
        f"Copies of a canary are scaled to the size of the data: {ground.copies(100)} for 100.",
        f"Fine-tuning takes {ground.epochs} epochs at a learning rate of {ground.learning_rate:g} (the paper's: "
        f"{paper.epochs} at {paper.learning_rate:g}). The snapshot of best validation {ground.keep} is kept.",
        schedule,
    ]
