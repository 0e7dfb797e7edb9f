"""Reader of pairs from ``.npy`` files, from JSON lines, or from any text data set cut into windows of tokens."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, replace
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

import numpy as np

from leakage_tasks.core.arrays import TokenIds
from leakage_tasks.core.errors import OptionError, PlantingError, in_metadata
from leakage_tasks.core.log import warn_once
from leakage_tasks.core.option import declared, options_of
from leakage_tasks.core.stable_inputs import FileStates, file_states
from leakage_tasks.data.saved import is_saved
from leakage_tasks.pairs.index.store import reject_index
from leakage_tasks.pairs.pair import ALL, SPLITS, Pair, RawPairs, check_split, choose_rows, split_rows
from leakage_tasks.pairs.rendering import Rendering, no_chats
from leakage_tasks.pairs.texts import LENGTH, read_texts
from leakage_tasks.pairs.token_files import holds_pairs, read_arrays, read_lines, suffix_file_of


@dataclass(frozen=True)
class Source:
    """The source of pairs, and the options that select pairs from it."""

    data: str = declared(
        MISSING, "the pairs: a folder of _prefix.npy and _suffix.npy, one such prefix file, .jsonl pairs, or text"
    )
    """Pairs in JSON lines have integer lists ``prefix`` and ``suffix``.

    Text is ``.txt``, ``.jsonl``, ``.csv``, ``.tsv``, ``.parquet`` or a folder saved by ``datasets``.
    """
    prefix_length: int | None = declared(None, "number of last tokens of each prefix to keep", usual="all, of text 50")
    suffix_length: int | None = declared(None, "number of first tokens of each suffix to keep", usual="all, of text 50")
    split: str = declared("test", "the split of the data to use: train, validation, test or all")
    """The names of the data's sets, or of the prefix file, decide on the splits. A single set without a split name, or
    named for training, is divided by :func:`~leakage_tasks.pairs.pair.split_rows`."""
    tokenizer: str | None = declared(
        None, "the tokenizer that cuts text into tokens", of_model=True, usual="the model's"
    )
    text_column: str = declared("text", "the column of the text")
    stride: int | None = declared(
        None,
        "of text: number of tokens between the starts of two windows; the windows then cover whole documents",
        usual="prefix and suffix, without repeated windows",
        minimum=1,
    )
    rendering: Rendering | None = None
    """The chat template that renders the rows, which are then conversations; None to join their turns."""


PAIR_OPTIONS = options_of(Source)


def default_split(stride: int | None) -> str:
    """Return the split that is read if none is given: all with a stride, since windows of a split would not cover whole
    documents."""
    return "test" if stride is None else ALL


def read_pairs(source: Source) -> tuple[Pair, ...]:
    """Read the pairs of a source; repeated reads of unchanged files in a process return the cached pairs.

    A pair's id is its row in the whole data set; training sets come first. Raises OptionError, which names file
    and row.
    """
    check_split(source.split)
    for name in ("prefix_length", "suffix_length", "stride"):
        length = getattr(source, name)
        if length is not None and (not isinstance(length, int) or isinstance(length, bool) or length < 1):
            raise OptionError(f"{name}={length!r}: expected a number of tokens, 1 or more")
    return _cut(source, state_of(Path(source.data)))


def pairs_hash(pairs: Sequence[Pair]) -> str:
    """Return a hash of the pairs' ids, tokens and lengths: the first 16 hexadecimal digits of a SHA-256.

    Pairs with an exchanged suffix also contribute this suffix, their document and its offset.
    """
    digest = hashlib.sha256()
    for pair in pairs:
        numbers = [pair.id, len(pair.prefix), len(pair.suffix), *pair.prefix, *pair.suffix]
        if pair.exchanged:
            numbers += [-1 if pair.document is None else pair.document, -1 if pair.offset is None else pair.offset]
            numbers += pair.exchanged
        digest.update(np.array(numbers, dtype="<i8").tobytes())
    return digest.hexdigest()[:16]


@lru_cache(maxsize=16)
def _cut(source: Source, state: FileStates) -> tuple[Pair, ...]:
    # Only text depends on the requested lengths when it is read; other data are read once for all lengths.
    try:
        parts = _parts(replace(source, split="all", prefix_length=None, suffix_length=None), state)
        if parts is None:
            parts = _texts(replace(source, split="all"), state)
        elif source.stride is not None:
            raise OptionError(f"{source.data}: holds pairs of token ids, and stride= is for text: leave it out")
        elif source.rendering is not None:
            raise no_chats(source.data, "pairs of token ids")
    except PlantingError as error:
        raise error.spelled(in_metadata, OptionError) from None
    _check_suffixes(parts, source.split)
    rows = choose_rows(_splits(parts), source.split, source.data)
    return tuple(_pairs(parts, rows, source))


def holds_token_pairs(source: Source) -> bool:
    """Return True if a source holds pairs of token ids, False if it holds text. Raises PlantingError for invalid
    JSON, and OptionError for an index."""
    path = Path(source.data)
    reject_index(path)
    if path.is_dir():
        return any(path.glob("*.npy"))
    return path.suffix.lower() == ".npy" or holds_pairs(path, source.text_column)


@lru_cache(maxsize=4)
def _parts(source: Source, state: FileStates) -> list[RawPairs] | None:
    """Return the parts of a data set of pairs; None if the data set is text."""
    path = Path(source.data)
    reject_index(path)
    if path.suffix.lower() == ".npy" or (path.is_dir() and (any(path.glob("*.npy")) or not is_saved(path))):
        return read_arrays(path)
    return read_lines(path) if holds_pairs(path, source.text_column) else None


@lru_cache(maxsize=4)
def _texts(source: Source, state: FileStates) -> list[RawPairs]:
    prefix, suffix = source.prefix_length or LENGTH, source.suffix_length or LENGTH
    path, column = Path(source.data), source.text_column
    return read_texts(path, prefix, suffix, source.tokenizer, column, source.stride, source.rendering)


def _splits(parts: Sequence[RawPairs]) -> dict[str, Sequence[int]]:
    if len(parts) == 1 and parts[0].split in (None, "train"):
        return split_rows(len(parts[0]))
    named = {str(part.split): range(end - len(part), end) for part, end in zip(parts, _ends(parts), strict=True)}
    return {split: named.get(split, ()) for split in SPLITS}


def _ends(parts: Sequence[RawPairs]) -> list[int]:
    return list(accumulate(map(len, parts)))


def _check_suffixes(parts: Sequence[RawPairs], split: str) -> None:
    """Raise OptionError if the requested split lacks its suffixes. Warn if ``all`` omits such a split."""
    for part in parts:
        if part.lacking is not None and part.split == split:
            raise OptionError(part.lacking)
        if part.lacking is not None and split == ALL:
            warn_once(f"split=all leaves out {part.split}: {part.lacking}")


def _pairs(parts: Sequence[RawPairs], rows: Sequence[int], source: Source) -> Iterator[Pair]:
    ends = _ends(parts)
    for row in rows:
        number = bisect_right(ends, row)
        part = parts[number]
        index = row - ends[number] + len(part)
        prefix = _long_enough(part, index, "prefix", part.prefixes[index], source.prefix_length)
        suffix = _long_enough(part, index, "suffix", part.suffixes[index], source.suffix_length)
        document, offset = (None if places is None else int(places[index]) for places in (part.documents, part.offsets))
        cut = tuple(prefix[-(source.prefix_length or 0) :])
        yield Pair(row, cut, tuple(suffix[: source.suffix_length]), document, offset)


def _long_enough(part: RawPairs, index: int, what: str, tokens: TokenIds, length: int | None) -> list[int]:
    if length is not None and length > len(tokens):
        raise OptionError(
            f"{part.describe_row(index)}: its {what} has {len(tokens)} tokens, {what}_length={length} needs more: use "
            f"{len(tokens)} or less"
        )
    return [int(token) for token in tokens]


def state_of(path: Path) -> FileStates:
    """Return the names, sizes and modification times of the files, to detect changes."""
    files = [file for pattern in ("*", "*/*") for file in path.glob(pattern)] if path.is_dir() else [path]
    if path.suffix.lower() == ".npy":
        files.append(suffix_file_of(path))
    return file_states(files)
