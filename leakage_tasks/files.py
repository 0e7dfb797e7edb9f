"""Writing files whole or not at all, and at no moment for more eyes than the finished file is for."""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import shutil
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from leakage_tasks.errors import LeakageError

PREFIX, SUFFIX = ".leakage-", ".part"
"""What the name of a folder begins and ends with in which something is being written."""
ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that end a process, and would by themselves leave what it was writing behind."""
_OWNER, _FILE_MODE = 0o700, 0o600
_EXCHANGE, _HERE = 2, -100


@contextmanager
def replacing(path: str | Path, *, like: Path | None = None, private: bool = False) -> Iterator[Path]:
    """Give a path to write a file or folder to; on success it is synced to disk and takes ``path``'s place.

    It is written in a folder of its own beside ``path``, new, of an unpredictable name and open to its owner alone. It
    then has the rights, owner and group of ``like``, by default of what it replaces; ``private`` ones are for their
    owner alone. A link stays, and what it leads to is replaced.

    On an error, Ctrl-C, SIGTERM and SIGHUP nothing is left behind and ``path`` is as it was; a folder takes an older
    folder's place. Raises LeakageError if the place cannot be written to.
    """
    final = check_place(path)
    try:
        with _ended_in_order(), _workshop(final.parent) as workshop:
            beside = workshop / final.name
            yield beside
            _give_rights(beside, like if like is not None else final, private)
            _sync(beside)
            _take_place(beside, final)
            _sync_folder(final.parent)
    except OSError as error:
        raise LeakageError(f"{path}: cannot be written ({error.strerror or error}): choose another place") from None
    except Exception as error:
        # Libraries that write from other languages raise errors of their own.
        if isinstance(error, LeakageError) or os.strerror(errno.ENOSPC) not in str(error):
            raise
        raise LeakageError(f"{path}: cannot be written ({os.strerror(errno.ENOSPC)}): make room for it") from None


def check_place(path: str | Path) -> Path:
    """What :func:`replacing` would write: ``path``, or where a link of that name leads.

    Raises LeakageError for a path that it cannot write to, as far as can be told beforehand.
    """
    try:
        if b"\0" in os.fsencode(path):
            raise ValueError("a NUL in it")
        final = Path(path)
        final = final.resolve() if final.is_symlink() else final
        there = final.exists()
    except (OSError, RuntimeError, ValueError):
        raise LeakageError(f"{str(path)!r}: cannot be written (no such place can be): choose another place") from None
    if not final.name or (final.is_dir() and Path.cwd().is_relative_to(final.resolve())):
        raise LeakageError(f"{str(path)!r}: cannot be written (the current folder, or one above): choose another place")
    if not final.parent.is_dir():
        raise LeakageError(f"{path}: cannot be written (no folder {str(final.parent)!r}): make it first")
    if not os.access(final.parent, os.W_OK):
        raise LeakageError(f"{path}: cannot be written (no right to write there): choose another place")
    if there and not (final.is_file() or final.is_dir()):
        # Renaming onto a device such as /dev/null would take the device away from everyone.
        raise LeakageError(f"{path}: cannot be written (neither a file nor a folder): choose another place")
    return final


def leftovers(folder: Path, deep: int = 3) -> Iterator[Path]:
    """What killed runs left in a folder, or so many levels below it."""
    with suppress(OSError):
        for each in sorted(folder.iterdir()):
            if each.is_symlink() or not each.is_dir():
                continue
            if each.name.startswith(PREFIX) and each.name.endswith(SUFFIX):
                yield each
            elif deep:
                yield from leftovers(each, deep - 1)


@contextmanager
def _workshop(parent: Path) -> Iterator[Path]:
    """A new folder that nobody else can look into, removed at the end with all that is in it."""
    place = parent / f"{PREFIX}{secrets.token_hex(8)}{SUFFIX}"
    place.mkdir(_OWNER)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Let signals that end the process be met like Ctrl-C, and end it by them once all is cleared away."""
    usual = [each for each in ENDING if _is_main_thread() and signal.getsignal(each) is signal.SIG_DFL]
    received: list[int] = []

    def end(number: int, frame: Any) -> None:
        received.append(number)
        for each in usual:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    for each in usual:
        signal.signal(each, end)
    try:
        yield
    finally:
        for each in usual:
            signal.signal(each, signal.SIG_DFL)
        if received:
            os.kill(os.getpid(), received[0])


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _give_rights(beside: Path, like: Path, private: bool) -> None:
    """Make what was written as open as ``like``, where that is there and of its kind; ``private`` for its owner."""
    if private:
        for each in (beside, *(beside.rglob("*") if beside.is_dir() else ())):
            each.chmod(_OWNER if each.is_dir() else _FILE_MODE)
        return
    try:
        known = like.stat()
    except OSError:
        return
    if stat.S_ISDIR(known.st_mode) != beside.is_dir():
        return
    mode = stat.S_IMODE(known.st_mode)
    if beside.is_dir():
        mode |= _OWNER
    own = beside.stat()
    try:
        os.chown(beside, known.st_uid if os.geteuid() == 0 else -1, known.st_gid)
    except OSError:
        # Rights of a group that it cannot be given to would be another group's.
        mode &= ~stat.S_IRWXG if own.st_gid != known.st_gid else mode
    beside.chmod(mode)


def _sync(path: Path) -> None:
    """Have the disk hold a file, or all of a folder."""
    if path.is_dir():
        for each in path.iterdir():
            _sync(each)
        _sync_folder(path)
    elif path.is_file():
        with path.open("rb") as file:
            os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    # Not every file system syncs folders.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _take_place(beside: Path, final: Path) -> None:
    if not (beside.is_dir() and final.is_dir()):
        os.replace(beside, final)
    elif not _exchanged(beside, final):
        older = beside.with_name("older")
        os.replace(final, older)
        try:
            os.replace(beside, final)
        except BaseException:
            os.replace(older, final)
            raise


def _exchanged(one: Path, other: Path) -> bool:
    """Whether the two could change places at once, so that there is no moment without either."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    return rename is not None and rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0
