"""Answers to the questions of the annexes: figures of the run by class of attack, or commands that measure them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from leakage_tasks.attacks import ATTACKS
from leakage_tasks.attacks.classes import AttackClass
from leakage_tasks.metrics.audit_figure import AuditFigure
from leakage_tasks.metrics.scoring import OF_GOAL, SCORINGS, Scoring
from leakage_tasks.report.evidence.omissions import command_for
from leakage_tasks.report.evidence.questions import DOCUMENTS, NO_PROMISE, Topic
from leakage_tasks.report.evidence.record import Annex, Question, Row, Summary
from leakage_tasks.report.load.format import audit_words, number
from leakage_tasks.report.load.results import Run, TaskResult

NOT_TESTED = "not tested in this run"
_MEMBERSHIP: AttackClass = "membership inference"


def classes_of(result: TaskResult) -> tuple[str, ...]:
    """Return the classes of the attacks behind a task's results, as declared, or else those of its scoring's goal."""
    declared = result.declared
    if declared is None or declared.classes:
        return () if declared is None else tuple(sorted(declared.classes))
    scoring = SCORINGS[result.scoring_name] if result.scoring_name in SCORINGS else None
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
        yield Annex(document.title, document.name, NO_PROMISE, tuple(questions))


def _question(
    run: Run,
    topic: Topic,
    summary: Sequence[Summary],
    rows: Sequence[Row],
    audited: Sequence[AuditFigure],
    release: str,
) -> Question:
    if topic.section:
        return Question(topic.topic, topic.question, (_section(topic, release),), "")
    figures = [words for task in summary if set(task.classes) & set(topic.classes) for words in _figures(task, rows)]
    if _MEMBERSHIP in topic.classes:
        figures += [f"{figure.title}: {audit_words(figure)}" for figure in audited]
    if figures:
        return Question(topic.topic, topic.question, tuple(figures), "")
    commands = [command_for(run, name) for name in _tasks(topic.classes)]
    words = NOT_TESTED if commands else f"{NOT_TESTED}; no installed task declares this class"
    return Question(topic.topic, topic.question, (words,), commands[0] if commands else "")


def _section(topic: Topic, release: str) -> str:
    if topic.section != "release":
        return f"see {topic.section.replace('Section', 'section')}" if topic.section != "no section" else "no figure"
    return f"stated by the author of the report: {release}" if release else "not stated: give --release"


def _tasks(classes: Sequence[AttackClass]) -> list[str]:
    """Return the tasks with attacks of these classes."""
    goals = {attack.goal for attack in ATTACKS.values() if set(attack.classes) & set(classes)}
    found = {name for name, scoring in SCORINGS.items() if set(_classes(scoring)) & set(classes)}
    by_attack = {name for name, scoring in SCORINGS.items() if scoring.goal in goals}
    return [*sorted(found), *sorted(by_attack - found)]


def _figures(task: Summary, rows: Sequence[Row]) -> Iterator[str]:
    """Yield each primary value of a task with its context."""
    if task.caution:
        yield f"{task.task}: no figure represents the model: {task.caution}"
        return
    verdict = [f"verdict: {task.verdict}"] if task.verdict else []
    for row in rows:
        if row.task == task.task and row.primary and row.leakage:
            ends = f" [{number(row.low)}, {number(row.high)}]" if row.low is not None and row.high is not None else ""
            context = [f"n = {row.count:,}"] if row.count is not None else []
            context += [f"controls {number(row.control)}"] if row.control is not None else []
            context += [f"{row.chance} without a leak"] if row.chance else []
            yield f"{task.task}: {row.title} {number(row.value)}{ends} ({', '.join([*context, *verdict])})"
