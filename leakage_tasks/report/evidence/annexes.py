"""Answers to the questions of the annexes: figures of the run by class of attack, or commands that measure them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from leakage_tasks.attacks import ATTACKS
from leakage_tasks.attacks.classes import AttackClass
from leakage_tasks.metrics.audit_figure import AuditFigure
from leakage_tasks.metrics.scoring import OF_GOAL, SCORINGS, Scoring
from leakage_tasks.report.card.served import fits_model
from leakage_tasks.report.evidence.omissions import command_for
from leakage_tasks.report.evidence.questions import DOCUMENTS, NO_PROMISE, NOT_TESTED, Topic
from leakage_tasks.report.evidence.record import Annex, AnnexQuestion, Row, Summary
from leakage_tasks.report.load.format import audit_words, number
from leakage_tasks.report.load.results import Run, TaskResult

_MEMBERSHIP: AttackClass = "membership inference"


def classes_of(result: TaskResult) -> tuple[str, ...]:
    """Return the classes of the attacks behind a task's results, as declared, or else by its scoring."""
    declared = result.declared
    if declared is None or declared.classes:
        return () if declared is None else tuple(sorted(declared.classes))
    scoring = SCORINGS.get(result.scoring_name)
    usual = () if scoring is None else _classes(scoring)
    ran = [ATTACKS[name].classes if name in ATTACKS else () for name, _ in declared.attacks]
    return tuple(sorted({kind for classes in ran or [()] for kind in classes or usual}))


def _classes(scoring: Scoring) -> tuple[AttackClass, ...]:
    return scoring.classes or OF_GOAL.get(scoring.goal, ())


def annexes_of(
    run: Run, summary: Sequence[Summary], rows: Sequence[Row], audited: Sequence[AuditFigure], release: str
) -> Iterator[Annex]:
    """Yield the annexes.

    Args:
        run: The run.
        summary: The summary of each task.
        rows: The values of the results.
        audited: The auditing metrics, which are figures on membership.
        release: The release of the model in the words of the report's author, or an empty text.
    """
    for document in DOCUMENTS:
        questions = (_question(run, topic, summary, rows, audited, release) for topic in document.topics)
        yield Annex(document.title, f"{document.name}. {document.source}", NO_PROMISE, tuple(questions))


def _question(
    run: Run,
    topic: Topic,
    summary: Sequence[Summary],
    rows: Sequence[Row],
    audited: Sequence[AuditFigure],
    release: str,
) -> AnnexQuestion:
    if topic.section:
        return AnnexQuestion(topic.topic, topic.question, (_section(topic, release),), "")
    figures = [words for task in summary if set(task.classes) & set(topic.classes) for words in _figures(task, rows)]
    if _MEMBERSHIP in topic.classes:
        figures += [f"{figure.title}: {audit_words(figure)}" for figure in audited if figure.refused is None]
    if figures:
        return AnnexQuestion(topic.topic, topic.question, tuple(figures), "")
    words, command = _missing(run, topic.classes)
    return AnnexQuestion(topic.topic, topic.question, (words,), command)


def _section(topic: Topic, release: str) -> str:
    if topic.section != "release":
        return f"see {topic.section.replace('Section', 'section')}" if topic.section != "no section" else "no figure"
    return f"stated by the author of the report: {release}" if release else "not stated: give --release"


def _missing(run: Run, classes: Sequence[AttackClass]) -> tuple[str, str]:
    """Return the words for classes without a figure, and the command that would measure the first of them."""
    tasks = sorted(name for name, scoring in SCORINGS.items() if set(_classes(scoring)) & set(classes))
    if tasks:
        return NOT_TESTED, command_for(run, tasks[0])
    attacks = sorted(name for name, attack in ATTACKS.items() if set(attack.classes) & set(classes))
    fitting = [name for name in attacks if fits_model(run, ATTACKS[name])]
    if fitting:
        return NOT_TESTED, command_for(run, f"canary_{ATTACKS[fitting[0]].goal}", fitting[0])
    if attacks:
        return f"{NOT_TESTED}; the attacks of this class ({', '.join(attacks)}) are for other kinds of model", ""
    return f"{NOT_TESTED}; no installed task declares this class", ""


def _figures(task: Summary, rows: Sequence[Row]) -> Iterator[str]:
    if task.caution:
        yield f"{task.task}: no figure represents the model: {task.caution}"
        return
    verdict = [f"verdict: {task.verdict}"] if task.verdict else []
    primary = [row for row in rows if row.task == task.task and row.primary and row.leakage]
    # A value without a reference could be read as a leak.
    for row in [row for row in primary if row.control is not None or row.chance] or primary[:1]:
        ends = f" [{number(row.low)}, {number(row.high)}]" if row.low is not None and row.high is not None else ""
        context = [f"n = {row.count:,}"] if row.count is not None else []
        context += [f"controls {number(row.control)}"] if row.control is not None else []
        context += [f"{row.chance} without a leak"] if row.chance else []
        yield f"{task.task}: {row.title} {number(row.value)}{ends} ({', '.join([*context, *verdict])})"
