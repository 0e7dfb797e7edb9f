"""Section of a model card on training-data leakage."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from datetime import UTC, datetime

from leakage_tasks.metrics.audit_figure import AuditFigure
from leakage_tasks.report.board.board import Board, Column, Entry
from leakage_tasks.report.card.index import unfit
from leakage_tasks.report.card.sentences import describe_attacks, limits, sentence
from leakage_tasks.report.card.tested import describe_tested
from leakage_tasks.report.load.command_line import command_of
from leakage_tasks.report.load.figures import Figure, Flag, control_words, counted_words
from leakage_tasks.report.load.format import NOTHING, flag_words, interval, number
from leakage_tasks.report.load.markdown import bullets, escaped, table
from leakage_tasks.report.load.run import Run

TITLE = "Training-data leakage"
HEAD = ["Metric", "Value", "95 % interval", "Based on"]
Shown = tuple[Column, Figure]


def section(board: Board, name: str, audited: Sequence[AuditFigure], delta: float = 0.0) -> str:
    """Write the section on leakage.

    Args:
        board: A board with one run.
        name: The model's name in the card.
        audited: The auditing metrics at ``delta``; empty if the run has no samples.
        delta: The δ of the auditing metrics.

    Returns:
        The section as Markdown, without the marks around it.
    """
    (entry,) = board.entries
    wanted = [column for column in board.columns if column.shown or column.copies is not None]
    shown = [(column, entry.figure(column)) for column in wanted if entry.figure(column).value is not None]
    parts = [
        "<!-- Written by 'leakage card', which overwrites all text between these two marks. -->",
        f"## {TITLE}",
        _opening(entry.run, name),
        *_tested(entry.run),
        *_warnings(entry),
        *_verdicts(entry),
        *_leakage(entry.run, [pair for pair in shown if pair[0].leakage], unfit(board)),
        *_useful(entry.run, [pair for pair in shown if not pair[0].leakage]),
        *_audit(audited, delta),
        "### Limits",
        bullets(map(escaped, limits(entry.run))),
        *_again(entry.run),
    ]
    return "\n\n".join(part.strip("\n") for part in parts)


def _opening(run: Run, name: str) -> str:
    date = max((task.date for task in run.tasks.values() if task.is_leakage and task.answered), default=0.0)
    day = f" on {datetime.fromtimestamp(date, UTC):%Y-%m-%d}" if date > 0 else ""
    ours = sorted({task.declared.version for task in run.tasks.values() if task.declared and task.declared.version})
    known = {"lm_eval": "lm-evaluation-harness"}
    named = [("lm-eval-leakage", version) for version in ours]
    named += [(known.get(name, name), version) for name, version in run.versions.items()]
    versions = ", ".join(f"{name} {escaped(version)}" for name, version in named)
    return (
        f"lm-eval-leakage measured{day} how much of its training data can be extracted from **{escaped(name)}**"
        f"{f' ({versions})' if versions else ''}."
    )


def _tested(run: Run) -> Iterator[str]:
    tested: dict[str, list[str]] = {}
    attacks: dict[str, list[str]] = {}
    for task, result in run.tasks.items():
        if result.is_leakage and result.declared is not None and result.answered:
            tested.setdefault(escaped(describe_tested(result.declared.tested)), []).append(_named(task))
            attacks.setdefault(escaped(describe_attacks(result.declared.attacks)), []).append(_named(task))
    yield "### Test setup"
    yield bullets(f"{', '.join(tasks)}: {words}" for words, tasks in tested.items())
    yield "The attacks, with the access to the model that they need:"
    yield bullets(f"{', '.join(tasks)}: {words}" for words, tasks in attacks.items())


def _warnings(entry: Entry) -> Iterator[str]:
    """Yield a warning on faulty measurements, on tasks without a primary metric, and on all other flags."""
    faulty = {flag.task for flag in entry.flags if flag.fault}
    trial = {flag.task for flag in entry.flags if flag.no_headline}
    of, its = _parts(entry.run, faulty, "its")
    yield from _warning(
        f"The measurement{of} is faulty: do not rely on {its} values.", (flag for flag in entry.flags if flag.fault)
    )
    of, these = _parts(entry.run, trial, "the")
    yield from _warning(
        f"For trial use: {these} values{of} do not represent the model.",
        (flag for flag in entry.flags if flag.no_headline and not flag.fault),
    )
    missing = [
        f"{_named(task)}: no values, because the model or the options do not support this task"
        for task, result in entry.run.tasks.items()
        if result.is_leakage and not result.answered and not result.predicted_only
    ]
    yield from _warning("Read with care.", (flag for flag in entry.flags if not flag.unranked), missing)


def _parts(run: Run, tasks: Container[str], article: str) -> tuple[str, str]:
    """Return the name of the tasks after "of" and the article, or "" and "these" if no other task has values."""
    named = sorted(task for task in run.tasks if task in tasks)
    others = (task for task, result in run.tasks.items() if result.is_leakage and result.answered and task not in tasks)
    return (f" of {', '.join(map(_named, named))}", article) if any(others) else ("", "these")


def _warning(heading: str, flags: Iterable[Flag], more: Sequence[str] = ()) -> Iterator[str]:
    lines = [*(escaped(words) for words in flag_words(flags)), *more]
    if lines:
        yield "\n".join([f"> **{heading}**", ">", *(f"> - {line}" for line in lines)])


def _verdicts(entry: Entry) -> Iterator[str]:
    if entry.verdicts:
        yield "### Verdict"
        yield bullets(
            f"{_named(task)}: **{verdict.label}** ({escaped(verdict.because)})"
            for task, verdict in sorted(entry.verdicts.items())
        )


def _leakage(run: Run, shown: Sequence[Shown], left_out: Container[str]) -> Iterator[str]:
    yield "### Leakage results"
    rows = [[*_cells(run, *pair), escaped(pair[0].chance or NOTHING), number(pair[1].control)] for pair in shown]
    yield table([*HEAD, "Without a leak", "Controls"], rows)
    yield bullets(
        f"{escaped(column.title)}: {escaped(column.description)}."
        + (f" Interval: {escaped(figure.kind)}." * bool(figure.kind))
        for column, figure in shown
        if column.shown
    )
    yield _legend(run, shown)
    fit = [(column, figure) for column, figure in shown if column.task not in left_out]
    if fit:
        yield "### Sentences to quote"
        yield bullets(escaped(sentence(run.tasks[column.task], column, figure)) for column, figure in fit)


def _legend(run: Run, shown: Sequence[Shown]) -> str:
    meaning = ": if they differ from chance, the measurement is faulty"
    controls = control_words((column.control for column, figure in shown if figure.control is not None), meaning)
    size = any("|R|" in (column.chance or "") for column, _ in shown)
    sentences = ["The arrow points to the side that leaks less."]
    sentences += [controls] if controls else []
    sentences += [f"{escaped('|R|')} is the number of possible values of a secret."] if size else []
    files = ", ".join(_named(file.name) for file in run.files)
    return " ".join([*sentences, f"{_others(run, shown):,} more rows are in {files}."])


def _others(run: Run, shown: Sequence[Shown]) -> int:
    """Count the metrics of the results that the card does not show, neither separately nor as context of another
    metric."""
    seen = set()
    for column, _ in shown:
        row = run.tasks[column.task].rows.get(column.name)
        context = () if row is None else (*(row.interval or ()), row.control, row.count)
        seen |= {(column.task, column.filter, metric) for metric in (column.name, *context)}
    available = {
        (task, of, metric)
        for task, result in run.tasks.items()
        for of, row in result.values.items()
        for metric, value in row.items()
        if value is not None
    }
    return len(available - seen)


def _cells(run: Run, column: Column, figure: Figure) -> list[str]:
    """Return the cells of a value for the columns of :data:`HEAD`."""
    over = counted_words(run.tasks[column.task], column.name)
    basis = NOTHING if figure.count is None else f"{figure.count:,} {escaped(over)}"
    return [escaped(column.heading), number(figure.value), interval(figure) or NOTHING, basis]


def _useful(run: Run, shown: Sequence[Shown]) -> Iterator[str]:
    if shown:
        yield "### Usefulness: results of other tasks"
        yield table(HEAD, [_cells(run, column, figure) for column, figure in shown])


def _audit(audited: Sequence[AuditFigure], delta: float) -> Iterator[str]:
    """Yield the auditing metrics with their meaning, or nothing without samples."""
    if not audited:
        return
    yield f"### Audit with controls, at δ = {delta:g}"
    computed = [metric for metric in audited if metric.refused is None]
    rows = [
        [
            escaped(metric.title),
            f"{'≥ ' if metric.lower_bound else ''}{number(metric.value)}",
            interval(metric) or NOTHING,
            escaped(metric.basis),
            number(metric.chance),
            number(metric.best),
        ]
        for metric in computed
    ]
    if rows:
        yield table([*HEAD, "Without a leak", "Perfect attack"], rows)
    refused = [metric for metric in audited if metric.refused is not None]
    texts = [(metric.title, metric.words) for metric in computed if metric.words] + [
        (metric.title, f"no value: {metric.refused}") for metric in refused
    ]
    yield bullets(f"{escaped(title)}: {escaped(words)}." for title, words in texts)


def _again(run: Run) -> Iterator[str]:
    yield "### Command to reproduce"
    for file in run.files:
        command = command_of(file)
        if command is None:
            yield f"{_named(file.name)} comes from a model object in Python, so there is no command."
            continue
        # No line of the command can end the code block: each line after the first begins with a quotation mark.
        yield f"```bash\n{command}\n```"
        if command.notes:
            yield bullets(escaped(note) for note in command.notes)


def _named(name: str) -> str:
    return f"`{name}`" if re.fullmatch(r"[\w.-]+", name) else escaped(name)
