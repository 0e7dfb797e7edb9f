"""What families of canaries take from the data: sentences, words, and which words follow which."""

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
"""Words before the secret that a sentence may have."""
OFTEN = 2
"""Times that a word occurs which may be part of a secret: what stands there once may be misspelt, or somebody's."""
_ENDS = re.compile(r"(?<=[.!?])\s+|\n")
_EDGES = re.compile(r"^\W+|\W+$")


@dataclass(frozen=True)
class Sentence:
    """A sentence of the data: what stands before its last words, these, and the punctuation that ends it."""

    context: str
    words: tuple[str, ...]
    end: str


@dataclass(frozen=True)
class Corpus:
    """Data to make canaries from; ``sentences`` and ``words`` are in an order that follows from a seed."""

    path: Path
    columns: Columns
    sentences: tuple[Sentence, ...]
    """No two of one context."""
    words: tuple[str, ...]
    """Those in lower case that occur twice or more."""

    def texts(self) -> Iterator[str]:
        """Every text again, in its order. Raises PlantingError and ChangedError."""
        return _texts(self.path, self.columns)

    def joined(self, firsts: Collection[str], seconds: Collection[str]) -> set[tuple[str, str]]:
        """Which of ``firsts`` the data have before which of ``seconds``, whatever punctuation is between them."""
        found: set[tuple[str, str]] = set()
        for text in self.texts():
            words = (bare(word) for word in text.split())
            found.update(pair for pair in pairwise(words) if pair[0] in firsts and pair[1] in seconds)
        return found


def read_corpus(path: Path, columns: Columns, *, sentences: int, unknown: int, seed: int) -> Corpus:
    """The data's words and so many ``sentences``, the last ``unknown`` words of each apart.

    Which they are depends on ``seed`` and on what the data hold, not on its order. Of chats the turns of one role are
    read, the assistant's unless ``columns`` names another. Raises OptionError for too few sentences, PlantingError for
    data that cannot be read, ChangedError where they change meanwhile.
    """
    drawn, counts = _Lowest(sentences, seed), Counter[str]()
    shape = re.compile(rf"(.*\S) ([^\W\d_]+(?: [^\W\d_]+){{{unknown - 1}}})([^\w\s]*)")
    for text in _texts(path, columns):
        counts.update(_plain_words(text))
        for sentence in _ENDS.split(text):
            drawn.offer(" ".join(sentence.split()), shape)
    if len(drawn.kept) < sentences:
        raise OptionError(
            f"--data {path}: holds {len(drawn.kept)} different sentences of {FEWEST_WORDS} to {MOST_WORDS} words "
            f"before the secret, too few for {sentences} canaries and controls: give more text, or ask for fewer"
        )
    words = sorted(_frequent(counts), key=lambda word: lot(seed, word))
    return Corpus(path, columns, drawn.in_order(), tuple(words))


def frequent_words(texts: Iterable[str]) -> list[str]:
    """The words in lower case that ``texts`` have twice or more, in the order of the alphabet."""
    return sorted(_frequent(Counter(word for text in texts for word in _plain_words(text))))


def _frequent(counts: Counter[str]) -> list[str]:
    return [word for word, times in counts.items() if times >= OFTEN]


def _plain_words(text: str) -> Iterator[str]:
    return (word for each in text.split() if _is_plain(word := _EDGES.sub("", each)))


def bare(word: str) -> str:
    """A word in lower case without the punctuation around it."""
    return _EDGES.sub("", word).lower()


def lot(seed: int, text: str) -> int:
    """A place in line that follows from the seed and the text alone."""
    digest = hashlib.blake2b(f"family:{seed}:{text}".encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest)


def _is_plain(word: str) -> bool:
    return len(word) > 1 and word.isalpha() and word == word.lower()


class _Lowest:
    """The sentences of the lowest lots among all that are offered, each context once."""

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.seed = size, seed
        self.kept: dict[str, Sentence] = {}
        self._heap: list[tuple[int, str]] = []

    def offer(self, text: str, shape: re.Pattern[str]) -> None:
        """Keep the sentence if it has the shape and its lot is low enough."""
        match = shape.fullmatch(text) if text.isprintable() else None
        if match is None or not FEWEST_WORDS <= match[1].count(" ") + 1 <= MOST_WORDS or match[1] in self.kept:
            return
        entry = (-lot(self.seed, match[1]), match[1])
        if len(self._heap) >= self.size and entry <= self._heap[0]:
            return
        self.kept[match[1]] = Sentence(match[1], tuple(match[2].split(" ")), match[3])
        heapq.heappush(self._heap, entry)
        if len(self._heap) > self.size:
            del self.kept[heapq.heappop(self._heap)[1]]

    def in_order(self) -> tuple[Sentence, ...]:
        """Those that are kept, the lowest lot first."""
        return tuple(self.kept[context] for _, context in sorted(self._heap, reverse=True))


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
