"""Sentences, words and word pairs of the data, from which the families of canaries are made."""

from __future__ import annotations

import hashlib
import heapq
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.stable_inputs import unchanged
from leakage_tasks.data import Columns, format_of
from leakage_tasks.data.turns import role_in, texts_in

FEWEST_WORDS, MOST_WORDS = 3, 40
"""Minimum and maximum number of words before the secret in a sentence."""
OFTEN = 2
"""Minimum number of occurrences of a word in secrets, because a word that occurs once may be a misspelling or a
name."""
_ENDS = re.compile(r"(?<=[.!?])\s+|\n")
_EDGES = re.compile(r"^\W+|\W+$")


@dataclass(frozen=True)
class Sentence:
    """A sentence of the data: the text before its last words, these words, and the final punctuation."""

    context: str
    words: tuple[str, ...]
    end: str


@dataclass(frozen=True)
class Corpus:
    """Data from which canaries are made; the order of ``sentences`` and ``words`` depends on a seed."""

    path: Path
    columns: Columns
    sentences: tuple[Sentence, ...]
    """Sentences with distinct contexts."""
    words: tuple[str, ...]
    """The lower-case words that occur at least twice."""

    def texts(self) -> Iterator[str]:
        """Yield every text again, in order.

        Raises PlantingError for unreadable data, and ChangedError if the data changed since they were first read.
        """
        return _texts(self.path, self.columns)

    def neighbours(self, firsts: Collection[str], seconds: Collection[str]) -> set[tuple[str, str]]:
        """Return the pairs of a word in ``firsts`` and a following word in ``seconds`` that occur in the data."""
        pairs: set[tuple[str, str]] = set()
        for text in self.texts():
            words = (bare(word) for word in text.split())
            pairs.update(pair for pair in pairwise(words) if pair[0] in firsts and pair[1] in seconds)
        return pairs


def read_corpus(path: Path, columns: Columns, *, sentences: int, unknown: int, seed: int) -> Corpus:
    """Read the data's words and draw sentences; the draw depends on the content of the data, not on its order.

    Args:
        path: The data.
        columns: The text column and split; in chats also the role whose turns are read (default: assistant).
        sentences: The number of sentences to draw.
        unknown: The number of last words to separate from each sentence.
        seed: The seed of the draw.

    Raises:
        OptionError: If there are too few sentences.
        PlantingError: If the data cannot be read.
        ChangedError: If the data change while they are read.
    """
    drawn, counts = _Sample(sentences, seed), Counter[str]()
    shape = re.compile(rf"(.*\S) ([^\W\d_]+(?: [^\W\d_]+){{{unknown - 1}}})([^\w\s]*)")
    for text in _texts(path, columns):
        counts.update(_plain_words(text))
        for sentence in _ENDS.split(text):
            drawn.offer(" ".join(sentence.split()), shape)
    if len(drawn.sentences) < sentences:
        raise OptionError(
            f"--data {path}: holds {len(drawn.sentences)} different sentences of {FEWEST_WORDS} to {MOST_WORDS} words "
            f"before the secret, too few for {sentences} canaries and controls: give more text, or make fewer canaries"
        )
    words = sorted(_frequent(counts), key=lambda word: seeded_rank(seed, word))
    return Corpus(path, columns, drawn.in_order(), tuple(words))


def frequent_words(texts: Iterable[str]) -> list[str]:
    """Return the lower-case words that occur at least twice in ``texts``, in alphabetical order."""
    return sorted(_frequent(Counter(word for text in texts for word in _plain_words(text))))


def _frequent(counts: Counter[str]) -> list[str]:
    return [word for word, times in counts.items() if times >= OFTEN]


def _plain_words(text: str) -> Iterator[str]:
    return (word for token in text.split() if _is_plain(word := _EDGES.sub("", token)))


def bare(word: str) -> str:
    """Return a word in lower case without the punctuation around it."""
    return _EDGES.sub("", word).lower()


def seeded_rank(seed: int, text: str) -> int:
    """Return a pseudo-random number that depends only on the seed and the text, for sorting."""
    digest = hashlib.blake2b(f"family:{seed}:{text}".encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest)


def _is_plain(word: str) -> bool:
    return len(word) > 1 and word.isalpha() and word == word.lower()


class _Sample:
    """The sentences of lowest rank among all offered sentences, with distinct contexts."""

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.seed = size, seed
        self.sentences: dict[str, Sentence] = {}
        self._heap: list[tuple[int, str]] = []

    def offer(self, text: str, shape: re.Pattern[str]) -> None:
        """Keep the sentence if it matches ``shape`` and its rank is low enough."""
        match = shape.fullmatch(text) if text.isprintable() else None
        if match is None or not FEWEST_WORDS <= match[1].count(" ") + 1 <= MOST_WORDS or match[1] in self.sentences:
            return
        entry = (-seeded_rank(self.seed, match[1]), match[1])
        if len(self._heap) >= self.size and entry <= self._heap[0]:
            return
        self.sentences[match[1]] = Sentence(match[1], tuple(match[2].split(" ")), match[3])
        heapq.heappush(self._heap, entry)
        if len(self._heap) > self.size:
            del self.sentences[heapq.heappop(self._heap)[1]]

    def in_order(self) -> tuple[Sentence, ...]:
        """Return the kept sentences, lowest rank first."""
        return tuple(self.sentences[context] for _, context in sorted(self._heap, reverse=True))


def _texts(path: Path, columns: Columns) -> Iterator[str]:
    with unchanged(path):
        kind = format_of(path)
        layout = kind.survey(path, columns)
        if layout.shape is None and not layout.chat:
            yield from kind.row_texts(path, layout, columns)
            return
        role = columns.role or layout.usual_role
        for value in kind.values(path, layout, columns, layout.text):
            if isinstance(value, str):
                yield value
            else:
                yield from (text for turn in value or () if role_in(turn) == role for text in texts_in(turn))
