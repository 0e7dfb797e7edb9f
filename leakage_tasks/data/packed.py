"""Files compressed with gzip or Zstandard, read and written as streams; a name's suffix selects the compression."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.log import first_line

CODECS = {".gz": "gzip", ".zst": "zstd"}
"""Suffixes of compressed files, and pyarrow's names of the compression."""
BLOCK = 1 << 20


def codec_of(path: Path) -> str | None:
    """Return the compression that a name's suffix selects, or None."""
    return CODECS.get(path.suffix.lower())


def bare(path: Path) -> Path:
    """Return the path without the suffix of the compression."""
    return path.with_suffix("") if codec_of(path) else path


class _Unpacked(io.RawIOBase):
    """The decompressed content of a file, all its members in order. Raises PlantingError if the file is damaged."""

    def __init__(self, path: Path, codec: str) -> None:
        import pyarrow as pa

        self._path = path
        self._file = pa.OSFile(str(path))
        self._stream = pa.CompressedInputStream(self._file, codec)

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        try:
            content = self._stream.read(len(target))
        except OSError as error:
            raise PlantingError(f"{self._path}: damaged ({first_line(error)}): compress the file again") from None
        target[: len(content)] = content
        return len(content)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            self._file.close()
        super().close()


def open_packed(path: Path, codec: str) -> BinaryIO:
    """Open a compressed file for reading its decompressed content. Raises OSError if it cannot be opened."""
    return cast(BinaryIO, io.BufferedReader(_Unpacked(path, codec), BLOCK))


@contextmanager
def open_output(path: Path) -> Iterator[BinaryIO]:
    """Open a new file for writing, compressed according to its suffix; equal content gives equal bytes."""
    import pyarrow as pa

    codec = codec_of(path)
    with path.open("wb", BLOCK) as plain:
        if codec is None:
            yield plain
            return
        # Rows are written one by one; the buffer passes them to the compressor in blocks.
        with pa.CompressedOutputStream(pa.PythonFile(plain, "w"), codec) as packed:
            out = io.BufferedWriter(cast(io.RawIOBase, packed), BLOCK)
            yield cast(BinaryIO, out)
            out.flush()
            out.detach()
