"""Sizes from a parquet file's footer and page headers, parsed here because pyarrow ends the process on damaged ones.

Both are structs in Thrift's compact protocol. The numbers are unverified, because a file can contain any number.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar

LARGEST = 1 << 60
"""A number of bytes larger than any file."""
_UNPACKED, _PACKED, _HEADERS, _DICTIONARY = 2, 3, (5, 7, 8), 7
_GROUPS, _CHUNKS, _COLUMN = 4, 1, 3
_PATH, _CODEC, _VALUES, _CHUNK_PACKED, _FIRST, _FIRST_DICTIONARY = 3, 4, 5, 7, 9, 11
_CODECS = ("none", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4")
_TAIL = 8
_MOST_OF_FOOTER, _MOST_OF_PAGE = 10_000_000, 1_000
_DEEPEST, _LONGEST = 12, 1 << 20
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Chunk:
    """A column of a row group: its path, codec, number of values, and its bytes in the file, which begin at
    ``start``."""

    path: str
    codec: str
    values: int
    start: int
    packed: int


@dataclass(frozen=True)
class Page:
    """A page: its compressed and uncompressed size in bytes, its number of values, and True if it is a dictionary."""

    packed: int
    unpacked: int
    values: int
    dictionary: bool


def row_groups(stream: BinaryIO) -> list[list[Chunk]]:
    """Return the column chunks of each row group of a parquet file. Raises ValueError if its footer is damaged."""
    size = stream.seek(0, io.SEEK_END)
    stream.seek(max(0, size - _TAIL))
    length = int.from_bytes(stream.read(4), "little")
    if length > size - _TAIL:
        raise ValueError("damaged footer")
    stream.seek(size - _TAIL - length)
    footer = _Reader(io.BytesIO(stream.read(length)), _MOST_OF_FOOTER).struct()
    groups = _list_of(footer, _GROUPS, dict)
    return [[_chunk(_typed(column, _COLUMN, dict)) for column in _list_of(group, _CHUNKS, dict)] for group in groups]


def _chunk(column: dict[int, Any]) -> Chunk:
    path, codec = _list_of(column, _PATH, bytes), _typed(column, _CODEC, int)
    if not 0 <= codec < len(_CODECS):
        raise ValueError("damaged footer")
    start = _typed(column, _FIRST, int)
    dictionary = _typed(column, _FIRST_DICTIONARY, int) if _FIRST_DICTIONARY in column else 0
    return Chunk(
        path=b".".join(path).decode("utf-8", "replace"),
        codec=_CODECS[codec],
        values=_typed(column, _VALUES, int),
        start=dictionary if 0 < dictionary < start else start,
        packed=_typed(column, _CHUNK_PACKED, int),
    )


def _typed(struct: dict[int, Any], number: int, kind: type[_Value]) -> _Value:
    """Return the field with this number. Raises ValueError if it has another type."""
    value = struct.get(number)
    if not isinstance(value, kind):
        raise ValueError("damaged footer")
    return value


def _list_of(struct: dict[int, Any], number: int, kind: type[_Value]) -> list[_Value]:
    """Return the field with this number. Raises ValueError if it is not a list of values of this type."""
    values = _typed(struct, number, list)
    if not all(isinstance(value, kind) for value in values):
        raise ValueError("damaged footer")
    return values


def pages(stream: BinaryIO, chunk: Chunk) -> Iterator[Page]:
    """Yield the pages of a column chunk. Raises ValueError for a damaged header."""
    position, end, left = chunk.start, chunk.start + chunk.packed, chunk.values
    while 0 <= position < min(end, LARGEST) and left > 0:
        stream.seek(position)
        page = _page(_Reader(stream, _MOST_OF_PAGE).struct())
        left -= 0 if page.dictionary else page.values
        position = stream.tell() + page.packed
        yield page


def _page(header: dict[int, Any]) -> Page:
    kind_header: dict[int, Any] = next((header[key] for key in _HEADERS if isinstance(header.get(key), dict)), {})
    numbers = [header.get(_PACKED), header.get(_UNPACKED), kind_header.get(1, 0)]
    packed, unpacked, values = (number if isinstance(number, int) else -1 for number in numbers)
    if min(packed, unpacked, values) < 0:
        raise ValueError("damaged page header")
    return Page(packed, unpacked, values, _DICTIONARY in header)


class _Reader:
    """A reader of structs. Raises ValueError for damaged structs, and if all structs hold more than ``most`` values."""

    def __init__(self, stream: BinaryIO, most: int) -> None:
        self._stream = stream
        self._left = most

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Return the fields by number, strings as bytes; None for floats, and for strings of more than 1 MiB."""
        if depth > _DEEPEST:
            raise ValueError("damaged header: too deep")
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) & 15 != _STOP:
            number = number + (head >> 4) if head >> 4 else self._integer()
            kind = head & 15
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ValueError("damaged header: too many values")
        if kind in _INTEGERS:
            return self._integer()
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind == _BINARY:
            size = self._varint()
            return self._stream.read(size) if size <= _LONGEST else self._skip(size)
        if kind in (_TRUE, _FALSE, _BYTE, _DOUBLE):
            return self._skip(8 if kind == _DOUBLE else 1)
        if kind in (_LIST, _SET) and depth < _DEEPEST:
            head = self._byte()
            count = self._varint() if head >> 4 == 15 else head >> 4
            return [self._value(head & 15, depth + 1) for _ in range(count)]
        raise ValueError("damaged header: an unknown type")

    def _skip(self, size: int) -> Any:
        if size > LARGEST:
            raise ValueError("damaged header: a number too large")
        self._stream.seek(size, io.SEEK_CUR)
        return None

    def _integer(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("damaged header: a number too large")

    def _byte(self) -> int:
        read = self._stream.read(1)
        if not read:
            raise ValueError("ends in a header")
        return read[0]
