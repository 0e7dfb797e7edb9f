"""What studies of NLU taggers train on: utterances, word vectors, a tagger's sizes, and how it is trained."""

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
"""Random vectors that stand for FastText's, whose numbers are as small, and whose digits are alike."""
OVERTRAINED = 60
"""Epochs on such vectors, well beyond the lowest validation loss."""
ROWS = {SNIPS: 13_084, ATIS: 4_478, GENERATED: 4_000}
"""Training utterances of the whole set; of the generated one as many as its command writes."""
PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class TaggerExperiment:
    """A data set, how much of it, a tagger's sizes and its training; JSON values only, so that it goes into a config.

    Embeddings are learnt, or fixed: those of a file, or random ones made for it.
    """

    data: str = SNIPS
    """The set's name."""
    training: int = 2_000
    """Utterances drawn at random from the set's part to train on, 0 for all; the next two likewise."""
    validation: int = 250
    """Utterances to validate with."""
    test: int = 700
    """Utterances to test with."""
    embedding_size: int = 100
    """Numbers of a word's embedding."""
    hidden_size: int = 100
    """Units of the tagger's layer, a direction."""
    epochs: int = 10
    """How long victims train without early stopping."""
    learning_rate: float = 2e-3
    """Adam's."""
    batch_size: int = 64
    """Utterances a batch."""
    vectors: str = ""
    """The file of fixed embeddings in ``LEAKAGE_DATA``, if any."""
    alike: float = 0.0
    """The cosine between the values of one slot in fixed embeddings that are made; 0: none are."""
    spread: float = 0.0
    """The standard deviation of the numbers of such embeddings."""

    @property
    def fixed(self) -> bool:
        """Whether the embeddings are not trained."""
        return bool(self.vectors or self.alike)

    def copies(self, published: int) -> int:
        """As large a share of these utterances as ``published`` copies are of the whole set; one at least."""
        whole = ROWS[self.data]
        return max(1, round(published * min(self.training or whole, whole) / whole))


def ground_at(scale: Scale, data: str = SNIPS) -> TaggerExperiment:
    """The ground of a scale."""
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
"""The file of the page that the paper points to."""


@dataclass(frozen=True)
class Parts:
    """Utterances to train on, to validate and to test with."""

    training: list[Utterance]
    validation: list[Utterance]
    test: list[Utterance]


def utterances(ground: TaggerExperiment) -> Parts:
    """The ground's utterances, the same for all trials. Raises LeakageError where a published set is not there."""
    from leakage_tasks.data.utterances import read_utterances
    from leakage_tasks.research.victims.nlu_grammar import nlu_rows

    sizes = (ground.training, ground.validation, ground.test)
    if ground.data == GENERATED:
        rows = nlu_rows(sum(sizes) if all(sizes) else ROWS[GENERATED] + 1_000, seed=0)
        first, second = (sizes[0] or ROWS[GENERATED]), (sizes[1] or 500)
        return Parts(rows[:first], rows[first : first + second], rows[first + second :])
    found = (read_utterances(_folder(ground.data) / part) for part in PARTS)
    return Parts(*(_some(rows, size) for rows, size in zip(found, sizes, strict=True)))


def _some(rows: list[Utterance], size: int) -> list[Utterance]:
    return random.Random("utterances").sample(rows, size) if 0 < size < len(rows) else rows


def fingerprint(ground: TaggerExperiment) -> str:
    """What tells published data apart: the SHA-256 of its files, vectors too; empty for what is generated."""
    if ground.data == GENERATED:
        return ""
    files = [_folder(ground.data) / part / name for part in PARTS for name in ("seq.in", "seq.out", "label")]
    files += [data_folder() / ground.vectors] if ground.vectors else []
    states = [(path, path.stat()) for path in files if path.is_file()]
    return hashlib.sha256(b"".join(_sha256(path, at.st_size, at.st_mtime_ns) for path, at in states)).hexdigest()


@lru_cache(maxsize=64)
def _sha256(path: Path, size: int, changed: int) -> bytes:
    """A file's hash, made once as long as it is as it was: a study asks for each of its settings."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


def _folder(data: str) -> Path:
    folder = data_folder() / data
    if not folder.is_dir():
        raise LeakageError(
            f"{folder}: no such folder: set LEAKAGE_DATA to the one that holds {data}/train, valid and test, each with "
            "seq.in, seq.out and label, or take --scale smoke"
        )
    return folder


def vectors_of(
    ground: TaggerExperiment, words: Iterable[str], alphabets: Sequence[Sequence[str]], shared: Path
) -> str | None:
    """The file of word vectors a ground asks for, None where embeddings are learnt.

    With ``alike`` it is made: see :func:`alike_vectors`. Raises LeakageError where a published one is not there.
    """
    if ground.alike:
        known = sorted({*words}.union(*alphabets))
        name = hashlib.sha256("\n".join([*known, *map(str, alphabets), str(asdict(ground))]).encode()).hexdigest()
        path = shared / f"vectors-{name[:16]}.txt"
        with create_once(path) as missing:
            if missing:
                write_text(path, "".join(alike_vectors(known, alphabets, ground)))
        return str(path)
    if not ground.vectors:
        return None
    published = data_folder() / ground.vectors
    if not published.is_file():
        raise LeakageError(f"{published}: not there: put FastText's English vectors there, or take --scale small")
    return str(published)


def alike_vectors(words: Sequence[str], alphabets: Sequence[Sequence[str]], ground: TaggerExperiment) -> Iterable[str]:
    """Lines of a vector file: normal random vectors, those of one alphabet with the ground's cosine between them.

    So are digits, and names of colours, in vectors learnt from much text; what tells them apart is small.
    """
    import numpy as np

    stream, size, cosine = np.random.default_rng(0), ground.embedding_size, ground.alike
    centres = {value: place for place, alphabet in enumerate(alphabets) for value in alphabet}
    common = stream.standard_normal((len(alphabets), size))
    for word, own in zip(words, stream.standard_normal((len(words), size)), strict=True):
        place = centres.get(word)
        vector = own if place is None else np.sqrt(cosine) * common[place] + np.sqrt(1 - cosine) * own
        yield f"{word} {' '.join(f'{ground.spread * value:.6f}' for value in vector)}\n"


def differences(plan: StudyPlan, data: str = SNIPS, *, learnt: bool = True) -> list[str]:
    """How the set-up differs from the paper's, a sentence each; ``learnt`` says whether some embeddings are."""
    ground = ground_at(plan.scale, data)
    search = (
        "The paper tells of no restarts: its figures are to be set beside 'one start'; the other columns take the best "
        "of five by loss. Where the search starts (z of standard deviation 0.1) is not in the source."
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
        f"{ROWS[ground.data] / rows:.1f} of the paper's; {ground.validation} utterances to validate with. Fewer than "
        "ten copies leave none for validation.",
        "One victim holds a canary of each pattern, where the paper trains one for each; the patterns have intents "
        "and first words of their own.",
        f"Embeddings of {ground.embedding_size} numbers {'learnt from scratch' if learnt else 'made for it'} instead "
        f"of FastText's, 2×{ground.hidden_size} units a direction, {f'{ground.epochs} epochs of ' * learnt}Adam at "
        f"{ground.learning_rate:g}, {ground.batch_size} utterances a batch; the paper's are not in the source.",
        search,
    ]
