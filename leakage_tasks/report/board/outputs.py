"""What a board can be written as: one function a kind of file, by how the file's name ends."""

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
    """A kind of file; ``write`` makes its text of a board, and of those of ``every`` and ``reveal`` that it takes."""

    write: Write

    def text(self, board: Board, *, every: bool = False, reveal: bool = False) -> str:
        """The file's text; ``every`` figure or the headlines alone, natural secrets as they are or masked."""
        given = {"every": every, "reveal": reveal}
        return self.write(board, **{name: given[name] for name in signature(self.write).parameters if name in given})


BOARDS: Registry[BoardOutput] = Registry(
    "board output",
    "leakage_tasks.report.board",
    "leakage_tasks.report.page.document",
    group="lm_eval_leakage.boards",
)
"""By how a file's name ends, without the dot."""


def register_board(name: str) -> Callable[[Write], Write]:
    """Register a function of a board as what files that end so hold; of keywords it may take ``every`` and ``reveal``.

    Raises PluginError for a name that is taken and for a function of another signature.
    """

    def add(write: Write) -> Write:
        check_callable(f"board output {name!r}", write, ["board"])
        BOARDS.register(name, BoardOutput(write), write)
        return write

    return add


def output_of(path: Path) -> BoardOutput:
    """The output that a path's ending names. Raises OptionError for one that there is not."""
    name = path.suffix.lower().removeprefix(".")
    if name not in BOARDS:
        known = ", ".join(f".{each}" for each in sorted(BOARDS.names()))
        raise OptionError(f"--output {path}: of no kind that is known: let it end in {known}")
    return BOARDS[name]
