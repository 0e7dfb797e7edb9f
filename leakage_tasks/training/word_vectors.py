"""Word vectors from text files: FastText's ``.vec`` and GloVe's ``.txt``, optionally compressed with gzip."""

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
    """Vectors of ``size`` numbers by word, for the requested words that the file contains."""

    size: int
    vectors: dict[str, Vector]


def read_word_vectors(path: str | Path, words: Collection[str]) -> WordVectors:
    """Read the vectors of ``words`` from a file, one line at a time. Words that it does not contain are left out.

    A line is a word and its numbers, separated by single spaces. A word may contain spaces: the last fields of a line
    are its numbers. FastText's files have a first line with two integers, the number of words and the size of a vector.
    GloVe's files have no such line; the first line determines the size. A word is looked up in its own spelling, then
    in lower case. If two lines have one word, the first counts. Only lines of ``words`` are converted to numbers.

    Raises OptionError, with file and line, for too few fields, invalid numbers, invalid UTF-8, a file that ends before
    the number of words in its first line, and a file that cannot be read.
    """
    wanted = {form.encode() for word in words for form in (word, word.lower())}
    vectors: dict[bytes, Vector] = {}
    try:
        with gzip.open(path) if Path(path).suffix == ".gz" else Path(path).open("rb") as lines:
            size = _collect(str(path), lines, wanted, vectors)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise OptionError(f"{path}: cannot read word vectors ({reason}): check the path and the file") from None
    forms = ((word, vectors.get(word.encode(), vectors.get(word.lower().encode()))) for word in words)
    return WordVectors(size, {word: vector for word, vector in forms if vector is not None})


def _collect(path: str, lines: BufferedIOBase, wanted: Collection[bytes], vectors: dict[bytes, Vector]) -> int:
    """Add the vectors of ``wanted`` to ``vectors``. Return their size."""
    first = lines.readline()
    promised = _header(first.split())
    size = len(first.split()) - 1 if promised is None else promised[1]
    if size < 1:
        raise OptionError(f"{path}:1: contains no vector: expected a word and its numbers, separated by spaces")
    read = 0
    for number, line in enumerate(lines if promised else chain([first], lines), 2 if promised else 1):
        if not line.strip():
            continue
        location = f"{path}:{number}"
        word, numbers = _split(line.rstrip(b" \r\n"), size, location)
        read += 1
        if word in wanted and word not in vectors:
            vectors[word] = _vector(numbers, location)
    if promised and read < promised[0]:
        raise OptionError(
            f"{path}: ends after {read:,} of the {promised[0]:,} words that its first line states: download the whole "
            "file, or correct the first line"
        )
    return size


def _header(fields: list[bytes]) -> tuple[int, int] | None:
    """Return the number of words and the size of a vector if the first line states them; otherwise None."""
    if len(fields) == 2 and all(field.isdigit() and len(field) < 10 for field in fields):
        return int(fields[0]), int(fields[1])
    return None


def _split(line: bytes, size: int, location: str) -> tuple[bytes, bytes]:
    """Split a line into its word and the text of its numbers. The numbers are not parsed: most lines are not needed."""
    fields = line.count(b" ") + 1
    if fields <= size:
        raise OptionError(f"{location}: {fields} fields: expected a word and {size} numbers; correct the line")
    end = -1
    for _ in range(fields - size):
        end = line.index(b" ", end + 1)
    try:
        line[:end].decode()
    except UnicodeDecodeError:
        raise OptionError(f"{location}: the word is not UTF-8: save the file as UTF-8") from None
    return line[:end], line[end + 1 :]


def _vector(numbers: bytes, location: str) -> Vector:
    try:
        vector = np.array(numbers.split(b" "), dtype=np.float32)
    except ValueError:
        vector = np.array([np.nan], dtype=np.float32)
    if not np.isfinite(vector).all():
        raise OptionError(f"{location}: contains a value that is not a finite number: correct the line")
    return vector
