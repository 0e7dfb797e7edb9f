"""Reading files that others wrote: what is no file, never ends or is nested without end is an error, not a wait."""

from __future__ import annotations

import errno
import json
import os
import select
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import LeakageError

MOST = 1 << 30
"""Bytes of the largest file that is read whole."""
WAIT = 5.0
"""Seconds that a pipe of the file system may leave us without a first byte."""
_BLOCK = 1 << 20
_GIVEN = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Where pipes are that a shell made for us, which may take their time."""
_PIPED: dict[tuple[int, int], bytes] = {}
"""The content of pipes that a shell made, by device and inode: a pipe gives it once, and several tasks may read it."""


def read_bytes(path: str | Path) -> bytes:
    """Return the content of a file, or of a pipe that somebody writes to; of a shell's pipe as often as asked.

    Raises OSError, its ``strerror`` fit to be shown, for anything else and for more than 1 GiB.
    """
    status = os.stat(path)
    mode, key = status.st_mode, (status.st_dev, status.st_ino)
    if stat.S_ISSOCK(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise OSError(errno.EINVAL, "a device or socket, expected a file", str(path))
    given = str(path).startswith(_GIVEN)
    piped = given and stat.S_ISFIFO(mode)
    if piped and key in _PIPED:
        return _PIPED[key]
    with open(path, "rb") if given or not stat.S_ISFIFO(mode) else os.fdopen(_awaited(path), "rb") as file:
        content = _up_to(MOST + 1, file.read)
    if len(content) > MOST:
        raise OSError(errno.EFBIG, "more than 1 GiB, expected a smaller file", str(path))
    if piped:
        _PIPED[key] = content
    return content


def read_text(path: str | Path, encoding: str = "utf-8") -> str:
    """As :func:`read_bytes`, decoded, with line ends as Python reads them. Raises UnicodeDecodeError too."""
    return read_bytes(path).decode(encoding).replace("\r\n", "\n").replace("\r", "\n")


def read_named(path: str | Path, what: str, error: type[LeakageError]) -> str:
    """The text of a file that is ``what``, without a byte order mark. Raises ``error`` where it cannot be read."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except OSError as problem:
        raise error(f"{path}: cannot read the {what} ({problem.strerror}): check the path") from None
    except UnicodeDecodeError as problem:
        raise error(f"{path}: not UTF-8 at byte {problem.start}: save the {what} as UTF-8") from None


def check_file(path: str | Path) -> None:
    """Raise OSError for what is there and no file: it could not be read twice, or would be waited for for ever."""
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "a pipe, device or socket, expected a file", str(path))


TOO_DEEP = "nested too deeply"


def parse_json(text: str | bytes) -> Any:
    """What JSON holds. Raises ValueError, of which JSONDecodeError is one, also for what is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


@dataclass(frozen=True)
class JSONFault:
    """The reason why a text is not JSON, and the line and column of the fault, counted from 1."""

    reason: str
    line: int
    column: int


def json_fault(error: json.JSONDecodeError) -> JSONFault:
    """Return the fault that ``error`` reports; a text that ends too early, as after a full disk, is named as such."""
    text = error.doc.rstrip()
    if text and (error.pos >= len(text) or error.msg.startswith("Unterminated string")):
        return JSONFault("the text breaks off", text.count("\n") + 1, len(text) - text.rfind("\n"))
    # Some messages of the parser end in "at", as its own words for the place follow.
    return JSONFault(error.msg.removesuffix(" at"), error.lineno, error.colno)


def _awaited(pipe: str | Path) -> int:
    """A descriptor of a pipe that somebody writes to: the one that was waited on, for its writer dies with it."""
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    if not select.select([descriptor], [], [], WAIT)[0]:
        os.close(descriptor)
        raise OSError(errno.EAGAIN, "a pipe that nobody writes to, expected a file", str(pipe))
    os.set_blocking(descriptor, True)
    return descriptor


def _up_to(most: int, read: Callable[[int], bytes]) -> bytes:
    content = bytearray()
    while len(content) < most and (block := read(min(_BLOCK, most - len(content)))):
        content += block
    return bytes(content)
