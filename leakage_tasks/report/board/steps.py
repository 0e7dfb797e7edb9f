"""The metrics of one model after several numbers of training steps, from the audits of its checkpoints."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from leakage_tasks.core.text_table import text_table
from leakage_tasks.metrics.aggregates import OF_MAXIMUM
from leakage_tasks.metrics.metric import Direction
from leakage_tasks.report.board.board import Board, Column, Entry, make_board
from leakage_tasks.report.load.figures import Figure, figure
from leakage_tasks.report.load.format import context_lines, flag_words, verdict_words, with_interval
from leakage_tasks.report.load.results import read_one_run

Points = tuple[tuple[int, Figure], ...]
"""Values with their steps, in the order of steps."""


@dataclass(frozen=True)
class StepLine:
    """The values of one metric."""

    title: str
    points: Points


@dataclass(frozen=True)
class StepPanel:
    """Metrics of a task that share one axis: one metric, or the parts of a metric by number of copies.

    ``controls`` holds the same metric of the controls, and is empty if the task has none.
    """

    title: str
    unit: str
    direction: Direction
    lines: tuple[StepLine, ...]
    controls: Points


@dataclass(frozen=True)
class StepBoard:
    """The audits of the checkpoints of one training run, by step, with a board of all metrics."""

    board: Board
    entries: tuple[tuple[int, Entry], ...]

    def panels(self) -> list[StepPanel]:
        """Return a panel for every primary metric of leakage, then for every metric of usefulness.

        A metric over all canaries is left out if its parts by number of copies have a panel, and so are a maximum over
        canaries and any other metric of leakage without controls and an interval over canaries.
        """
        shown = [column for column in self.board.columns if column.shown]
        parents = {(column.task, column.parent) for column in shown if column.parent}
        drawn = [
            column
            for column in sorted(shown, key=lambda column: not column.leakage)
            if (column.task, column.name) not in parents
            and (not column.leakage or column.control is not None or column.interval_kind not in ("", OF_MAXIMUM.kind))
        ]
        return [self._panel(column) for column in drawn]

    def _panel(self, column: Column) -> StepPanel:
        parts = [
            other
            for other in self.board.columns
            if column.parent and (other.task, other.parent) == (column.task, column.parent) and other.copies
        ]
        lines = [StepLine(part.title, self._points(part)) for part in parts or [column]]
        title = column.title.split(",")[0] if parts else column.title
        return StepPanel(title, column.unit, column.direction, tuple(lines), self._controls(column))

    def _points(self, column: Column) -> Points:
        values = ((step, entry.figure(column)) for step, entry in self.entries)
        return tuple((step, value) for step, value in values if value.value is not None)

    def _controls(self, column: Column) -> Points:
        if column.control is None:
            return ()
        results = ((step, entry.run.tasks.get(column.task)) for step, entry in self.entries)
        values = ((step, figure(result, column.control)) for step, result in results if result is not None)
        return tuple((step, value) for step, value in values if value.value is not None)


def read_steps(results: Sequence[tuple[int, str, Path]]) -> StepBoard:
    """Read the results of checkpoints, each as its step, its name and the folder of its results.

    Raises ResultsError for results that cannot be read.
    """
    runs = [dataclasses.replace(read_one_run(folder), name=name) for _, name, folder in results]
    board = make_board(runs)
    of_name = {entry.run.name: entry for entry in board.entries}
    return StepBoard(board, tuple((step, of_name[name]) for step, name, _ in sorted(results, key=lambda each: each[0])))


def steps_text(steps: StepBoard) -> str:
    """Return a table with a row per checkpoint, and the verdicts and flags below."""
    columns = [column for column in steps.board.columns if column.shown]
    head = ["step", "model", *(column.heading for column in columns)]
    rows = [
        [str(step), entry.run.name, *(_cell(entry.figure(column)) for column in columns)]
        for step, entry in steps.entries
    ]
    return "\n".join([text_table([head, *rows], right=[True, *[False] * (len(columns) + 1)]), "", *_notes(steps)])


def _cell(value: Figure) -> str:
    context = context_lines(value)
    return f"{with_interval(value)} ({', '.join(context)})" if context else with_interval(value)


def _notes(steps: StepBoard) -> Iterator[str]:
    """Yield the verdict of each checkpoint, then each flag with the checkpoints that raise it."""
    for _, entry in steps.entries:
        yield from (f"= {entry.run.name}: {words}" for words in verdict_words(entry.verdicts))
    raised: dict[str, list[str]] = {}
    for _, entry in steps.entries:
        for words in flag_words(entry.flags):
            raised.setdefault(words, []).append(entry.run.name)
    everywhere: Mapping[bool, str] = {True: "all", False: ""}
    for words, names in raised.items():
        yield f"! {everywhere[len(names) == len(steps.entries)] or ', '.join(names)}: {words}"
