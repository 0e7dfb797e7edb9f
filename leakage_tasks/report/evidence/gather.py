"""The record of an evidence report, from the results of one run and from the files that the author adds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.records import WrongField
from leakage_tasks.metrics.audit_figure import AuditFigure
from leakage_tasks.report.board.board import Board, Column, Entry, make_board
from leakage_tasks.report.card.card import read_measured_run
from leakage_tasks.report.card.index import unfit
from leakage_tasks.report.card.sentences import bound_words, limits, sentence
from leakage_tasks.report.evidence.annexes import annexes_of, classes_of
from leakage_tasks.report.evidence.checks import checks_of, limit_outcomes, read_selftest
from leakage_tasks.report.evidence.drawings import drawings_of
from leakage_tasks.report.evidence.given import NOTHING_GIVEN, Given, all_hashes
from leakage_tasks.report.evidence.hashes import this_code
from leakage_tasks.report.evidence.omissions import omissions_of
from leakage_tasks.report.evidence.protocol import protocol_of
from leakage_tasks.report.evidence.record import (
    SCHEMA,
    Evidence,
    Fact,
    Facts,
    Row,
    Settings,
    Summary,
    evidence_from_json,
)
from leakage_tasks.report.load.figures import counted_words, headline_of
from leakage_tasks.report.load.results import Run
from leakage_tasks.report.load.samples import audit_of
from leakage_tasks.report.load.validate import all_printable


def gather(path: str | Path, settings: Settings, given: Given = NOTHING_GIVEN) -> Evidence:
    """Return the record of the only run under ``path``.

    Args:
        path: A results file, or a folder with the results of one run.
        settings: The options of the report; an empty name becomes the run's name.
        given: Files of the model, of its training and of a self-test.

    Returns:
        The record.

    Raises:
        ResultsError: If there is no run with leakage results, several runs, or a file that cannot be used.
        OptionError: If a given file does not belong to the results, or a limit is invalid.
    """
    run = read_measured_run(path)
    board = make_board([run])
    settings = dataclasses.replace(settings, name=settings.name or run.name)
    audited = audit_of(run, settings.delta)
    summary, rows = tuple(_summary(board)), tuple(_rows(board))
    about_test, tested = ([], ()) if given.selftest is None else read_selftest(given.selftest)
    evidence = Evidence(
        schema=SCHEMA,
        date=_date(run),
        settings=settings,
        summary=summary,
        protocol=(*protocol_of(run), *([Facts("Self-test", tuple(about_test))] if about_test else [])),
        results=rows,
        audit=tuple(audited),
        figures=tuple(drawings_of(run)),
        checks=tuple(checks_of(run)),
        outcomes=limit_outcomes(run, settings),
        selftest=tested,
        meanings=tuple(_meanings(board, audited)),
        limits=tuple(limits(run)),
        omissions=tuple(omissions_of(run)),
        hashes=tuple(all_hashes(run, given)),
        annexes=tuple(annexes_of(run, summary, rows, audited, settings.release)),
        code=this_code(),
    )
    return _printable(evidence)


def _printable(evidence: Evidence) -> Evidence:
    """Return the record with printable texts, as it is read from a page."""
    data: Any = all_printable(_plain(dataclasses.asdict(evidence)))
    try:
        return evidence_from_json(data)
    except WrongField as error:
        raise ResultsError(f"the results hold a value that no report can show ({error}): correct the results") from None


def _plain(value: Any) -> Any:
    """Return a value with lists in place of tuples, as JSON has them."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _date(run: Run) -> str:
    newest = max((task.date for task in run.tasks.values() if task.answered), default=0.0)
    return f"{datetime.fromtimestamp(newest, UTC):%Y-%m-%d}" if newest > 0 else "not recorded"


def _summary(board: Board) -> Iterator[Summary]:
    (entry,) = board.entries
    cautions = unfit(board)
    for task, result in sorted(entry.run.tasks.items()):
        if not result.is_leakage or not result.answered:
            continue
        caution = cautions.get(task, "")
        column = _primary(board, entry, task)
        words = "" if column is None or caution else sentence(result, column, entry.figure(column))
        verdict = entry.verdicts.get(task)
        label, because = ("", "") if verdict is None else (verdict.label, verdict.because)
        yield Summary(task, label, because, words, caution, classes_of(result))


def _primary(board: Board, entry: Entry, task: str) -> Column | None:
    """Return the column of a task's first primary metric, for the lowest number of copies if it has such parts."""
    columns = [column for column in board.columns if column.task == task and entry.figure(column).value is not None]
    shown = next((column for column in columns if column.shown), None)
    if shown is None:
        return None
    name = headline_of(entry.run.tasks[task], shown.name)
    return next((column for column in columns if column.name == name), shown)


def _rows(board: Board) -> Iterator[Row]:
    """Yield all values of a run: leakage first, primary values first within each task."""
    (entry,) = board.entries
    for column in sorted(board.columns, key=lambda column: (not column.leakage, column.task, not _is_primary(column))):
        figure = entry.figure(column)
        if figure.value is None:
            continue
        counted = "" if figure.count is None else counted_words(entry.run.tasks[column.task], column.name)
        yield Row(
            task=column.task,
            metric=column.name,
            column=column.filter,
            title=column.title,
            description=column.description,
            unit=column.unit,
            direction=column.direction or "",
            value=figure.value,
            low=figure.low,
            high=figure.high,
            interval=figure.kind,
            count=figure.count,
            counted=counted,
            control=figure.control,
            chance=column.chance or "",
            primary=_is_primary(column),
            leakage=column.leakage,
        )


def _is_primary(column: Column) -> bool:
    return column.shown or column.copies is not None


def _meanings(board: Board, audited: Sequence[AuditFigure]) -> Iterator[Fact]:
    """Yield the meaning of each primary value of leakage, and whether it bounds the leak."""
    (entry,) = board.entries
    for column in board.columns:
        if column.leakage and column.shown and entry.figure(column).value is not None:
            bound = bound_words(entry.run.tasks[column.task], column)
            yield Fact(column.title, f"{column.description}. {bound}")
    for figure in audited:
        if figure.words:
            yield Fact(figure.title, f"{figure.words}.")
