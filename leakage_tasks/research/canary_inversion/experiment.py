"""Experiments with NLU taggers: data, word vectors, sizes and training."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from leakage_tasks.core.atomic import write_text
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.framework.registry import Scale, StudyPlan
from leakage_tasks.research.framework.shared import create_once, data_folder

if TYPE_CHECKING:
    from leakage_tasks.data.utterances import Utterance

SNIPS, ATIS, GENERATED = "snips", "atis", "generated"
ALIKE, SPREAD = 0.9, 0.06
"""Cosine within a slot and standard deviation of random vectors that replace FastText's."""
OVERTRAINED = 60
"""Epochs on such vectors, well beyond the lowest validation loss."""
ROWS = {SNIPS: 13_084, ATIS: 4_478, GENERATED: 4_000}
"""Training utterances of the whole set; for the generated set, the default of its command."""
PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class TaggerExperiment:
    """A data set, its size, and a tagger's sizes and training. All fields are JSON values for a trial's config.

    Embeddings are learnt, or fixed: read from a file, or random.
    """

    data: str = SNIPS
    """The set's name."""
    training: int = 2_000
    """Utterances for training, drawn at random from the set; 0 for all. The next two fields work likewise."""
    validation: int = 250
    """Utterances for validation."""
    test: int = 700
    """Utterances for tests."""
    embedding_size: int = 100
    """Dimensions of a word's embedding."""
    hidden_size: int = 100
    """Units of the tagger's layer per direction."""
    epochs: int = 10
    """Epochs of training without early stopping."""
    learning_rate: float = 2e-3
    """Learning rate of Adam."""
    batch_size: int = 64
    """Utterances per batch."""
    vectors: str = ""
    """File of fixed embeddings in ``LEAKAGE_DATA``; empty for learnt embeddings."""
    alike: float = 0.0
    """Cosine between the values of one slot in random fixed embeddings; 0: no such embeddings."""
    spread: float = 0.0
    """Standard deviation of the numbers of random fixed embeddings."""

    @property
    def fixed(self) -> bool:
        """True if the embeddings are not trained."""
        return bool(self.vectors or self.alike)

    def copies(self, published: int) -> int:
        """Return the copies with the share in this data that ``published`` copies have in the whole set; at least 1."""
        whole = ROWS[self.data]
        return max(1, round(published * min(self.training or whole, whole) / whole))


def ground_at(scale: Scale, data: str = SNIPS) -> TaggerExperiment:
    """Return the experiment of a scale."""
    return {
        "smoke": TaggerExperiment(
            data=GENERATED, training=60, validation=12, test=20, embedding_size=12, hidden_size=8, epochs=1
        ),
        "small": TaggerExperiment(data=data),
        "paper": TaggerExperiment(
            data=data, training=0, validation=0, test=0, embedding_size=300, epochs=100, vectors=VECTORS
        ),
    }[scale]


VECTORS = "wiki-news-300d-1M.vec"
"""The file of word vectors from the page that the paper cites."""


@dataclass(frozen=True)
class Parts:
    """Utterances for training, validation and tests."""

    training: list[Utterance]
    validation: list[Utterance]
    test: list[Utterance]


def utterances(ground: TaggerExperiment) -> Parts:
    """Return the experiment's utterances, identical for all trials.

    Raises LeakageError if a published set is missing.
    """
    from leakage_tasks.data.utterances import read_utterances
    from leakage_tasks.research.victims.nlu_grammar import nlu_rows

    sizes = (ground.training, ground.validation, ground.test)
    if ground.data == GENERATED:
        rows = nlu_rows(sum(sizes) if all(sizes) else ROWS[GENERATED] + 1_000, seed=0)
        first, second = (sizes[0] or ROWS[GENERATED]), (sizes[1] or 500)
        return Parts(rows[:first], rows[first : first + second], rows[first + second :])
    parts = (read_utterances(_folder(ground.data) / part) for part in PARTS)
    return Parts(*(_some(rows, size) for rows, size in zip(parts, sizes, strict=True)))


def _some(rows: list[Utterance], size: int) -> list[Utterance]:
    return random.Random("utterances").sample(rows, size) if 0 < size < len(rows) else rows


def fingerprint(ground: TaggerExperiment) -> str:
    """Return the SHA-256 of published files, including vectors, or an empty string for generated data."""
    if ground.data == GENERATED:
        return ""
    files = [_folder(ground.data) / part / name for part in PARTS for name in ("seq.in", "seq.out", "label")]
    files += [data_folder() / ground.vectors] if ground.vectors else []
    states = [(path, path.stat()) for path in files if path.is_file()]
    return hashlib.sha256(b"".join(_sha256(path, at.st_size, at.st_mtime_ns) for path, at in states)).hexdigest()


