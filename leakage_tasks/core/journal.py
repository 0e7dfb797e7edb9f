"""A folder of records that a run appends to as it makes them, so that one that was killed can be taken up again.

Every process has a file of its own, a JSON object a line, each line on the disk before the next is made. A process
writes to no file but its own, so that what a killed one left at the end of its file stays the last line there.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakage_tasks.core.atomic import failure_of, write_text
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.inputs import parse_json, read_bytes
from leakage_tasks.core.own_folder import MARKER
from leakage_tasks.core.signal_cleanup import PREFIX

FORMAT = "1"
COMMAND = "lm_eval --metadata resume"
"""What the marker of such a folder says, in its first line; the format is its second."""
FILES = "findings-*.jsonl"
_OWNER, _FILE_MODE = 0o700, 0o600
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL)

Record = dict[str, Any]


class Journal:
    """What this process appends to a folder; its file is made with the first record."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: int | None = None
        self._name = folder
        self._turn = threading.Lock()

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record and have the disk hold it. Raises LeakageError, with the file as it was before."""
        line = json.dumps(record, allow_nan=False).encode() + b"\n"
        with self._turn:
            try:
                self._write(line)
            except OSError as error:
                # What is wrong is the file, whatever the system's error names.
                problem = failure_of(OSError(error.errno, error.strerror), self._name, self.folder)
                raise LeakageError(f"{problem}, then run again: what was found before is kept") from None

    def _write(self, line: bytes) -> None:
        if self._file is None:
            self._file = self._made()
            weakref.finalize(self, os.close, self._file)
        before = os.fstat(self._file).st_size
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
        except BaseException:
            with suppress(OSError):
                os.ftruncate(self._file, before)
            raise

    def _made(self) -> int:
        """A new file, locked as long as it is open, which keeps others from taking it away."""
        while True:
            self._name = self.folder / f"findings-{time.time_ns()}-{os.getpid()}-{secrets.token_hex(4)}.jsonl"
            file = os.open(self._name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, _FILE_MODE)
            _locked(file)
            if os.fstat(file).st_nlink:
                break
            os.close(file)
        with suppress(OSError):
            folder = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        return file


def open_journal(folder: Path) -> Journal:
    """Make a folder for records, or take one that was made for them.

    Raises LeakageError for one that holds anything else, that is of another format or user, and that cannot be made.
    """
    try:
        folder.mkdir(_OWNER, parents=True, exist_ok=True)
        if _is_new(folder):
            write_text(folder / MARKER, f"{COMMAND}\n{FORMAT}\n")
    except OSError as error:
        raise LeakageError(f"resume={folder}: cannot be used ({error.strerror}): choose another folder") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise LeakageError(f"resume={folder}: no right to write there: choose another folder")
    return Journal(folder)


def check_folder(folder: Path) -> None:
    """Raise LeakageError unless a folder was made for records, by this user and in this format."""
    try:
        new = not folder.is_dir() or _is_new(folder)
    except OSError as error:
        raise LeakageError(f"{folder}: cannot be read ({error.strerror}): check the path") from None
    if new:
        raise LeakageError(f"{folder}: no folder that '{COMMAND}=DIR' wrote: check the path")


def _is_new(folder: Path) -> bool:
    """Whether a folder is empty. Raises LeakageError for one that is not ours, and OSError."""
    if folder.stat().st_uid != os.geteuid():
        raise LeakageError(f"resume={folder}: belongs to another user, whose records are not taken: choose your own")
    there = sorted(path.name for path in folder.iterdir() if not path.name.startswith(PREFIX))
    if MARKER not in there:
        if there:
            raise LeakageError(
                f"resume={folder}: holds {there[0]!r}, and no sign that '{COMMAND}' wrote it: choose a new or empty "
                "folder"
            )
        return True
    command, _, version = read_bytes(folder / MARKER).decode("utf-8", "replace").strip().partition("\n")
    if command != COMMAND:
        raise LeakageError(f"resume={folder}: was written by '{command}': choose a new or empty folder")
    if version != FORMAT:
        raise LeakageError(
            f"resume={folder}: is of format {version or 'unknown'}, this version reads {FORMAT}: choose a new folder, "
            "or use the version that wrote it"
        )
    return False


@dataclass(frozen=True)
class Kept:
    """The records of one file in their order, and how many of its lines are none: torn by a kill, or damaged."""

    file: Path
    records: list[Record]
    torn: int


def kept(folder: Path) -> Iterator[Kept]:
    """What the files of a folder hold, the oldest first. Raises LeakageError for one that cannot be read."""
    for file in sorted(folder.glob(FILES)):
        try:
            found = _read(file)
        except FileNotFoundError:
            # Taken away by a prune since it was listed.
            continue
        except OSError as error:
            raise LeakageError(f"{file}: cannot be read ({error.strerror}): check its rights") from None
        yield found


def _read(file: Path) -> Kept:
    *lines, rest = read_bytes(file).split(b"\n")
    # A last line without its end is torn, even where what there is of it can be read.
    records, torn = [], int(bool(rest))
    for line in lines:
        try:
            record = parse_json(line)
        except ValueError:
            record = None
        if isinstance(record, dict):
            records.append(record)
        else:
            torn += 1
    return Kept(file, records, torn)


@dataclass(frozen=True)
class Pruned:
    """How many records and torn lines were taken away, and how many files left alone as a run writes to them."""

    records: int
    torn: int
    busy: int


def prune(folder: Path, wanted: Callable[[Record], bool]) -> Pruned:
    """Take away torn lines and all records but those ``wanted``, whole or not at all, and files left empty."""
    gone = torn = busy = 0
    for file in sorted(folder.glob(FILES)):
        held = os.open(file, os.O_RDWR | os.O_NOFOLLOW)
        try:
            if not _locked(held, wait=False):
                busy += 1
                continue
            found = _read(file)
            left = [record for record in found.records if wanted(record)]
            gone, torn = gone + len(found.records) - len(left), torn + found.torn
            if not left:
                file.unlink()
            elif found.torn or len(left) < len(found.records):
                write_text(file, "".join(json.dumps(record) + "\n" for record in left), private=True)
        finally:
            os.close(held)
    return Pruned(gone, torn, busy)


def _locked(file: int, wait: bool = True) -> bool:
    """Lock an open file until it is closed; True where it is locked, or the disk knows no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True
