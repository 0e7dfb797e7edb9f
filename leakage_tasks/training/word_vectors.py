"""Word vectors from text files: FastText's ``.vec`` and GloVe's ``.txt``, gzipped or not."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leakage_tasks.core.errors import OptionError

Vector = NDArray[np.float32]


@dataclass(frozen=True)
class WordVectors:
    """The vectors a file has for the words asked for, each of ``size`` numbers."""

    size: int
    vectors: dict[str, Vector]


def read_word_vectors(path: str | Path, words: Collection[str]) -> WordVectors:
    """The vectors of ``words``, of those that ``path`` has, by the word as it was asked for.

    A line is a word and its numbers, with one space between. A first line of two whole numbers, words and numbers a
    word, is FastText's; without it, as GloVe has it, the first line tells how many numbers a word has. A word may hold
    spaces: the last fields of a line are its numbers. A word is looked up as it is written, then in lower case; of two
    lines for one word the first counts. The file is read once, a line at a time, and only the lines of ``words`` are
    turned into numbers. Raises OptionError naming file and line for too few fields, what is no number or no UTF-8, a
    file that ends before all the words its first line promises, and one that cannot be read.
    """
    wanted = {form.encode() for word in words for form in (word, word.lower())}
    found: dict[bytes, Vector] = {}
    try:
        with gzip.open(path) if Path(path).suffix == ".gz" else Path(path).open("rb") as lines:
            size = _collect(str(path), lines, wanted, found)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise OptionError(f"{path}: cannot read word vectors ({reason}): check the path and the file") from None
    forms = ((word, found.get(word.encode(), found.get(word.lower().encode()))) for word in words)
    return WordVectors(size, {word: vector for word, vector in forms if vector is not None})


def _collect(path: str, lines: BufferedIOBase, wanted: Collection[bytes], found: dict[bytes, Vector]) -> int:
    """Put the vectors of ``wanted`` into ``found``; how many numbers each has."""
    first = lines.readline()
    promised = _header(first.split())
    size = len(first.split()) - 1 if promised is None else promised[1]
    if size < 1:
        raise OptionError(f"{path}:1: holds no vector: expected a word and its numbers, with spaces between")
    read = 0
    for number, line in enumerate(lines if promised else chain([first], lines), 2 if promised else 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        word, numbers = _split(line.rstrip(b" \r\n"), size, where)
        read += 1
        if word in wanted and word not in found:
            found[word] = _vector(numbers, where)
    if promised and read < promised[0]:
        raise OptionError(
            f"{path}: ends after {read:,} of the {promised[0]:,} words its first line promises: fetch the whole file, "
            "or correct that line"
        )
    return size


def _header(fields: list[bytes]) -> tuple[int, int] | None:
    """Words and numbers a word, where the first line says so."""
    if len(fields) == 2 and all(field.isdigit() and len(field) < 10 for field in fields):
        return int(fields[0]), int(fields[1])
    return None


def _split(line: bytes, size: int, where: str) -> tuple[bytes, bytes]:
    """The word of a line and the text of its numbers, which are not taken apart: most lines are of no use."""
    fields = line.count(b" ") + 1
    if fields <= size:
        raise OptionError(f"{where}: {fields} fields: expected a word and {size} numbers; correct the line")
    end = -1
    for _ in range(fields - size):
        end = line.index(b" ", end + 1)
    try:
        line[:end].decode()
    except UnicodeDecodeError:
        raise OptionError(f"{where}: the word is not UTF-8: save the file as UTF-8") from None
    return line[:end], line[end + 1 :]


def _vector(numbers: bytes, where: str) -> Vector:
    try:
        vector = np.array(numbers.split(b" "), dtype=np.float32)
    except ValueError:
        vector = np.array([np.nan], dtype=np.float32)
    if not np.isfinite(vector).all():
        raise OptionError(f"{where}: holds what is no finite number: correct the line")
    return vector
