"""The section of a model card that says how much of the training data the model gives away."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from datetime import UTC, datetime

from leakage_tasks.metrics.audit import AuditFigure
from leakage_tasks.report.board.board import Board, Column, Entry
from leakage_tasks.report.card.index import unfit
from leakage_tasks.report.card.sentences import limits, sentence, what_was_tested, which_attacks
from leakage_tasks.report.load.command_line import command_of
from leakage_tasks.report.load.figures import Figure, counted_words
from leakage_tasks.report.load.format import NOTHING, flag_words, interval, number
from leakage_tasks.report.load.markdown import bullets, escaped, table
from leakage_tasks.report.load.run import Run

TITLE = "Training-data leakage"
HEAD = ["Figure", "Value", "95 % interval", "Rests on"]
Shown = tuple[Column, Figure]


def section(board: Board, name: str, audited: Sequence[AuditFigure], delta: float = 0.0) -> str:
    """The section for a board of one run, as Markdown; ``name`` is what the card calls the model.

    ``audited`` are its auditing figures at ``delta``, none if there are no samples to have them from.
    """
    (entry,) = board.entries
    wanted = [column for column in board.columns if column.shown or column.copies is not None]
    shown = [(column, entry.figure(column)) for column in wanted if entry.figure(column).value is not None]
    parts = [
        "<!-- Written by 'leakage card': it writes over whatever stands between these two marks. -->",
        f"## {TITLE}",
        _opening(entry.run, name),
        *_tested(entry.run),
        *_warnings(entry),
        *_verdicts(entry),
        *_leakage(entry.run, [each for each in shown if each[0].leakage], unfit(board)),
        *_useful(entry.run, [each for each in shown if not each[0].leakage]),
        *_audit(audited, delta),
        "### What this does not show",
        bullets(limits(entry.run)),
        *_again(entry.run),
    ]
    return "\n\n".join(part.strip("\n") for part in parts)


def _opening(run: Run, name: str) -> str:
    date = max((task.date for task in run.tasks.values() if task.is_leakage and task.answered), default=0.0)
    day = f" on {datetime.fromtimestamp(date, UTC):%Y-%m-%d}" if date > 0 else ""
    own = sorted({task.declared.version for task in run.tasks.values() if task.declared and task.declared.version})
    known = {"lm_eval": "lm-evaluation-harness"}
    named = [("lm-eval-leakage", each) for each in own]
    named += [(known.get(name, name), version) for name, version in run.versions.items()]
    versions = ", ".join(f"{name} {escaped(version)}" for name, version in named)
    return (
        f"How much of the training data can be got out of **{escaped(name)}**, as lm-eval-leakage measured it"
        f"{day}{f' ({versions})' if versions else ''}."
    )


def _tested(run: Run) -> Iterator[str]:
    said: dict[str, list[str]] = {}
    ran: dict[str, list[str]] = {}
    for task, result in run.tasks.items():
        if result.is_leakage and result.declared is not None and result.answered:
            said.setdefault(what_was_tested(result.declared.tested), []).append(_named(task))
            ran.setdefault(which_attacks(result.declared.attacks), []).append(_named(task))
    yield "### What was tested"
    yield bullets(f"{', '.join(tasks)}: {words}" for words, tasks in said.items())
    yield "The attacks, and the access to the model they take:"
    yield bullets(f"{', '.join(tasks)}: {words}" for words, tasks in ran.items())


def _warnings(entry: Entry) -> Iterator[str]:
    lines = [escaped(words) for words in flag_words(entry.flags)]
    lines += [
        f"{_named(task)}: no figures, the model or the options at hand could not serve it"
        for task, result in entry.run.tasks.items()
        if result.is_leakage and not result.answered and not result.predicted_only
    ]
    if lines:
        said = "Read with care."
        if any(flag.no_headline for flag in entry.flags):
            said = "For trying out: these figures do not stand for the model."
        if any(flag.fault for flag in entry.flags):
            said = "The measurement is at fault: do not rely on these figures."
        yield "\n".join([f"> **{said}**", ">", *(f"> - {line}" for line in lines)])


def _verdicts(entry: Entry) -> Iterator[str]:
    if entry.verdicts:
        yield "### Verdict"
        yield bullets(
            f"{_named(task)}: **{verdict.label}** ({escaped(verdict.because)})"
            for task, verdict in sorted(entry.verdicts.items())
        )


def _leakage(run: Run, shown: Sequence[Shown], left_out: Container[str]) -> Iterator[str]:
    yield "### What leaks"
    rows = [[*_cells(run, *each), escaped(each[0].chance or NOTHING), number(each[1].control)] for each in shown]
    yield table([*HEAD, "Without a leak", "Controls"], rows)
    yield bullets(
        f"{escaped(column.title)}: {escaped(column.description)}."
        + (f" Interval: {escaped(found.kind)}." * bool(found.kind))
        for column, found in shown
        if column.shown
    )
    yield _legend(run, shown)
    fit = [(column, found) for column, found in shown if column.task not in left_out]
    if fit:
        yield "### To be quoted"
        yield bullets(escaped(sentence(run.tasks[column.task], column, found)) for column, found in fit)


def _legend(run: Run, shown: Sequence[Shown]) -> str:
    controls = any(found.control is not None for _, found in shown)
    size = any("|R|" in (column.chance or "") for column, _ in shown)
    said = ["The arrow points to the side that leaks less."]
    said += ["Controls were never shown to the model: away from chance they would show a fault."] if controls else []
    said += [f"{escaped('|R|')} is the number of values a secret may have."] if size else []
    files = ", ".join(_named(file.name) for file in run.files)
    return " ".join([*said, f"{_others(run, shown):,} more rows are in {files}."])


def _others(run: Run, shown: Sequence[Shown]) -> int:
    """How many rows of the results are not shown as a figure, its interval, its count or its controls' value."""
    seen = set()
    for column, _ in shown:
        row = run.tasks[column.task].rows.get(column.name)
        beside = () if row is None else (*(row.interval or ()), row.control, row.count)
        seen |= {(column.task, column.filter, metric) for metric in (column.name, *beside)}
    every = {
        (task, of, metric)
        for task, each in run.tasks.items()
        for of, row in each.values.items()
        for metric, value in row.items()
        if value is not None
    }
    return len(every - seen)