@lru_cache(maxsize=64)
def _sha256(path: Path, size: int, changed: int) -> bytes:
    """Return a file's hash.

    It is cached as long as size and modification time do not change, since a study needs it for each setting.
    """
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


def _folder(data: str) -> Path:
    folder = data_folder() / data
    if not folder.is_dir():
        raise LeakageError(
            f"{folder}: no such folder: set LEAKAGE_DATA to the folder that contains {data}/train, valid and test, "
            "each with seq.in, seq.out and label, or use --scale smoke"
        )
    return folder


def vectors_of(
    ground: TaggerExperiment, words: Iterable[str], alphabets: Sequence[Sequence[str]], shared: Path
) -> str | None:
    """Return the file of word vectors for an experiment, or None if embeddings are learnt.

    Random vectors are created with :func:`alike_vectors`. Raises LeakageError if a published file is missing.
    """
    if ground.alike:
        vocabulary = sorted({*words}.union(*alphabets))
        digest = hashlib.sha256(
            "\n".join([*vocabulary, *map(str, alphabets), str(asdict(ground))]).encode()
        ).hexdigest()
        path = shared / f"vectors-{digest[:16]}.txt"
        with create_once(path) as missing:
            if missing:
                write_text(path, "".join(alike_vectors(vocabulary, alphabets, ground)))
        return str(path)
    if not ground.vectors:
        return None
    published = data_folder() / ground.vectors
    if not published.is_file():
        raise LeakageError(
            f"{published}: no such file: save FastText's English vectors under this name, or use --scale small"
        )
    return str(published)


def alike_vectors(words: Sequence[str], alphabets: Sequence[Sequence[str]], ground: TaggerExperiment) -> Iterable[str]:
    """Yield lines of a vector file: normal random vectors, with the experiment's cosine within each alphabet.

    In vectors learnt from much text, digits and names of colours are similar in this way.
    """
    import numpy as np

    stream, size, cosine = np.random.default_rng(0), ground.embedding_size, ground.alike
    centres = {value: slot for slot, alphabet in enumerate(alphabets) for value in alphabet}
    common = stream.standard_normal((len(alphabets), size))
    for word, noise in zip(words, stream.standard_normal((len(words), size)), strict=True):
        slot = centres.get(word)
        vector = noise if slot is None else np.sqrt(cosine) * common[slot] + np.sqrt(1 - cosine) * noise
        yield f"{word} {' '.join(f'{ground.spread * value:.6f}' for value in vector)}\n"


def differences(plan: StudyPlan, data: str = SNIPS, *, learnt: bool = True) -> list[str]:
    """List the differences from the paper's set-up, one sentence per difference.

    ``learnt`` is True if some embeddings are learnt.
    """
    ground = ground_at(plan.scale, data)
    search = (
        "The paper mentions no restarts, so its figures compare with 'one start'; the other columns take the best of "
        "five starts by loss. The start of the search (z with standard deviation 0.1) is not in the source."
    )
    if plan.scale == "paper":
        return [
            f"Sizes of the layers ({ground.hidden_size} units a direction), learning rate ({ground.learning_rate:g}), "
            f"batch size ({ground.batch_size}) and epochs ({ground.epochs}) are not in the source, nor is whether "
            "FastText's embeddings are trained; here they are not.",
            search,
        ]
    rows = ground.training
    words = {SNIPS: "Snips", ATIS: "ATIS", GENERATED: "the generated set"}[ground.data]
    return [
        f"{rows:,} utterances of {words} instead of all, and a copy of a canary for each "
        f"{ROWS[ground.data] / rows:.1f} of the paper's; {ground.validation} utterances for validation. With fewer "
        "than ten copies, no copy is left for validation.",
        "One victim has a canary of each pattern; the paper trains one victim per pattern. The patterns have different "
        "intents and first words.",
        f"Embeddings of {ground.embedding_size} numbers {'learnt from scratch' if learnt else 'drawn at random'} "
        f"instead of FastText's, 2×{ground.hidden_size} units a direction, "
        f"{f'{ground.epochs} epochs of ' * learnt}Adam at {ground.learning_rate:g}, {ground.batch_size} utterances a "
        "batch; the paper's are not in the source.",
        search,
    ]
