"""The ``leakage`` command line in this process, held to what it promises."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from leakage_tasks.core.errors import LONGEST
from tests.fuzzing.case import Declined, ensure

NOTES = ("leakage: warning: ", "leakage: note: ")


def leakage(*words: object) -> int:
    """Run ``leakage`` with these words; the exit code, 0 or 1.

    Raises Declined with the last line of stderr where it is 2, and Wrong for anything else than is promised.
    """
    from leakage_tasks.cli import main

    arguments = ["leakage", *map(str, words)]
    with _captured() as (out, err), patch.object(sys, "argv", arguments):
        try:
            main()
            code: object = 0
        except SystemExit as stop:
            code = stop.code or 0
        out.flush()
    err.seek(0)
    said = err.read()
    ensure("Traceback (most recent call last)" not in said, f"no traceback: {said[-5000:]}")
    ensure(code in (0, 1, 2), f"exit code 0, 1 or 2: {code}")
    if code == 2:
        raise Declined(_last_line(said))
    return int(str(code))


def _last_line(said: str) -> str:
    """What an error says, without what comes before it: warnings, or how the command is used."""
    lines = said.removesuffix("\n").split("\n")
    if not lines[-1].startswith("leakage: "):
        usage = next((place for place, line in enumerate(lines) if line.startswith("Error: ")), None)
        ensure(lines[0].startswith("Usage: ") and usage is not None, f"an error begins with leakage or Usage: {said}")
        # Typer repeats whatever was typed, however long.
        return " ".join(lines[usage:])[:LONGEST]
    ensure(all(not line.startswith("leakage: ") or line.startswith(NOTES) for line in lines[:-1]), f"one line: {said}")
    return lines[-1]


@contextmanager
def _captured() -> Iterator[tuple[io.TextIOWrapper, io.TextIOWrapper]]:
    """Streams as those of a process are, with what is written to them."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict")
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    with patch.object(sys, "stdout", out), patch.object(sys, "stderr", err):
        yield out, err


def check_words(words: Sequence[str]) -> list[str]:
    """Words as a process can be given them: without NUL, and with surrogates that stand for bytes alone."""
    return [word.replace("\0", "").encode("utf-8", "replace").decode() for word in words]
