"""Atomic writes: a file or folder appears complete or not at all, and is never readable by more users than planned."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.permissions import copy_permissions
from leakage_tasks.core.signal_cleanup import PREFIX, SUFFIX, cleanup_on_signals, private_folder

_EXCHANGE, _CURRENT_FOLDER = 2, -100
_TOOL_FOLDERS = (".git", ".venv", "node_modules")
_FREE_SPACE = "free disk space"
REMEDIES = {
    errno.ENOSPC: _FREE_SPACE,
    errno.EDQUOT: _FREE_SPACE,
    errno.EFBIG: "raise the limit (ulimit -f)",
    errno.EROFS: "choose another path",
    errno.EIO: "choose another disk",
}
"""Remedies by the system error that stops a write."""


@contextmanager
def replacing(path: str | Path, *, like: Path | None = None, private: bool = False) -> Iterator[Path]:
    """Yield a temporary path for a file or folder; on success, sync it to disk and move it to ``path``.

    The temporary path lies in a new folder next to ``path``, with an unpredictable name and access for the owner only.
    The result gets the permissions, owner and group of ``like``, or of the file or folder that it replaces if ``like``
    is None or missing. The files of a folder get the permissions of the files with their names. With ``private``, only
    the owner has access. If ``path`` is a symbolic link, the link stays and its target is replaced. A folder replaces
    an older folder.

    An error, Ctrl-C, SIGTERM or SIGHUP leaves ``path`` as it was and removes the temporary folder. Raises LeakageError
    if ``path`` is not writable.
    """
    final = check_place(path)
    try:
        with cleanup_on_signals(), private_folder(final.parent) as folder:
            temporary = folder / final.name
            yield temporary
            copy_permissions(temporary, like if like is not None and like.exists() else final, private)
            _sync(temporary)
            _move_to(temporary, final)
            sync_folder(final.parent)
    except LeakageError:
        raise
    except Exception as error:
        message = failure_of(error, path, final.parent)
        if message is None:
            raise
        raise LeakageError(message) from None


def write_text(path: str | Path, text: str, *, private: bool = False, errors: str = "strict") -> None:
    """Write a UTF-8 file as :func:`replacing` does; ``errors`` says how to handle characters that cannot be encoded."""
    with replacing(path, private=private) as temporary:
        temporary.write_text(text, encoding="utf-8", errors=errors, newline="")


def failure_of(error: Exception, path: str | Path, folder: Path) -> str | None:
    """Return a one-line message for an error that stopped a write, or None for an unrelated error.

    Libraries in other languages raise their own errors, which name the system's error or have it as their cause.
    """
    chain = [cause for cause in (error, error.__cause__, error.__context__) if cause is not None]
    for code, remedy in REMEDIES.items():
        if any(getattr(cause, "errno", None) == code or os.strerror(code) in str(cause) for cause in chain):
            return f"{path}: cannot be written ({os.strerror(code)}): {remedy}"
    if not isinstance(error, OSError):
        return None
    if isinstance(error.filename, str) and not Path(error.filename).absolute().is_relative_to(folder.absolute()):
        return f"{error.filename}: {error.strerror}: check the path"
    return f"{path}: cannot be written ({error.strerror or error}): choose another path"


def check_place(path: str | Path, error: type[LeakageError] = LeakageError) -> Path:
    """Return the path that :func:`replacing` would write: ``path`` itself or the target of that symbolic link.

    Raises ``error`` if a check before the write shows that the path is not writable.
    """
    try:
        if b"\0" in os.fsencode(path):
            raise ValueError("contains NUL")
        final = Path(path)
        final = final.resolve() if final.is_symlink() else final
        exists = final.exists()
    except (OSError, RuntimeError, ValueError):
        raise error(f"{str(path)!r}: cannot be written (no such path can exist): choose another path") from None
    if not final.name or (final.is_dir() and Path.cwd().is_relative_to(final.resolve())):
        raise error(f"{str(path)!r}: cannot be written (the current folder, or one above): choose another path")
    if not final.parent.is_dir():
        raise error(f"{path}: cannot be written (no folder {str(final.parent)!r}): make it first")
    if not os.access(final.parent, os.W_OK):
        raise error(f"{path}: cannot be written (no permission to write there): choose another path")
    if exists and not (final.is_file() or final.is_dir()):
        # Renaming onto a device such as /dev/null would remove the device for every user.
        raise error(f"{path}: cannot be written (neither a file nor a folder): choose another path")
    return final


def leftovers(folder: Path, deep: int = 8) -> Iterator[Path]:
    """Return the temporary folders of killed runs in a folder and at most ``deep`` levels below it, as deep as studies
    write."""
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            if path.is_symlink() or not path.is_dir():
                continue
            if is_leftover(path.name):
                yield path
            elif deep and path.name not in _TOOL_FOLDERS:
                yield from leftovers(path, deep - 1)


def is_leftover(name: str) -> bool:
    """Return True if ``name`` is the name of a temporary folder for an unfinished write."""
    return name.startswith(PREFIX) and name.endswith(SUFFIX)


def _sync(path: Path) -> None:
    if path.is_dir():
        for entry in path.iterdir():
            _sync(entry)
        sync_folder(path)
    elif path.is_file():
        with path.open("rb") as file:
            os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Sync the entries of a folder to disk."""
    # Some file systems cannot sync folders.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _move_to(temporary: Path, final: Path) -> None:
    if not (temporary.is_dir() and final.is_dir()):
        os.replace(temporary, final)
    elif not _swap(temporary, final):
        older = temporary.with_name("older")
        os.replace(final, older)
        try:
            os.replace(temporary, final)
        except BaseException:
            os.replace(older, final)
            raise


def _swap(first: Path, second: Path) -> bool:
    """Swap two paths in a single system call, so that both always exist; return False if the system cannot do this."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    return (
        rename is not None
        and rename(_CURRENT_FOLDER, os.fsencode(first), _CURRENT_FOLDER, os.fsencode(second), _EXCHANGE) == 0
    )
