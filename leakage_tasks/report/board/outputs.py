"""File formats of the leaderboard: one function per format, by file name extension."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from pathlib import Path

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.registry import Registry, check_callable
from leakage_tasks.report.board.board import Board

Write = Callable[..., str]


@dataclass(frozen=True)
class BoardOutput:
    """A file format; ``write`` returns a board's text and takes ``every`` and ``reveal`` if it declares them."""

    write: Write

    def text(self, board: Board, *, every: bool = False, reveal: bool = False) -> str:
        """Return the file's text with every or only the primary metrics, natural secrets revealed or masked."""
        options = {"every": every, "reveal": reveal}
        return self.write(
            board, **{name: options[name] for name in signature(self.write).parameters if name in options}
        )


BOARDS: Registry[BoardOutput] = Registry(
    "board output",
    "leakage_tasks.report.board",
    "leakage_tasks.report.page.document",
    group="lm_eval_leakage.boards",
)
"""File formats by extension without the dot."""


def register_board(name: str) -> Callable[[Write], Write]:
    """Register a function that returns a board's text for files with this extension.

    The function takes a board, and ``every`` and ``reveal`` as optional keywords. Raises PluginError for a name that is
    taken and for a function of another signature.
    """

    def add(write: Write) -> Write:
        check_callable(f"board output {name!r}", write, ["board"])
        BOARDS.register(name, BoardOutput(write), write)
        return write

    return add


def output_of(path: Path) -> BoardOutput:
    """Return the format for a path's extension. Raises OptionError if it is unknown."""
    name = path.suffix.lower().removeprefix(".")
    if name not in BOARDS:
        known = ", ".join(f".{ending}" for ending in sorted(BOARDS.names()))
        raise OptionError(f"--output {path}: unknown kind of file: use a name that ends in {known}")
    return BOARDS[name]
