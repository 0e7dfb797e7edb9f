"""Metrics of a task from the answers of its attack, without harness or model.

Tasks score their answers here, and so does ``leakage score`` with saved answers: equal answers give equal metrics.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from leakage_tasks.attacks.classes import AttackClass
from leakage_tasks.attacks.coarse import coarsened
from leakage_tasks.attacks.finding import Finding, finding_from_json
from leakage_tasks.core import task_names
from leakage_tasks.core.null_results import reason_of
from leakage_tasks.core.registry import Registry
from leakage_tasks.metrics import exposure, extraction
from leakage_tasks.metrics.metric import Metric
from leakage_tasks.metrics.tiers import Copies, Grouped, copies_of

Goal = Literal["exposure", "extraction"]
TaskSettings = Mapping[str, Any]
"""Settings of the attack, as a request to the model contains them."""
Values = dict[str, Any]
"""Values of one document by metric; None if a metric does not apply."""
Scores = dict[str, dict[str, float | None]]
"""Aggregates by column, then by metric."""


class Answered(NamedTuple):
    """Answer of one document (a finding as JSON, or the reason for a missing one), its column, and the task's
    settings."""

    answer: str
    column: str
    task_settings: TaskSettings


class DamagedAnswer(ValueError):
    """An answer that is no finding of its task; ``kind`` is the error, ``place`` the index of the answer from 0.

    The reason may contain text of the answer.
    """

    def __init__(self, place: int, error: Exception) -> None:
        self.place, self.kind = place, type(error).__name__
        super().__init__(f"{self.kind}: {error}")


@contextmanager
def damage_reported(index: int) -> Iterator[None]:
    """Convert any error in the ``with`` block to DamagedAnswer, with the index of the answer that is parsed."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise DamagedAnswer(index, error) from None


@dataclass(frozen=True)
class Scoring:
    """The functions that compute a task's metrics from its answers.

    ``read`` parses an answer for ``values`` and ``copies``. ``metrics`` are the rows of the results, and ``values``
    computes the values of one answer in one column; both depend on the number of canaries per repetition count.
    ``copies`` returns the arguments of :func:`copies_of` for an answer. ``nulls`` are the rows of an unanswered task.
    ``unscored`` are rows that cannot be computed from answers, each with the reason.
    """

    task: str
    metrics: Callable[[TaskSettings, Copies], Sequence[Metric[Any, Any]]]
    values: Callable[[Any, str, TaskSettings, Copies], Values]
    nulls: Callable[[], Iterable[str]]
    read: Callable[[str], Any] = lambda answer: answer
    copies: Callable[[Any], Grouped | None] = lambda answer: None
    unscored: Callable[[TaskSettings], Mapping[str, str]] = lambda task_settings: {}
    goal: str = ""
    """Goal of the task's attacks: ``exposure`` (reports then also bound ε), ``extraction`` or ``suffixes``."""
    classes: tuple[AttackClass, ...] = ()
    """Classes of the task's attacks, unless an attack declares its own."""


SCORINGS: Registry[Scoring] = Registry(
    "scoring",
    "leakage_tasks.metrics.suffix_scoring",
    "leakage_tasks.metrics.untargeted",
    "leakage_tasks.metrics.contamination",
    "leakage_tasks.metrics.membership",
    "leakage_tasks.metrics.memorization",
    group="lm_eval_leakage.scorings",
)
"""Scorings by name. A task uses the scoring with its own name, or the scoring that its class inherits."""
OF_GOAL: Mapping[str, tuple[AttackClass, ...]] = {
    "exposure": ("attribute inference", "membership inference"),
    "extraction": ("reconstruction",),
    "suffixes": ("regurgitation",),
}
"""Classes of attacks by goal. Exposure ranks a secret among all values,
and compares planted canaries with controls."""
INHERITED = "scoring"
"""Key of requests and task declarations for the name of a scoring, if the task's name does not determine it."""


def register_scoring(scoring: Scoring) -> Scoring:
    """Register a scoring. Raises PluginError for a name that is taken."""
    return SCORINGS.register(scoring.task, scoring, scoring.values)


def inherited(scoring: Scoring, task: str) -> dict[str, str]:
    """Return the entry of a request that names its scoring.

    The entry is empty if this package's scoring has the name of ``task``. A scoring of another package is always named,
    so that a process without that package reports it as missing.
    """
    return {} if scoring.task == task and SCORINGS.is_built_in(task) else {INHERITED: scoring.task}


