"""A signal at a numbered call: before and after every call that opens, writes, syncs, renames or changes rights."""

from __future__ import annotations

import builtins
import ctypes
import io
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAMED = ("mkdir", "chmod", "chown", "replace", "rename", "rmdir", "unlink")
"""Functions of ``os`` whose first argument is a path."""
WRITES = 2
"""Of each file; what a signal at a later one leaves is the same."""


class Faults:
    """Counts the calls that touch ``out``; the process sends itself ``number`` at call ``at``, which is none for 0.

    A call counts twice: once before it is made and once after.
    """

    def __init__(self, out: Path, at: int, number: int) -> None:
        self.out, self.at, self.number = os.path.realpath(out), at, number
        self.calls = 0

    def install(self) -> None:
        """Patch this process, which is to run one command and end."""
        for name in NAMED:
            setattr(os, name, self._around(getattr(os, name), self._touches))
        os.fsync = self._around(os.fsync, lambda descriptor: self._touches(f"/proc/self/fd/{descriptor}"))
        usual = io.open
        io.open = builtins.open = lambda *given, **rest: self._opened(usual, *given, **rest)  # type: ignore[assignment]
        library = ctypes.CDLL

        def loaded(name: Any, *given: Any, **rest: Any) -> Any:
            found = library(name, *given, **rest)
            return _Renames(found, self) if name is None else found

        ctypes.CDLL = loaded  # type: ignore[assignment,misc]

    def _touches(self, path: Any, *rest: Any, **more: Any) -> bool:
        if isinstance(path, int):
            path = f"/proc/self/fd/{path}"
        return os.path.realpath(os.fsdecode(path)).startswith(self.out + os.sep)

    def _around(self, usual: Callable[..., Any], counts: Callable[..., bool]) -> Callable[..., Any]:
        def called(*given: Any, **rest: Any) -> Any:
            counted = counts(*given, **rest)
            if counted:
                self.reach()
            try:
                return usual(*given, **rest)
            finally:
                if counted:
                    self.reach()

        return called

    def _opened(self, usual: Callable[..., Any], file: Any, mode: str = "r", *given: Any, **rest: Any) -> Any:
        found = usual(file, mode, *given, **rest)
        if not isinstance(file, int) and set(mode) & set("wax+") and self._touches(file):
            self.reach()
            return _Written(found, self)
        return found

    def reach(self) -> None:
        """One call further."""
        self.calls += 1
        if self.calls == self.at:
            os.kill(os.getpid(), self.number)
            if self.number == signal.SIGKILL:
                signal.pause()


class _Written:
    """An open file whose first writes are counted."""

    def __init__(self, file: Any, faults: Faults) -> None:
        self._file, self._faults, self._left = file, faults, WRITES

    def write(self, data: Any) -> Any:
        if not self._left:
            return self._file.write(data)
        self._left -= 1
        self._faults.reach()
        written = self._file.write(data)
        self._file.flush()
        self._faults.reach()
        return written

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _Written:
        self._file.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._file.__exit__(*error)

    def __iter__(self) -> Any:
        return iter(self._file)


class _Renames:
    """The C library with a counted ``renameat2``."""

    def __init__(self, library: Any, faults: Faults) -> None:
        self._library, self._faults = library, faults

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._library, name)
        return self._faults._around(found, lambda *given: True) if name == "renameat2" else found