def _cells(run: Run, column: Column, found: Figure) -> list[str]:
    """A figure in the columns of :data:`HEAD`."""
    over = counted_words(run.tasks[column.task], column.name)
    basis = NOTHING if found.count is None else f"{found.count:,} {escaped(over)}"
    return [escaped(column.heading), number(found.value), interval(found) or NOTHING, basis]


def _useful(run: Run, shown: Sequence[Shown]) -> Iterator[str]:
    if shown:
        yield "### What the model is good for: other figures of the same model"
        yield table(HEAD, [_cells(run, column, found) for column, found in shown])


def _audit(audited: Sequence[AuditFigure], delta: float) -> Iterator[str]:
    """The auditing figures with what they mean; nothing without any."""
    if not audited:
        return
    yield f"### Audit with controls, at δ = {delta:g}"
    there = [each for each in audited if each.refused is None]
    rows = [
        [
            escaped(each.title),
            f"{'≥ ' if each.lower_bound else ''}{number(each.value)}",
            interval(each) or NOTHING,
            escaped(each.basis),
            number(each.chance),
            number(each.best),
        ]
        for each in there
    ]
    if rows:
        yield table([*HEAD, "Without a leak", "Perfect attack"], rows)
    refused = [each for each in audited if each.refused is not None]
    words = [(each.title, each.words) for each in there if each.words] + [
        (each.title, f"none: {each.refused}") for each in refused
    ]
    yield bullets(f"{escaped(title)}: {escaped(said)}." for title, said in words)


def _again(run: Run) -> Iterator[str]:
    yield "### How to measure it again"
    for file in run.files:
        command = command_of(file)
        if command is None:
            yield f"{_named(file.name)} is of a model made in Python, for which there is no command."
            continue
        # No line of a command can end the block: all but the first begin with a quotation mark.
        yield f"```bash\n{command}\n```"
        if command.notes:
            yield bullets(escaped(note) for note in command.notes)


def _named(name: str) -> str:
    """The name of a task or a file, as code where nothing in it could mean more."""
    return f"`{name}`" if re.fullmatch(r"[\w.-]+", name) else escaped(name)
