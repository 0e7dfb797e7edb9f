"""What a parquet file says of itself in its footer and page headers, read here since pyarrow ends the process on some.

Numbers are as the file gives them: it may say anything.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from leakage_tasks.data.thrift import LARGEST, read_struct

_UNPACKED, _PACKED, _HEADERS, _DICTIONARY = 2, 3, (5, 7, 8), 7
_GROUPS, _CHUNKS, _COLUMN = 4, 1, 3
_PATH, _CODEC, _VALUES, _CHUNK_PACKED, _FIRST, _FIRST_DICTIONARY = 3, 4, 5, 7, 9, 11
_CODECS = ("none", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4")
_TAIL = 8
_MOST_OF_FOOTER, _MOST_OF_PAGE = 10_000_000, 1_000


@dataclass(frozen=True)
class Chunk:
    """One column of a row group: its path, codec, number of values, and the bytes it takes from ``start`` on."""

    path: str
    codec: str
    values: int
    start: int
    packed: int


@dataclass(frozen=True)
class Page:
    """``packed`` and ``unpacked`` bytes, number of ``values``, and whether they are a dictionary for other pages."""

    packed: int
    unpacked: int
    values: int
    dictionary: bool


def row_groups(stream: BinaryIO) -> list[list[Chunk]]:
    """The columns of each row group of a parquet file. Raises ValueError if its footer is damaged."""
    size = stream.seek(0, io.SEEK_END)
    stream.seek(max(0, size - _TAIL))
    length = int.from_bytes(stream.read(4), "little")
    if length > size - _TAIL:
        raise ValueError("damaged footer")
    stream.seek(size - _TAIL - length)
    footer = read_struct(io.BytesIO(stream.read(length)), _MOST_OF_FOOTER)
    return [[_chunk(each) for each in _structs(group, _CHUNKS)] for group in _structs(footer, _GROUPS)]


def _structs(within: dict[int, Any], number: int) -> list[dict[int, Any]]:
    found = within.get(number)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError("damaged footer")
    return found


def _chunk(told: dict[int, Any]) -> Chunk:
    column = told.get(_COLUMN)
    if not isinstance(column, dict):
        raise ValueError("damaged footer")
    path, codec = column.get(_PATH), _integer(column, _CODEC)
    if not isinstance(path, list) or not all(isinstance(each, bytes) for each in path):
        raise ValueError("damaged footer")
    if not 0 <= codec < len(_CODECS):
        raise ValueError("damaged footer")
    start = _integer(column, _FIRST)
    dictionary = _integer(column, _FIRST_DICTIONARY) if _FIRST_DICTIONARY in column else 0
    return Chunk(
        path=b".".join(path).decode("utf-8", "replace"),
        codec=_CODECS[codec],
        values=_integer(column, _VALUES),
        start=dictionary if 0 < dictionary < start else start,
        packed=_integer(column, _CHUNK_PACKED),
    )


def _integer(told: dict[int, Any], number: int) -> int:
    value = told.get(number)
    if not isinstance(value, int):
        raise ValueError("damaged footer")
    return value


def pages(stream: BinaryIO, chunk: Chunk) -> Iterator[Page]:
    """The pages of a column chunk. Raises ValueError if damaged."""
    place, end, left = chunk.start, chunk.start + chunk.packed, chunk.values
    while 0 <= place < min(end, LARGEST) and left > 0:
        stream.seek(place)
        page = _page(read_struct(stream, _MOST_OF_PAGE))
        left -= 0 if page.dictionary else page.values
        place = stream.tell() + page.packed
        yield page


def _page(header: dict[int, Any]) -> Page:
    of_kind: dict[int, Any] = next((header[key] for key in _HEADERS if isinstance(header.get(key), dict)), {})
    found = [header.get(_PACKED), header.get(_UNPACKED), of_kind.get(1, 0)]
    packed, unpacked, values = (each if isinstance(each, int) else -1 for each in found)
    if min(packed, unpacked, values) < 0:
        raise ValueError("damaged page header")
    return Page(packed, unpacked, values, _DICTIONARY in header)
