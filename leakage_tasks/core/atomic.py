"""Writing files whole or not at all, and at no moment for more eyes than the finished file is for."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.permissions import give_rights
from leakage_tasks.core.signal_cleanup import PREFIX, SUFFIX, ended_in_order, workshop

_EXCHANGE, _HERE = 2, -100
_OF_TOOLS = (".git", ".venv", "node_modules")
_ROOM = "make room for it"
_REMEDIES = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EFBIG: "raise the limit (ulimit -f)",
    errno.EROFS: "choose another place",
    errno.EIO: "choose another disk",
}
"""What keeps a disk from taking what is written, and what helps."""


@contextmanager
def replacing(path: str | Path, *, like: Path | None = None, private: bool = False) -> Iterator[Path]:
    """Give a path to write a file or folder to; on success it is synced to disk and takes ``path``'s place.

    It is written in a folder of its own beside ``path``, new, of an unpredictable name and open to its owner alone. It
    then has the rights, owner and group of ``like``, without such a thing of what it replaces (a folder's files those
    of the files there); ``private`` ones are for their owner alone. A link stays, and what it leads to is replaced.

    On an error, Ctrl-C, SIGTERM and SIGHUP nothing is left behind and ``path`` is as it was; a folder takes an older
    folder's place. Raises LeakageError if the place cannot be written to.
    """
    final = check_place(path)
    try:
        with ended_in_order(), workshop(final.parent) as folder:
            beside = folder / final.name
            yield beside
            give_rights(beside, like if like is not None and like.exists() else final, private)
            _sync(beside)
            _take_place(beside, final)
            _sync_folder(final.parent)
    except LeakageError:
        raise
    except Exception as error:
        message = failure_of(error, path, final.parent)
        if message is None:
            raise
        raise LeakageError(message) from None


def write_text(path: str | Path, text: str, *, private: bool = False, errors: str = "strict") -> None:
    """Write a file in UTF-8 as :func:`replacing` does; what has no form in it raises, or goes by ``errors``."""
    with replacing(path, private=private) as beside:
        beside.write_text(text, encoding="utf-8", errors=errors, newline="")


def failure_of(error: Exception, path: str | Path, folder: Path) -> str | None:
    """One line for what went wrong where files are written; None for what has nothing to do with that.

    Libraries that write from other languages raise errors of their own, which name the system's or follow one.
    """
    chain = [each for each in (error, error.__cause__, error.__context__) if each is not None]
    for code, remedy in _REMEDIES.items():
        if any(getattr(each, "errno", None) == code or os.strerror(code) in str(each) for each in chain):
            return f"{path}: cannot be written ({os.strerror(code)}): {remedy}"
    if not isinstance(error, OSError):
        return None
    if isinstance(error.filename, str) and not Path(error.filename).absolute().is_relative_to(folder.absolute()):
        return f"{error.filename}: {error.strerror}: check the path"
    return f"{path}: cannot be written ({error.strerror or error}): choose another place"


def check_place(path: str | Path, error: type[LeakageError] = LeakageError) -> Path:
    """What :func:`replacing` would write: ``path``, or where a link of that name leads.

    Raises ``error`` for a path that it cannot write to, as far as can be told beforehand.
    """
    try:
        if b"\0" in os.fsencode(path):
            raise ValueError("a NUL in it")
        final = Path(path)
        final = final.resolve() if final.is_symlink() else final
        there = final.exists()
    except (OSError, RuntimeError, ValueError):
        raise error(f"{str(path)!r}: cannot be written (no such place can be): choose another place") from None
    if not final.name or (final.is_dir() and Path.cwd().is_relative_to(final.resolve())):
        raise error(f"{str(path)!r}: cannot be written (the current folder, or one above): choose another place")
    if not final.parent.is_dir():
        raise error(f"{path}: cannot be written (no folder {str(final.parent)!r}): make it first")
    if not os.access(final.parent, os.W_OK):
        raise error(f"{path}: cannot be written (no right to write there): choose another place")
    if there and not (final.is_file() or final.is_dir()):
        # Renaming onto a device such as /dev/null would take the device away from everyone.
        raise error(f"{path}: cannot be written (neither a file nor a folder): choose another place")
    return final


def leftovers(folder: Path, deep: int = 8) -> Iterator[Path]:
    """What killed runs left in a folder, or so many levels below it: as deep as studies write."""
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            if path.is_symlink() or not path.is_dir():
                continue
            if is_leftover(path.name):
                yield path
            elif deep and path.name not in _OF_TOOLS:
                yield from leftovers(path, deep - 1)


def is_leftover(name: str) -> bool:
    """Whether a folder's name is one of those in which something is being written."""
    return name.startswith(PREFIX) and name.endswith(SUFFIX)


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