def scoring_name(task: str, task_settings: TaskSettings) -> str | None:
    """Return the name of the scoring of a task's answers, None for a task without a scoring.

    Args:
        task: The task's name.
        task_settings: The task's settings in one of its requests, empty for a task without such requests. Older
            requests name no scoring, but the goal of their attack.
    """
    goal = task_settings.get("goal")
    usual = task if task in SCORINGS else None if goal is None else f"canary_{goal}"
    name = task_settings.get(INHERITED, usual)
    return name if isinstance(name, str) else None


def score(scoring: Scoring, answered: Sequence[Answered], read: Sequence[Any] | None = None) -> Scores:
    """Aggregate the metrics of a task over all its documents, as the harness does.

    ``read`` is the result of :func:`read_answers`, if it is known already. If a task's first answer is missing, the
    task is null on all documents. Raises DamagedAnswer for an answer that cannot be parsed.
    """
    if not answered:
        return {}
    if reason_of(answered[0].answer) is not None:
        return {item.column: dict.fromkeys(scoring.nulls()) for item in answered}
    read = read_answers(scoring, answered) if read is None else read
    copies = copies_among(scoring, read)
    finding: dict[str, dict[str, list[Any]]] = {}
    for index, (item, answer) in enumerate(zip(answered, read, strict=True)):
        rows = finding.setdefault(item.column, defaultdict(list))
        with damage_reported(index):
            values = scoring.values(answer, item.column, item.task_settings, copies)
        for name, value in values.items():
            rows[name].append(value)
    metrics = {metric.name: metric for metric in scoring.metrics(answered[0].task_settings, copies)}
    return {
        column: {name: metrics[name].aggregate(listed) for name, listed in rows.items()}
        for column, rows in finding.items()
    }


def read_answers(scoring: Scoring, answered: Sequence[Answered]) -> list[Any]:
    """Parse each answer with the ``read`` function of the scoring. Raises DamagedAnswer if that fails."""
    parsed = []
    for index, item in enumerate(answered):
        with damage_reported(index):
            parsed.append(scoring.read(item.answer))
    return parsed


def copies_among(scoring: Scoring, read: Sequence[Any]) -> Copies:
    """Return the number of canaries per repetition count, from the result of :func:`read_answers`."""
    groups = map(scoring.copies, read)
    return copies_of(group for group in groups if group is not None)


_NO_ATTACK = Finding("", "", planted=False, repetitions=0, kind="", log2_size=0.0)


def canary_scoring(
    task: str,
    goal: Goal,
    metrics: Callable[[Copies], Sequence[Metric[Finding, Any]]],
    classes: Sequence[AttackClass] | None = None,
) -> Scoring:
    """Register the scoring of a task whose answers are findings on canaries, and return it.

    Args:
        task: The name of the scoring, and of the task if no other task shares it.
        goal: ``exposure`` or ``extraction``, as the task's ``GOAL``.
        metrics: Returns the rows for a number of canaries per repetition count; ``metrics`` of
            :mod:`~leakage_tasks.metrics.exposure` or :mod:`~leakage_tasks.metrics.extraction`, and others.
        classes: Classes of the attacks that declare no class; None for :data:`OF_GOAL`.

    Raises:
        PluginError: If the name is taken.
    """
    rows = lru_cache(lambda copies: metrics(dict(copies)))

    def listed(task_settings: TaskSettings, copies: Copies) -> Sequence[Metric[Finding, Any]]:
        return rows(tuple(sorted(copies.items(), key=str)))

    def values(finding: Finding, column: str, task_settings: TaskSettings, copies: Copies) -> Values:
        return {
            metric.name: metric.value(finding) for metric in listed(task_settings, copies) if metric.applies(finding)
        }

    def nulls() -> list[str]:
        return [metric.name for metric in metrics({}) if metric.in_table and metric.applies(_NO_ATTACK)]

    declared = OF_GOAL[goal] if classes is None else tuple(classes)
    scoring = Scoring(task, listed, values, nulls, _finding, _copies, goal=goal, classes=declared)
    return SCORINGS.register(task, scoring, metrics)


def _finding(answer: str) -> Finding:
    # A run may reveal its findings; its metrics still treat natural secrets as hidden.
    return coarsened(finding_from_json(answer))


def _copies(finding: Finding) -> Grouped:
    return finding.planted, finding.kind, finding.tier, finding.family


CANARY_EXPOSURE = canary_scoring(task_names.EXPOSURE, "exposure", exposure.metrics)
CANARY_EXTRACTION = canary_scoring(task_names.EXTRACTION, "extraction", extraction.metrics)
