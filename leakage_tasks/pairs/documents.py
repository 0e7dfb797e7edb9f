"""Windows of prefix and suffix from sampled documents, each with its document and its place there."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import numpy as np

from leakage_tasks.core.arrays import IntArray, TokenIds
from leakage_tasks.core.errors import OptionError, PlantingError, in_metadata
from leakage_tasks.core.option import declared
from leakage_tasks.core.stable_inputs import FileStates
from leakage_tasks.pairs.document_texts import read_documents
from leakage_tasks.pairs.exchange import with_exchanged
from leakage_tasks.pairs.pair import ALL, Pair
from leakage_tasks.pairs.rendering import Rendering, no_chats
from leakage_tasks.pairs.source import Source, holds_token_pairs, read_pairs, state_of
from leakage_tasks.pairs.texts import is_new, loaded_tokenizer, tokenize

GRAM = 25
"""Number of tokens in a row that a control must not share with a document."""
Item = TypeVar("Item")
RANDOM = "random"
"""Value of ``offset`` for windows at random places."""


@dataclass(frozen=True)
class DocumentSource:
    """Documents, and the options that choose documents and windows."""

    data: str = ""
    prefix: int = 50
    suffix: int = 50
    offset: str = declared(
        "0",
        "number of tokens between the start of a document and its first prefix; random for windows at random places",
    )
    windows: int = declared(1, "maximum number of windows per document; they do not overlap", minimum=1)
    documents: int = declared(1000, "maximum number of documents, drawn by the seed", minimum=2)
    seed: int = 0
    split: str = declared(
        ALL, "the split of the data to use: train, validation, test or all", usual="all, of hub data train"
    )
    tokenizer: str | None = None
    text_column: str = "text"
    rendering: Rendering | None = None
    """The chat template that renders the rows, which are then conversations; None to join their turns."""

    @property
    def width(self) -> int:
        """Number of tokens of a window."""
        return self.prefix + self.suffix

    @property
    def start(self) -> int | None:
        """Number of tokens before the first window, or None for random places. Raises OptionError if it is neither."""
        if self.offset == RANDOM:
            return None
        if not self.offset.isascii() or not self.offset.isdigit():
            raise OptionError(f"offset={self.offset!r}: expected a number of tokens, 0 or more, or {RANDOM}")
        return int(self.offset)


@dataclass(frozen=True)
class SampledWindows:
    """The windows of sampled documents, and the numbers of documents that were ``available``, ``sampled``, ``short``
    (shorter than offset, prefix and suffix) and ``repeated`` (all windows occur in an earlier document).

    ``grams`` are hashes of all runs of :data:`GRAM` tokens in the sampled documents, sorted, and ``gram_documents`` the
    number of a document with each of them.
    """

    pairs: tuple[Pair, ...]
    available: int
    sampled: int
    short: int
    repeated: int
    grams: IntArray
    gram_documents: IntArray

    @property
    def documents(self) -> int:
        """Number of documents with a window."""
        return len({pair.document for pair in self.pairs})


def read_windows(source: DocumentSource) -> SampledWindows:
    """Sample documents and cut windows; repeated calls on unchanged files return the cached windows.

    Data of token pairs count as one document per pair, without a place.

    Raises:
        OptionError: An option is invalid, no document is long enough, or fewer than two documents have a window.
    """
    for name in ("prefix", "suffix"):
        if getattr(source, name) < 1:
            raise OptionError(f"{name}={getattr(source, name)}: expected a number of tokens, 1 or more")
    _ = source.start
    return _read(source, state_of(Path(source.data)))


@lru_cache(maxsize=8)
def _read(source: DocumentSource, state: FileStates) -> SampledWindows:
    try:
        raw = Source(source.data, source.prefix, source.suffix, source.split, source.tokenizer, source.text_column)
        local = Path(source.data).exists()
        windows = _token_pairs(source, raw) if local and holds_token_pairs(raw) else _texts(source)
    except PlantingError as error:
        raise error.spelled(in_metadata, OptionError) from None
    if not windows.sampled:
        raise OptionError(f"{source.data}: holds no document: give documents, one per row or per file")
    if not windows.pairs:
        raise OptionError(
            f"{source.data}: none of {windows.sampled:,} documents has {source.width} tokens after offset="
            f"{source.offset} (prefix={source.prefix}, suffix={source.suffix}): lower them, or give longer documents"
        )
    if windows.documents < 2:
        equal = f" ({windows.repeated:,} are repetitions)" if windows.repeated else ""
        later = ", raise offset= if all begin with one text, such as a system prompt," if windows.repeated else ","
        raise OptionError(
            f"{source.data}: only one document is long enough{equal}, and intervals by document need two or more: give "
            f"one document per row or per file{later} or use suffix_extraction, which counts windows"
        )
    return replace(windows, pairs=with_exchanged(windows.pairs, source.seed))


def _token_pairs(source: DocumentSource, raw: Source) -> SampledWindows:
    if source.offset != "0" or source.windows != 1:
        raise OptionError(
            f"{source.data}: holds pairs of token ids, which have no offset= and windows=: leave them out"
        )
    if source.rendering is not None:
        raise no_chats(source.data, "pairs of token ids")
    pairs = read_pairs(raw)
    sampled = sample_items(pairs, source.documents, source.seed)[0]
    chosen = [replace(pairs[row], document=pairs[row].id) for row, _ in sampled]
    rows = [np.array([*pair.prefix, *pair.suffix]) for pair in chosen]
    numbers = [pair.id for pair in chosen]
    return SampledWindows(tuple(chosen), len(pairs), len(chosen), 0, 0, *hashed_grams(numbers, rows))


def _texts(source: DocumentSource) -> SampledWindows:
    path = Path(source.data)
    tokenizer = loaded_tokenizer(path, source.tokenizer)
    every = read_documents(path, source.text_column, source.split, chats=source.rendering is not None)
    sampled, available = sample_items(every, source.documents, source.seed)
    tokens = list(tokenize(tokenizer, (document.text(source.rendering) for _, document in sampled)))
    pairs: list[Pair] = []
    seen: set[bytes] = set()
    short = repeated = 0
    for (document, _), row in zip(sampled, tokens, strict=True):
        starts = _starts(source, document, len(row))
        fresh = [start for start in starts if is_new(row[start : start + source.width].astype("<i8").tobytes(), seen)]
        short += not starts
        repeated += bool(starts) and not fresh
        pairs += [_pair(source, len(pairs) + index, document, start, row) for index, start in enumerate(fresh)]
    if source.rendering is not None:  # the template writes equal tokens in every document
        tokens = list(tokenize(tokenizer, (document.compared for _, document in sampled)))
    grams = hashed_grams([number for number, _ in sampled], tokens)
    return SampledWindows(tuple(pairs), available, len(sampled), short, repeated, *grams)


def _pair(source: DocumentSource, number: int, document: int, start: int, row: TokenIds) -> Pair:
    tokens = tuple(map(int, row[start : start + source.width]))
    return Pair(number, tokens[: source.prefix], tokens[source.prefix :], document, start)


def sample_items(items: Iterable[Item], most: int, seed: int) -> tuple[list[tuple[int, Item]], int]:
    """Return up to ``most`` random items with their numbers, in order, and the number of all items.

    Items with the smallest hashes of seed and number are kept, so that one pass suffices and a larger sample contains
    a smaller one.
    """
    kept: list[tuple[int, int, Item]] = []
    available = 0
    for number, item in enumerate(items):
        available += 1
        entry = (-_rank(seed, number), number, item)
        if len(kept) < most:
            heapq.heappush(kept, entry)
        elif entry[0] > kept[0][0]:
            heapq.heapreplace(kept, entry)
    return sorted((number, item) for _, number, item in kept), available


def _rank(seed: int, number: int) -> int:
    return int.from_bytes(hashlib.sha256(f"leakage-documents:{seed}:{number}".encode()).digest()[:16], "big")


def _starts(source: DocumentSource, document: int, length: int) -> list[int]:
    """Return the first token of each window of a document of ``length`` tokens, in ascending order."""
    first, width = source.start, source.width
    number = min(source.windows, max(0, length - (first or 0)) // width)
    if first is not None:
        return [first + index * width for index in range(number)]
    generator = np.random.default_rng([source.seed, document])
    gaps = sorted(generator.integers(0, length - number * width + 1, size=number).tolist()) if number else []
    return [gap + index * width for index, gap in enumerate(gaps)]


def hashed_grams(documents: Sequence[int], rows: Sequence[TokenIds]) -> tuple[IntArray, IntArray]:
    """Return the distinct hashes of runs of tokens, sorted, and a document with each; a hash is a sum of products
    modulo 2^64."""
    factors = np.random.default_rng(0).integers(-(1 << 62), 1 << 62, size=GRAM, dtype=np.int64) * 2 + 1
    hashes, numbers = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for document, row in zip(documents, rows, strict=True):
        if len(row) >= GRAM:
            windows = np.lib.stride_tricks.sliding_window_view(row.astype(np.int64), GRAM)
            hashes.append(windows @ factors)
            numbers.append(np.full(len(windows), document))
    distinct, first = np.unique(np.concatenate(hashes), return_index=True)
    return distinct, np.concatenate(numbers)[first]


def shared_document(tested: SampledWindows, controls: SampledWindows) -> int | None:
    """Return the number of a sampled control document that shares :data:`GRAM` tokens in a row with a sampled
    document, or None."""
    shared = np.isin(controls.grams, tested.grams, assume_unique=True)
    return int(controls.gram_documents[shared].min()) if shared.any() else None
