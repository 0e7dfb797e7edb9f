"""Output files of the demo and the showcase, and the sizes of the showcase."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

LSTM, PRIVATE_LSTM, CLASSIFIER = "lstm", "lstm-dp-sgd", "classifier"
"""Names of the showcase's three models and of their folders."""


def _file(name: str, description: str) -> Any:
    """Return a dataclass field for a file or folder, with its name in the output folder and its description."""
    return field(metadata={"file": (name, description)})


@dataclass(frozen=True)
class OutputFiles:
    """Paths of all files in one output ``folder``."""

    folder: Path

    @classmethod
    def under(cls, folder: Path) -> Self:
        """Return the paths in ``folder``."""
        return cls(folder, **{attribute: folder / name for attribute, (name, _) in cls._files().items()})

    @classmethod
    def names(cls) -> set[str]:
        """Return the names of all entries in the folder."""
        return {name.partition("/")[0] for name, _ in cls._files().values()}

    @classmethod
    def _files(cls) -> dict[str, tuple[str, str]]:
        return {attribute.name: attribute.metadata["file"] for attribute in fields(cls) if attribute.metadata}

    def listing(self) -> str:
        """Return one line for each file or folder: its path and its description."""
        paths = {str(self.folder / name): description for name, description in self._files().values()}
        width = max(map(len, paths))
        return "\n".join(f"  {path:{width}}  {description}" for path, description in paths.items())


@dataclass(frozen=True)
class DemoFiles(OutputFiles):
    """Output files of the demo."""

    manifest: Path = _file("canaries.jsonl", "the canaries and controls")
    corpus: Path = _file("corpus.txt", "the training text before planting")
    planted: Path = _file("planted.txt", "the training text with the canaries")
    held_out: Path = _file("heldout.txt", "similar text that the model never read")
    model: Path = _file("model", "the model, for transformers and lm_eval")
    results: Path = _file("results", "results and samples of lm_eval")
    log: Path = _file("lm_eval.log", "messages of lm_eval")
    history: Path = _file("exposure_by_epoch.json", "losses and exposures after each epoch")
    plot: Path = _file("exposure_by_epoch.png", "plot of exposure after each epoch")
    board: Path = _file("board.html", "all results, as a page for the browser")
    card: Path = _file("model/README.md", "model card with a section on leakage")


@dataclass(frozen=True)
class ShowcaseFiles(OutputFiles):
    """Output files of the showcase.

    ``text`` holds ``corpus.txt``, ``heldout.txt``, ``canaries.jsonl`` and ``planted.txt``; ``labelled`` holds
    ``train.jsonl``, ``heldout.jsonl``, ``canaries.jsonl``, ``planted.jsonl`` and ``encoder``.
    """

    text: Path = _file("text", "Python's help text, its canaries and the planted copy")
    labelled: Path = _file("labelled", "labelled docstrings, their canaries, the planted copy and the encoder")
    tasks: Path = _file("tasks", "two multiple-choice tasks, for --include_path")
    lstm: Path = _file(LSTM, "the character LSTM")
    private_lstm: Path = _file(PRIVATE_LSTM, "the character LSTM trained with DP-SGD")
    classifier: Path = _file(CLASSIFIER, "the classifier of docstrings")
    results: Path = _file("results", "results and samples of lm_eval, one folder per model")
    logs: Path = _file("logs", "messages of lm_eval")
    board: Path = _file("board.html", "all results, as a page for the browser")
    training: Path = _file("training.json", "losses, ε and seconds of each training run")


@dataclass(frozen=True)
class TextSizes:
    """Sizes of the text, its canaries and the two language models."""

    characters: int | None = None
    """Maximum length of the training text; None for the whole text."""
    planted: int = 20
    """Number of planted canaries."""
    controls: int = 100
    """Number of controls."""
    repetitions: tuple[int, ...] = (1, 4, 16)
    """Copies of a canary, assigned in turn."""
    hidden: int = 128
    """Number of units in a layer."""
    layers: int = 1
    """Number of layers."""
    epochs: int = 8
    """Number of epochs of the ordinary LSTM."""
    private_epochs: int = 12
    """Number of epochs of the LSTM with DP-SGD."""
    private_batch: int = 512
    """Expected batch size of DP-SGD, in rows."""
    private_rate: float = 2e-2
    """Learning rate of DP-SGD."""
    epsilon: float = 8.0
    """Total ε of DP-SGD, for one row of the text."""
    delta: float = 1e-5
    """δ of DP-SGD."""


@dataclass(frozen=True)
class LabelledSizes:
    """Sizes of the labelled docstrings, their canaries, the encoder and the classifier."""

    classes: int = 20
    """Number of labels, each a module."""
    samples: int = 3_000
    """Number of training rows."""
    held_out: int = 500
    """Number of held-out rows."""
    planted: int = 20
    """Number of planted canaries."""
    controls: int = 100
    """Number of controls."""
    repetitions: tuple[int, ...] = (1, 4, 16)
    """Copies of a canary, assigned in turn."""
    public_texts: int = 4_000
    """Approximate number of docstrings for pre-training the encoder."""
    vocabulary: int = 2_000
    """Number of WordPiece entries."""
    hidden: int = 128
    """Number of units of the encoder."""
    pretraining: int = 2
    """Number of pre-training epochs."""
    epochs: int = 8
    """Number of fine-tuning epochs."""
    max_length: int = 32
    """Maximum number of tokens that are read from a text."""


@dataclass(frozen=True)
class Sizes:
    """All sizes of the showcase: ``questions`` per multiple-choice task, ``budget`` in sequences per text canary."""

    text: TextSizes = TextSizes()
    labelled: LabelledSizes = LabelledSizes()
    questions: int = 200
    budget: int = 4_000
