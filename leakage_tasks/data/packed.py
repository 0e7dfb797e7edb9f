"""Files packed with gzip or Zstandard: read and written as streams, by what their names end with."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.log import first_line

CODECS = {".gz": "gzip", ".zst": "zstd"}
"""How a packed file's name ends, and what pyarrow calls the packing."""
BLOCK = 1 << 20


def codec_of(path: Path) -> str | None:
    """How a file is packed by its name; None where it is not."""
    return CODECS.get(path.suffix.lower())


def bare(path: Path) -> Path:
    """The name without what tells the packing."""
    return path.with_suffix("") if codec_of(path) else path


class _Unpacked(io.RawIOBase):
    """What a packed file holds, its members one after another. Raises PlantingError where it is damaged."""

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
            raise PlantingError(f"{self._path}: damaged ({first_line(error)}): pack the file anew") from None
        target[: len(content)] = content
        return len(content)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            self._file.close()
        super().close()


def open_packed(path: Path, codec: str) -> BinaryIO:
    """Open a packed file for reading what it holds. Raises OSError if it cannot be opened."""
    return cast(BinaryIO, io.BufferedReader(_Unpacked(path, codec), BLOCK))


@contextmanager
def open_output(path: Path) -> Iterator[BinaryIO]:
    """Open a new file for writing, packed as its name tells; the same bytes are packed the same way."""
    import pyarrow as pa

    codec = codec_of(path)
    with path.open("wb", BLOCK) as plain:
        if codec is None:
            yield plain
            return
        # Rows come one by one; the packer is called with a block of them.
        with pa.CompressedOutputStream(pa.PythonFile(plain, "w"), codec) as packed:
            out = io.BufferedWriter(cast(io.RawIOBase, packed), BLOCK)
            yield cast(BinaryIO, out)
            out.flush()
            out.detach()
