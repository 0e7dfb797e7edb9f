"""The record of an evidence report, from the results of one run and from the files that the author adds."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.records import WrongField
from leakage_tasks.core.task_names import SUFFIXES, TEXTS, WINDOWS
from leakage_tasks.metrics.audit_figure import AuditFigure
from leakage_tasks.report.board.board import Board, Column, Entry, make_board
from leakage_tasks.report.card.card import read_measured_run
from leakage_tasks.report.card.index import unfit
from leakage_tasks.report.card.sentences import bound_words, limits, sentence
from leakage_tasks.report.check import limit_from, outcomes
from leakage_tasks.report.evidence.annexes import annexes_of, classes_of
from leakage_tasks.report.evidence.files import NO_FILES, Files, all_hashes
from leakage_tasks.report.evidence.hashes import this_code
from leakage_tasks.report.evidence.omissions import omissions_of
from leakage_tasks.report.evidence.protocol import checks_of, protocol_of, read_selftest
from leakage_tasks.report.evidence.record import (
    SCHEMA,
    Drawing,
    Evidence,
    Fact,
    Facts,
    Row,
    Settings,
    Summary,
    evidence_from_json,
)
from leakage_tasks.report.load.documents import read_documents
from leakage_tasks.report.load.figures import counted_words, headline_of
from leakage_tasks.report.load.findings import read_details
from leakage_tasks.report.load.results import Run
from leakage_tasks.report.load.samples import audit_of
from leakage_tasks.report.load.texts import read_texts
from leakage_tasks.report.load.validate import all_printable
from leakage_tasks.report.page.documents import describe_documents
from leakage_tasks.report.page.runs import spread_of
from leakage_tasks.report.page.spreads import describe_spread
from leakage_tasks.report.plots.findings import recall_of
from leakage_tasks.report.plots.recall import draw_recall
from leakage_tasks.report.plots.runs import draw_runs, run_curves
from leakage_tasks.report.plots.style import data_uri
from leakage_tasks.stats.passages import Limits


def gather(path: str | Path, settings: Settings, given: Files = NO_FILES) -> Evidence:
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
        figures=tuple(_drawings(run)),
        checks=tuple(checks_of(run)),
        outcomes=tuple(outcomes([run], [*map(limit_from, settings.limits)], allowed=settings.allow)),
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
    data = all_printable(json.loads(json.dumps(dataclasses.asdict(evidence))))
    try:
        return evidence_from_json(data)
    except WrongField as error:
        raise ResultsError(f"the results hold a value that no report can show ({error}): correct the results") from None


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


def _drawings(run: Run) -> Iterator[Drawing]:
    """Yield the figures of the tasks that logged samples; natural secrets stay hidden. Raises ResultsError."""
    details = read_details(run)
    spread = describe_spread(spread_of(run.name, details.canaries), drawn=True)
    if spread is not None:
        yield Drawing("Exposure and extraction by number of copies", spread["alt"], spread["figure"])
    suffixes = run.tasks.get(SUFFIXES)
    if suffixes is not None and suffixes.answered and suffixes.logged is not None and details.pairs:
        curves = recall_of([suffixes.logged])
        words = f"Recall of suffixes against the number of wrong guesses allowed, for {len(details.pairs):,} pairs."
        yield Drawing("Recall by number of wrong guesses allowed", words, data_uri(draw_recall(curves)))
    written = run.tasks.get(TEXTS)
    if written is not None and written.answered and written.logged is not None:
        lines = run_curves(read_texts(run))
        words = "; ".join(f"{line.name}: {line.shares[0].value:.3g} of {line.count:,} texts" for line in lines)
        drawn = f"Share of texts with a run of {lines[0].shares[0].length} tokens or more. {words}."
        yield Drawing("Written texts with a run of the corpus, by length of the run", drawn, data_uri(draw_runs(lines)))
    windows = run.tasks.get(WINDOWS)
    if windows is not None and windows.answered and windows.logged is not None:
        picture, words = describe_documents(read_documents(windows.logged, Limits()))
        yield Drawing("Windows of documents that the model writes", words, picture)
