"""A folder of JSON records that a run appends while it works, so that a killed run can be resumed.

Each process has a file of its own with one JSON object per line, and syncs each line to disk before it makes the next
record. A process writes only to its own file, so a torn line of a killed process is always the last line of that file.
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

from leakage_tasks.core.atomic import failure_of, sync_folder, write_text
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.inputs import parse_json, read_bytes
from leakage_tasks.core.output_folder import MARKER
from leakage_tasks.core.signal_cleanup import PREFIX

FORMAT = "1"
COMMAND = "lm_eval --metadata resume"
"""First line of the folder's marker file; the second line is the format."""
FILES = "findings-*.jsonl"
_OWNER, _FILE_MODE = 0o700, 0o600
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL)

Record = dict[str, Any]


class Journal:
    """This process's file of records in a folder; it is created with the first record."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: int | None = None
        self._name = folder
        self._lock = threading.Lock()

    def append(self, record: Mapping[str, Any]) -> None:
        """Append a record and sync it to disk. Raises LeakageError and leaves the file as it was before."""
        line = json.dumps(record, allow_nan=False).encode() + b"\n"
        with self._lock:
            try:
                self._write(line)
            except OSError as error:
                # The journal's file is the cause, even if the system's error names another path.
                problem = failure_of(OSError(error.errno, error.strerror), self._name, self.folder)
                raise LeakageError(f"{problem}, then run again: earlier records are kept") from None

    def _write(self, line: bytes) -> None:
        if self._file is None:
            self._file = self._new_file()
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

    def _new_file(self) -> int:
        """Create a new file and lock it while it is open, so that no other process removes it."""
        while True:
            self._name = self.folder / f"findings-{time.time_ns()}-{os.getpid()}-{secrets.token_hex(4)}.jsonl"
            file = os.open(self._name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, _FILE_MODE)
            _locked(file)
            if os.fstat(file).st_nlink:
                break
            os.close(file)
        sync_folder(self.folder)
        return file


def open_journal(folder: Path) -> Journal:
    """Create a folder for records, or open an existing one.

    Raises LeakageError if the folder holds other files, has another format or owner, or cannot be created.
    """
    try:
        folder.mkdir(_OWNER, parents=True, exist_ok=True)
        if _is_new(folder):
            write_text(folder / MARKER, f"{COMMAND}\n{FORMAT}\n")
    except OSError as error:
        raise LeakageError(f"resume={folder}: cannot be used ({error.strerror}): choose another folder") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise LeakageError(f"resume={folder}: no permission to write there: choose another folder")
    return Journal(folder)


def check_folder(folder: Path) -> None:
    """Raise LeakageError unless ``folder`` is a journal of this user in this format."""
    try:
        new = not folder.is_dir() or _is_new(folder)
    except OSError as error:
        raise LeakageError(f"{folder}: cannot be read ({error.strerror}): check the path") from None
    if new:
        raise LeakageError(f"{folder}: not a folder that '{COMMAND}=DIR' wrote: check the path")


def _is_new(folder: Path) -> bool:
    """Return True if a folder is empty. Raises OSError, and LeakageError for a folder that is not a journal of this
    user."""
    if folder.stat().st_uid != os.geteuid():
        raise LeakageError(f"resume={folder}: belongs to another user, whose records are not taken: choose your own")
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith(PREFIX))
    if MARKER not in names:
        if names:
            raise LeakageError(
                f"resume={folder}: holds {names[0]!r}, and no sign that '{COMMAND}' wrote it: choose a new or empty "
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
class JournalFile:
    """The records of one file in order, and the number of lines that are torn by a kill or damaged."""

    file: Path
    records: list[Record]
    torn: int


def journal_files(folder: Path) -> Iterator[JournalFile]:
    """Return the content of each file of a journal, oldest first. Raises LeakageError if a file is unreadable."""
    for file in sorted(folder.glob(FILES)):
        try:
            journal_file = _read(file)
        except FileNotFoundError:
            # Another process pruned it after it was listed.
            continue
        except OSError as error:
            raise LeakageError(f"{file}: cannot be read ({error.strerror}): check its permissions") from None
        yield journal_file


def _read(file: Path) -> JournalFile:
    *lines, rest = read_bytes(file).split(b"\n")
    # A last line without a line end is torn, even if it can be parsed.
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
    return JournalFile(file, records, torn)


@dataclass(frozen=True)
class Pruned:
    """Numbers of removed records and torn lines, and of files that were skipped because a run writes to them."""

    records: int
    torn: int
    busy: int


def prune(folder: Path, wanted: Callable[[Record], bool]) -> Pruned:
    """Remove torn lines and all records that are not ``wanted``, atomically per file, and delete files that become
    empty."""
    gone = torn = busy = 0
    for file in sorted(folder.glob(FILES)):
        descriptor = os.open(file, os.O_RDWR | os.O_NOFOLLOW)
        try:
            if not _locked(descriptor, wait=False):
                busy += 1
                continue
            journal_file = _read(file)
            left = [record for record in journal_file.records if wanted(record)]
            gone, torn = gone + len(journal_file.records) - len(left), torn + journal_file.torn
            if not left:
                file.unlink()
            elif journal_file.torn or len(left) < len(journal_file.records):
                write_text(file, "".join(json.dumps(record) + "\n" for record in left), private=True)
        finally:
            os.close(descriptor)
    return Pruned(gone, torn, busy)


def _locked(file: int, wait: bool = True) -> bool:
    """Lock an open file until it is closed; return False if another process holds the lock. Disks without locks count
    as locked."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True
