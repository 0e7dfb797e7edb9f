"""Safe reading of foreign files: devices, endless pipes and deeply nested JSON raise an error instead of blocking."""

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
"""Size limit in bytes for a file that is read into memory."""
WAIT = 5.0
"""Seconds to wait for the first byte of a named pipe."""
_BLOCK = 1 << 20
_SHELL_PIPES = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Paths of pipes that the shell created for this process; these have no time limit."""
_PIPED: dict[tuple[int, int], bytes] = {}
"""Content of shell pipes by device and inode, since a pipe can be read only once and several tasks may need it."""


def read_bytes(path: str | Path) -> bytes:
    """Return the content of a file or a pipe; a shell's pipe can be read repeatedly.

    Raises OSError with a ``strerror`` that can be shown to users for other kinds of paths and for more than 1 GiB.
    """
    status = _status(path)
    mode, key = status.st_mode, (status.st_dev, status.st_ino)
    if stat.S_ISSOCK(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise OSError(errno.EINVAL, "a device or socket, expected a file", str(path))
    from_shell = str(path).startswith(_SHELL_PIPES)
    piped = from_shell and stat.S_ISFIFO(mode)
    if piped and key in _PIPED:
        return _PIPED[key]
    with open(path, "rb") if from_shell or not stat.S_ISFIFO(mode) else os.fdopen(_open_pipe(path), "rb") as file:
        content = _read_up_to(MOST + 1, file.read)
    if len(content) > MOST:
        raise OSError(errno.EFBIG, "more than 1 GiB, expected a smaller file", str(path))
    if piped:
        _PIPED[key] = content
    return content


def read_text(path: str | Path, encoding: str = "utf-8") -> str:
    """Return the text of a file or pipe, with all line ends as newlines. Raises OSError and UnicodeDecodeError."""
    return read_bytes(path).decode(encoding).replace("\r\n", "\n").replace("\r", "\n")


def read_named(path: str | Path, what: str, error: type[LeakageError]) -> str:
    """Return the text of a file without its byte order mark; ``what`` names its kind in messages. Raises ``error``."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except OSError as problem:
        raise error(f"{path}: cannot read the {what} ({problem.strerror}): check the path") from None
    except UnicodeDecodeError as problem:
        raise error(f"{path}: not UTF-8 at byte {problem.start}: save the {what} as UTF-8") from None


def check_file(path: str | Path) -> None:
    """Raise OSError for a pipe, device or socket, since it cannot be read twice and may block forever."""
    mode = _status(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "a pipe, device or socket, expected a file", str(path))


TOO_DEEP = "nested too deeply"


def parse_json(text: str | bytes) -> Any:
    """Parse JSON. Raises ValueError (such as JSONDecodeError), also for JSON that is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


@dataclass(frozen=True)
class JSONFault:
    """The reason why a text is not JSON, with the line and column of the fault, counted from 1."""

    reason: str
    line: int
    column: int


def json_fault(error: json.JSONDecodeError) -> JSONFault:
    """Return the fault that ``error`` reports; a truncated text (for example after a full disk) gets its own reason."""
    text = error.doc.rstrip()
    if text and (error.pos >= len(text) or error.msg.startswith("Unterminated string")):
        return JSONFault("the text breaks off", text.count("\n") + 1, len(text) - text.rfind("\n"))
    # Some messages of the parser end in "at", since the parser appends the position.
    return JSONFault(error.msg.removesuffix(" at"), error.lineno, error.colno)


def _status(path: str | Path) -> os.stat_result:
    try:
        return os.stat(path)
    except ValueError:
        raise OSError(errno.EINVAL, "a NUL byte or half a character in the path", str(path)) from None


def _open_pipe(pipe: str | Path) -> int:
    """Return a descriptor of a pipe that has a writer. It is also used to read, since closing it would stop the
    writer."""
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    if not select.select([descriptor], [], [], WAIT)[0]:
        os.close(descriptor)
        raise OSError(errno.EAGAIN, "a pipe that nobody writes to, expected a file", str(pipe))
    os.set_blocking(descriptor, True)
    return descriptor


def _read_up_to(most: int, read: Callable[[int], bytes]) -> bytes:
    content = bytearray()
    while len(content) < most and (block := read(min(_BLOCK, most - len(content)))):
        content += block
    return bytes(content)
