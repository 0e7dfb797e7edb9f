"""Building of an index: tokens are written to a file as they come, then each part is sorted on its own.

The suffix arrays are computed by libdivsufsort (Mori; package ``pydivsufsort``), which sorts bytes: tokens are given to
it with their most significant byte first, and only positions at which a token begins are kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from leakage_tasks.core.arrays import IntArray, TokenIds
from leakage_tasks.core.atomic import check_place, replacing
from leakage_tasks.core.errors import OptionError, on_command_line
from leakage_tasks.core.workers import map_tasks
from leakage_tasks.pairs.index.corpus import IndexSource, documents_of, hash_of_tokenizer, read_tokenizer_named
from leakage_tasks.pairs.index.store import (
    DOCUMENTS,
    SEPARATOR,
    TOKENS,
    About,
    CorpusIndex,
    corpus_hash,
    is_index,
    suffix_file,
    write_about,
)

PART, REACH = 1 << 25, 4096
"""Number of positions of a part, and of tokens after it that its order takes into account. Sorting a part takes about
30 bytes per token, 50 for vocabularies above 65,535."""
_BLOCK = 1 << 22
Documents = Iterable[Iterable[TokenIds]]


def build_index(
    documents: Documents, tokenizer: Any, name: str, data: str, *, part: int = PART, reach: int = REACH
) -> CorpusIndex:
    """Return an index in memory.

    Args:
        documents: The tokens of each document, in pieces.
        tokenizer: The tokenizer that made them.
        name: Its name, which the index records.
        data: Name of the corpus, for messages.
        part: Number of positions of a part.
        reach: Number of tokens after a part that its order takes into account.

    Raises:
        OptionError: The corpus has no tokens.
    """
    kind = _kind(tokenizer)
    pieces, starts = [np.zeros(0, kind)], []
    for document, length in _documents(documents, kind):
        starts.append(length)
        pieces += document
    tokens, first = np.concatenate(pieces), np.array(starts, np.int64)
    about = _about(tokens, first, tokenizer, name, data, (part, reach))
    parts = tuple(suffix_array(tokens, start, part, reach) for start in range(0, len(tokens), part))
    return CorpusIndex(about, tokens, first, parts)


def write_index(corpus: IndexSource, output: Path, jobs: int = 1, part: int = PART) -> About:
    """Write the index of a corpus to a folder, which appears complete or not at all; return the facts about it.

    Tokens go to the disk as they are read, and each part is sorted by itself, so that memory depends on the size of a
    part and on ``jobs`` only. Raises OptionError for a corpus that cannot be read and for an output that is no index.
    """
    final = check_place(output, OptionError)
    if final.exists() and not is_index(final):
        raise OptionError(f"{output}: exists and holds no index: name a new folder")
    tokenizer = read_tokenizer_named(corpus, on_command_line)
    with replacing(output) as folder:
        folder.mkdir()
        documents = documents_of(corpus, tokenizer, on_command_line)
        _write_tokens(folder, documents, _kind(tokenizer))
        tokens = np.load(folder / TOKENS, mmap_mode="r", allow_pickle=False)
        starts = np.load(folder / DOCUMENTS, allow_pickle=False)
        about = _about(tokens, starts, tokenizer, corpus.tokenizer or "", corpus.data, (part, REACH))
        sort = partial(_write_part, str(folder), part)
        map_tasks(sort, range(-(-len(tokens) // part)), jobs, units="parts")
        write_about(folder, about)
    return about


def suffix_array(tokens: TokenIds, start: int, part: int, reach: int) -> TokenIds:
    """Return the positions of the tokens of one part, relative to its ``start``, in the order of the text after them.

    Positions of separators are left out. The text ends ``reach`` tokens after the part.
    """
    # Loaded late, because only indexes need it.
    from pydivsufsort import divsufsort

    text = tokens[start : start + part + reach]
    width = text.dtype.itemsize
    order = divsufsort(text.astype(text.dtype.newbyteorder(">")).view(np.uint8))
    order = order[order % width == 0]
    order //= width
    order = order[order < part]
    return order[text[order] != SEPARATOR].astype(np.uint32)


def _write_part(folder: str, part: int, number: int) -> None:
    tokens = np.load(Path(folder) / TOKENS, mmap_mode="r", allow_pickle=False)
    np.save(Path(folder) / suffix_file(number), suffix_array(tokens, number * part, part, REACH))


def _kind(tokenizer: Any) -> Any:
    """Return the smallest type for token ids plus 1."""
    return np.uint16 if len(tokenizer) < np.iinfo(np.uint16).max else np.uint32


def _documents(documents: Documents, kind: Any) -> Iterable[tuple[list[TokenIds], int]]:
    """Yield the values of each document that has tokens, with its separator, and the position of its first token."""
    position = 0
    for pieces in documents:
        values = [piece.astype(kind) + kind(1) for piece in pieces if len(piece)]
        if values:
            yield [*values, np.array([SEPARATOR], kind)], position
            position += sum(map(len, values)) + 1


def _write_tokens(folder: Path, documents: Documents, kind: Any) -> None:
    """Write the tokens to a plain file as they come, and copy it to ``tokens.npy``, whose header needs their number."""
    raw, starts = folder / "tokens.raw", []
    with raw.open("wb") as file:
        for pieces, start in _documents(documents, kind):
            starts.append(start)
            for piece in pieces:
                piece.tofile(file)
    number = raw.stat().st_size // np.dtype(kind).itemsize
    if number:
        held = np.lib.format.open_memmap(folder / TOKENS, mode="w+", dtype=kind, shape=(number,))
        values = np.memmap(raw, dtype=kind, mode="r")
        for first in range(0, number, _BLOCK):
            held[first : first + _BLOCK] = values[first : first + _BLOCK]
        held.flush()
        del held, values
    else:
        np.save(folder / TOKENS, np.zeros(0, kind))
    raw.unlink()
    np.save(folder / DOCUMENTS, np.array(starts, np.int64))


def _about(tokens: TokenIds, starts: IntArray, tokenizer: Any, name: str, data: str, cut: tuple[int, int]) -> About:
    if not len(starts):
        raise OptionError(f"{data}: holds no text: give a corpus with text")
    return About(
        corpus=corpus_hash(tokens, starts),
        tokenizer=hash_of_tokenizer(tokenizer),
        tokenizer_name=name,
        vocabulary=len(tokenizer),
        tokens=len(tokens) - len(starts),
        documents=len(starts),
        part=cut[0],
        reach=cut[1],
    )
