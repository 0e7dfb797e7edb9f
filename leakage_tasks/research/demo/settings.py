"""Output files of the demo and the showcase, and the sizes of the showcase."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

LSTM, PRIVATE_LSTM, CLASSIFIER = "lstm", "lstm-dp-sgd", "classifier"
"""The showcase's three models and their folders."""


def _place(name: str, what: str) -> Any:
    """Return a field for a file or folder: its name in the output folder and a description."""
    return field(metadata={"place": (name, what)})


@dataclass(frozen=True)
class OutputFiles:
    """Output files in one ``folder``; :meth:`listing` describes them."""

    folder: Path

    @classmethod
    def under(cls, folder: Path) -> Self:
        """Return the files in ``folder``."""
        return cls(folder, **{field: folder / name for field, (name, _) in cls._places().items()})

    @classmethod
    def names(cls) -> set[str]:
        """Return the names of files in the folder."""
        return {name.partition("/")[0] for name, _ in cls._places().values()}

    @classmethod
    def _places(cls) -> dict[str, tuple[str, str]]:
        return {item.name: item.metadata["place"] for item in fields(cls) if item.metadata}

    def listing(self) -> str:
        """Return one line per file or folder with a description."""
        paths = {str(self.folder / name): description for name, description in self._places().values()}
        width = max(map(len, paths))
        return "\n".join(f"  {path:{width}}  {description}" for path, description in paths.items())


@dataclass(frozen=True)
class DemoFiles(OutputFiles):
    """Output files of the demo."""

    manifest: Path = _place("canaries.jsonl", "the canaries and controls")
    corpus: Path = _place("corpus.txt", "the original text")
    planted: Path = _place("planted.txt", "the text with canaries, which the model is trained on")
    held_out: Path = _place("heldout.txt", "similar text that the model is not trained on")
    model: Path = _place("model", "the model, as transformers and lm_eval load it")
    results: Path = _place("results", "lm_eval's results, and samples with all findings")
    log: Path = _place("lm_eval.log", "lm_eval's messages")
    history: Path = _place("exposure_by_epoch.json", "losses and exposures after each epoch")
    plot: Path = _place("exposure_by_epoch.png", "a plot of them")
    board: Path = _place("board.html", "all results as a page for the browser")
    card: Path = _place("model/README.md", "the model's card, with its leakage")


@dataclass(frozen=True)
class ShowcaseFiles(OutputFiles):
    """Output files of the showcase.

    ``text`` has ``corpus.txt``, ``heldout.txt``, ``canaries.jsonl`` and ``planted.txt``. ``labelled`` has
    ``train.jsonl``, ``heldout.jsonl``, ``canaries.jsonl``, ``planted.jsonl`` and ``encoder``.
    """

    text: Path = _place("text", "help text and the canaries in it")
    labelled: Path = _place("labelled", "docstrings with their modules, the canaries in them, and the encoder")
    tasks: Path = _place("tasks", "two multiple-choice tasks, for --include_path")
    lstm: Path = _place(LSTM, "the character LSTM")
    private_lstm: Path = _place(PRIVATE_LSTM, "the character LSTM trained with DP-SGD")
    classifier: Path = _place(CLASSIFIER, "the classifier of docstrings")
    results: Path = _place("results", "lm_eval's results, a folder per model")
    logs: Path = _place("logs", "lm_eval's messages")
    board: Path = _place("board.html", "all results as a page for the browser")
    training: Path = _place("training.json", "losses, ε and duration of each training")


@dataclass(frozen=True)
class TextSizes:
    """The canaries in Python's help text, and the training of two language models on it."""

    characters: int | None = None
    """The most characters of the training text; None: no limit."""
    planted: int = 20
    """Planted canaries."""
    controls: int = 100
    """Canaries that are not planted."""
    repetitions: tuple[int, ...] = (1, 4, 16)
    """Copies, assigned to canaries in turn."""
    hidden: int = 128
    """Units per layer."""
    layers: int = 1
    """Layers of both LSTMs."""
    epochs: int = 8
    """Epochs without DP-SGD."""
    private_epochs: int = 12
    """Epochs with DP-SGD."""
    private_batch: int = 512
    """Expected rows per batch with DP-SGD."""
    private_rate: float = 2e-2
    """Learning rate with DP-SGD."""
    epsilon: float = 8.0
    """Budget of DP-SGD for one row of the text."""
    delta: float = 1e-5
    """The δ of that ε."""


@dataclass(frozen=True)
class LabelledSizes:
    """The labelled docstrings, their canaries, and the training of encoder and classifier."""

    classes: int = 20
    """Modules that serve as labels."""
    samples: int = 3_000
    """Training rows."""
    held_out: int = 500
    """Held-out rows."""
    planted: int = 20
    """Planted canaries."""
    controls: int = 100
    """Canaries that are not planted."""
    repetitions: tuple[int, ...] = (1, 4, 16)
    """Copies, assigned to canaries in turn."""
    public_texts: int = 4_000
    """Approximate number of docstrings for the encoder."""
    vocabulary: int = 2_000
    """Entries of the encoder's WordPiece vocabulary."""
    hidden: int = 128
    """Units of the encoder."""
    pretraining: int = 2
    """Epochs of the encoder's pre-training."""
    epochs: int = 8
    """Epochs of fine-tuning."""
    max_length: int = 32
    """Tokens read from a text."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of the showcase; ``budget`` is per canary of the text, ``questions`` per multiple-choice task."""

    text: TextSizes = TextSizes()
    labelled: LabelledSizes = LabelledSizes()
    questions: int = 200
    budget: int = 4_000
