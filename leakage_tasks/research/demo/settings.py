"""Where the demo and the showcase leave what they write, and how large the showcase is."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

LSTM, PRIVATE_LSTM, CLASSIFIER = "lstm", "lstm-dp-sgd", "classifier"
"""The showcase's three models, and the folders they are saved in."""


def _place(name: str, what: str) -> Any:
    """A field for a file or folder: its name in the folder of all, and what it holds."""
    return field(metadata={"place": (name, what)})


@dataclass(frozen=True)
class OutputFiles:
    """Where everything is, all in one ``folder``; :meth:`listing` says what is what."""

    folder: Path

    @classmethod
    def under(cls, folder: Path) -> Self:
        """The files in ``folder``."""
        return cls(folder, **{field: folder / name for field, (name, _) in cls._places().items()})

    @classmethod
    def names(cls) -> set[str]:
        """What is left in the folder."""
        return {name.partition("/")[0] for name, _ in cls._places().values()}

    @classmethod
    def _places(cls) -> dict[str, tuple[str, str]]:
        return {each.name: each.metadata["place"] for each in fields(cls) if each.metadata}

    def listing(self) -> str:
        """One line a file or folder, saying what it is."""
        paths = {str(self.folder / name): what for name, what in self._places().values()}
        width = max(map(len, paths))
        return "\n".join(f"  {path:{width}}  {what}" for path, what in paths.items())


@dataclass(frozen=True)
class DemoFiles(OutputFiles):
    """What the demo leaves."""

    manifest: Path = _place("canaries.jsonl", "the canaries and controls")
    corpus: Path = _place("corpus.txt", "the text as it was")
    planted: Path = _place("planted.txt", "the text with the canaries in it, which the model read")
    held_out: Path = _place("heldout.txt", "text of the same kind it never saw")
    model: Path = _place("model", "the model, as transformers and lm_eval load it")
    results: Path = _place("results", "what lm_eval wrote: results, and samples with every finding")
    log: Path = _place("lm_eval.log", "lm_eval's messages")
    history: Path = _place("exposure_by_epoch.json", "losses and exposures after each epoch")
    plot: Path = _place("exposure_by_epoch.png", "the same as a picture")
    board: Path = _place("board.html", "all of the results as a page for the browser")
    card: Path = _place("model/README.md", "the model's card, with what leaks")


@dataclass(frozen=True)
class ShowcaseFiles(OutputFiles):
    """What the showcase leaves.

    ``text`` holds ``corpus.txt``, ``heldout.txt``, ``canaries.jsonl`` and ``planted.txt``; ``labelled`` holds
    ``train.jsonl``, ``heldout.jsonl``, ``canaries.jsonl``, ``planted.jsonl`` and ``encoder``.
    """

    text: Path = _place("text", "help text and what is planted in it")
    labelled: Path = _place("labelled", "docstrings with their modules, what is planted in them, and the encoder")
    tasks: Path = _place("tasks", "two multiple-choice tasks, for --include_path")
    lstm: Path = _place(LSTM, "the character LSTM")
    private_lstm: Path = _place(PRIVATE_LSTM, "the same, trained with DP-SGD")
    classifier: Path = _place(CLASSIFIER, "the classifier of docstrings")
    results: Path = _place("results", "what lm_eval wrote, a folder a model")
    logs: Path = _place("logs", "lm_eval's messages")
    board: Path = _place("board.html", "all of the results as a page for the browser")
    training: Path = _place("training.json", "losses, ε and seconds of each training")


@dataclass(frozen=True)
class TextSizes:
    """The canaries in Python's help text, and how the two language models are trained on it."""

    characters: int | None = None
    """The most of the training text; None: all there is."""
    planted: int = 20
    """Canaries that are planted."""
    controls: int = 100
    """Canaries that are not."""
    repetitions: tuple[int, ...] = (1, 4, 16)
    """Copies, dealt out in turn."""
    hidden: int = 128
    """Units of a layer."""
    layers: int = 1
    """Layers of either LSTM."""
    epochs: int = 8
    """How often the ordinary one reads the text."""
    private_epochs: int = 12
    """How often the one with DP-SGD does."""
    private_batch: int = 512
    """The expected size of its batches, in rows."""
    private_rate: float = 2e-2
    """Its learning rate."""
    epsilon: float = 8.0
    """What DP-SGD may spend, for one row of the text."""
    delta: float = 1e-5
    """The δ of that ε."""


@dataclass(frozen=True)
class LabelledSizes:
    """The labelled docstrings, their canaries, and the encoder and classifier trained on them."""

    classes: int = 20
    """Modules that are labels."""
    samples: int = 3_000
    """Rows to train on."""
    held_out: int = 500
    """Rows the classifier never sees."""
    planted: int = 20
    """Canaries that are planted."""
    controls: int = 100
    """Canaries that are not."""
    repetitions: tuple[int, ...] = (1, 4, 16)
    """Copies, dealt out in turn."""
    public_texts: int = 4_000
    """Docstrings the encoder reads, about as many."""
    vocabulary: int = 2_000
    """Its WordPiece entries."""
    hidden: int = 128
    """Its units."""
    pretraining: int = 2
    """Epochs of its pre-training."""
    epochs: int = 8
    """Epochs of fine-tuning."""
    max_length: int = 32
    """Tokens that are read of a text."""


@dataclass(frozen=True)
class Sizes:
    """All of it; ``budget`` is for one canary of the text, ``questions`` for each multiple-choice task."""

    text: TextSizes = TextSizes()
    labelled: LabelledSizes = LabelledSizes()
    questions: int = 200
    budget: int = 4_000
