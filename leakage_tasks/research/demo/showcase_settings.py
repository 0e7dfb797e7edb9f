"""How large the showcase is, and where its files are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

LSTM, PRIVATE_LSTM, CLASSIFIER = "lstm", "lstm-dp-sgd", "classifier"
"""The three models, and the folders they are saved in."""
TEMPLATE = "The random number of {unique}: {digits:9}."
"""Word and digits stand close, as in the demo: the sooner does an LSTM tie a secret to its word."""


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


_PLACES = {
    "text": "help text and what is planted in it",
    "labelled": "docstrings with their modules, what is planted in them, and the encoder",
    "tasks": "two multiple-choice tasks, for --include_path",
    LSTM: "the character LSTM",
    PRIVATE_LSTM: "the same, trained with DP-SGD",
    CLASSIFIER: "the classifier of docstrings",
    "results": "what lm_eval wrote, a folder a model",
    "logs": "lm_eval's messages",
    "board.html": "all of the results as a page for the browser",
}


@dataclass(frozen=True)
class ShowcaseFiles:
    """Where everything is, all in one folder."""

    folder: Path

    @property
    def text(self) -> Path:
        """Folder of ``corpus.txt``, ``heldout.txt``, ``canaries.jsonl`` and ``planted.txt``."""
        return self.folder / "text"

    @property
    def labelled(self) -> Path:
        """Folder of ``train.jsonl``, ``heldout.jsonl``, ``canaries.jsonl``, ``planted.jsonl`` and ``encoder``."""
        return self.folder / "labelled"

    @property
    def tasks(self) -> Path:
        """Folder of the multiple-choice tasks."""
        return self.folder / "tasks"

    @property
    def board(self) -> Path:
        """The leaderboard's page of all three."""
        return self.folder / "board.html"

    @property
    def training(self) -> Path:
        """Losses, ε and seconds of every model, JSON by name."""
        return self.folder / "training.json"

    def model(self, name: str) -> Path:
        """Folder of a model."""
        return self.folder / name

    def results(self, name: str) -> Path:
        """Folder of what the harness found out about a model."""
        return self.folder / "results" / name

    def log(self, name: str) -> Path:
        """The harness' messages about a model."""
        return self.folder / "logs" / f"{name}.log"

    def make(self) -> None:
        """Make the folders that files go into. Raises LeakageError where that cannot be, or others' files are."""
        from leakage_tasks.core.errors import LeakageError
        from leakage_tasks.core.own_folder import own_folder

        own_folder(self.folder, "leakage showcase", {*_PLACES, self.training.name})
        try:
            for folder in (self.text, self.labelled, self.tasks, self.folder / "results", self.folder / "logs"):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LeakageError(f"{self.folder}: cannot be made ({error.strerror}): choose another --output") from None

    def listing(self) -> str:
        """One line a file or folder, saying what it is."""
        what = {str(self.folder / name): words for name, words in _PLACES.items()}
        what[str(self.training)] = "losses, ε and seconds of each training"
        width = max(map(len, what))
        return "\n".join(f"  {path:{width}}  {words}" for path, words in what.items())
