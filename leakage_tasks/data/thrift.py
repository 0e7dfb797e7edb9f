"""Structs in Thrift's compact protocol, in which parquet keeps its footer and the headers of its pages."""

from __future__ import annotations

from typing import Any, BinaryIO

LARGEST = 1 << 60
"""No file is of so many bytes."""
_DEEPEST, _LONGEST = 12, 1 << 20
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)


def read_struct(stream: BinaryIO, most: int) -> dict[int, Any]:
    """The fields of a struct by number, strings as bytes; None for floats, and for strings of more than 1 MiB.

    Raises ValueError if it is damaged or holds more than ``most`` values.
    """
    return _Reader(stream, most).struct()


class _Reader:
    def __init__(self, stream: BinaryIO, most: int) -> None:
        self._stream = stream
        self._left = most

    def struct(self, depth: int = 0) -> dict[int, Any]:
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
            return self._string(self._varint())
        if kind in (_TRUE, _FALSE, _BYTE, _DOUBLE):
            self._skip(8 if kind == _DOUBLE else 1)
            return None
        if kind in (_LIST, _SET) and depth < _DEEPEST:
            head = self._byte()
            count = self._varint() if head >> 4 == 15 else head >> 4
            return [self._value(head & 15, depth + 1) for _ in range(count)]
        raise ValueError("damaged header: a type that is none")

    def _string(self, size: int) -> bytes | None:
        if size <= _LONGEST:
            return self._stream.read(size)
        self._skip(size)
        return None

    def _skip(self, size: int) -> None:
        if size > LARGEST:
            raise ValueError("damaged header: a number too large")
        self._stream.seek(size, 1)

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
