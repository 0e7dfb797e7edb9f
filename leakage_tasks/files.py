"""Writing files whole or not at all."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from leakage_tasks.errors import LeakageError


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a path beside ``path`` to write a file or folder to; on success it takes ``path``'s place.

    On an error nothing is left behind and ``path`` is as it was; a folder takes an older folder's place.
    Raises LeakageError if the place cannot be written to.
    """
    final = Path(path)
    beside = final.with_name(f".{final.name}.{os.getpid()}.part")
    try:
        check_place(path)
        yield beside
        _take_place(beside, final)
    except OSError as error:
        raise LeakageError(f"{path}: cannot be written ({error.strerror or error}): choose another place") from None
    finally:
        _remove(beside)


def check_place(path: str | Path) -> None:
    """Raise LeakageError for a path that :func:`replacing` cannot write to, as far as can be told beforehand."""
    final = Path(path)
    if not final.parent.is_dir():
        raise LeakageError(f"{path}: cannot be written (no folder {str(final.parent)!r}): make it first")
    if not os.access(final.parent, os.W_OK):
        raise LeakageError(f"{path}: cannot be written (no right to write there): choose another place")
    if final.exists() and not (final.is_file() or final.is_dir()):
        # Renaming onto a device such as /dev/null would take the device away from everyone.
        raise LeakageError(f"{path}: cannot be written (neither a file nor a folder): choose another place")


def copy_mode(source: Path, output: Path) -> None:
    """Make a copy as private as its source; a folder stays writable for its owner, so that it can be replaced."""
    shutil.copymode(source, output)
    if output.is_dir():
        output.chmod(output.stat().st_mode | stat.S_IWUSR)


def _take_place(beside: Path, final: Path) -> None:
    if not (beside.is_dir() and final.is_dir()):
        os.replace(beside, final)
        return
    older = final.with_name(f".{final.name}.{os.getpid()}.old")
    os.replace(final, older)
    try:
        os.replace(beside, final)
    except OSError:
        os.replace(older, final)
        raise
    _remove(older)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
