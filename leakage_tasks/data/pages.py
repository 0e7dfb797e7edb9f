"""How large the pages of a parquet file are once unpacked, by their own headers: the file's footer may say anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

_DEEPEST = 8
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)
_UNPACKED, _PACKED, _HEADERS, _DICTIONARY = 2, 3, (5, 7, 8), 7


@dataclass(frozen=True)
class Page:
    """``packed`` and ``unpacked`` bytes, number of ``values``, and whether they are a dictionary for other pages."""

    packed: int
    unpacked: int
    values: int
    dictionary: bool


def pages(stream: BinaryIO, chunk: Any) -> Iterator[Page]:
    """The pages of a column chunk, as its metadata ``chunk`` says where they are. Raises ValueError if damaged."""
    place = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < place:
        place = chunk.dictionary_page_offset
    end, left = place + chunk.total_compressed_size, chunk.num_values
    while place < end and left > 0:
        stream.seek(place)
        page = _page(_struct(stream))
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


def _struct(stream: BinaryIO, depth: int = 0) -> dict[int, Any]:
    """The fields of a struct in Thrift's compact protocol, by number."""
    if depth > _DEEPEST:
        raise ValueError("damaged page header")
    fields: dict[int, Any] = {}
    number = 0
    while (head := _byte(stream)) & 15 != _STOP:
        number = number + (head >> 4) if head >> 4 else _integer(stream)
        kind = head & 15
        fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else _value(stream, kind, depth)
    return fields


def _value(stream: BinaryIO, kind: int, depth: int) -> Any:
    if kind in _INTEGERS:
        return _integer(stream)
    if kind == _STRUCT:
        return _struct(stream, depth + 1)
    if kind in (_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY):
        size = _varint(stream) if kind == _BINARY else 8 if kind == _DOUBLE else 1
        stream.seek(size, 1)
        return None
    if kind in (_LIST, _SET):
        head = _byte(stream)
        for _ in range(_varint(stream) if head >> 4 == 15 else head >> 4):
            _value(stream, head & 15, depth + 1)
        return None
    raise ValueError("damaged page header")


def _integer(stream: BinaryIO) -> int:
    value = _varint(stream)
    return value >> 1 ^ -(value & 1)


def _varint(stream: BinaryIO) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = _byte(stream)
        value |= (byte & 127) << shift
        if byte < 128:
            return value
    raise ValueError("damaged page header")


def _byte(stream: BinaryIO) -> int:
    read = stream.read(1)
    if not read:
        raise ValueError("ends in a page header")
    return read[0]
