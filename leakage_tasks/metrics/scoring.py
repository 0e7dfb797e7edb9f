"""Metrics of a task from the answers of its attack, without harness or model.

Tasks score their answers here, and so does ``leakage score`` with saved answers: equal answers give equal metrics.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

from leakage_tasks.attacks.classes import AttackClass
from leakage_tasks.attacks.coarse import coarsened
from leakage_tasks.attacks.finding import Finding, finding_from_json
from leakage_tasks.attacks.suffix import finding as suffix_finding
from leakage_tasks.attacks.suffix.confidences import CONFIDENCES
from leakage_tasks.attacks.suffix.finding import SelectedView, Selection, SuffixFinding
from leakage_tasks.attacks.suffix.request import DEFAULT_CONFIDENCE
from leakage_tasks.attacks.suffix.trained_confidence import TRAINED
from leakage_tasks.attacks.untargeted.finding import UntargetedFinding, untargeted_finding_from_json
from leakage_tasks.attacks.untargeted.request import UntargetedRequest
from leakage_tasks.core.null_results import reason_of
from leakage_tasks.core.option import options_of
from leakage_tasks.core.registry import Registry
from leakage_tasks.metrics import exposure, extraction
from leakage_tasks.metrics.aggregates import count
from leakage_tasks.metrics.metric import Metric, MetricSpec
from leakage_tasks.metrics.suffixes import suffix_metrics
from leakage_tasks.metrics.tiers import Copies, Grouped, copies_of
from leakage_tasks.metrics.untargeted import NULLS as UNTARGETED_NULLS
from leakage_tasks.metrics.untargeted import rows_by_kind, untargeted_metrics
from leakage_tasks.metrics.untargeted_values import UntargetedView
from leakage_tasks.targets.suffix.decoding_config import DECODING_OPTIONS, DecodingConfig

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
"""Key of requests and task declarations for the name of a scoring that differs from the task's name."""


def register_scoring(scoring: Scoring) -> Scoring:
    """Register a scoring. Raises PluginError for a name that is taken."""
    return SCORINGS.register(scoring.task, scoring, scoring.values)


def inherited(scoring: Scoring, task: str) -> dict[str, str]:
    """Return the entry of a request that names its scoring; empty if the scoring has the name of ``task``."""
    return {} if scoring.task == task else {INHERITED: scoring.task}


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


LEFT_OUT: Metric[SelectedView, Any] = MetricSpec(
    "left_out", "pairs left out because their tokens change when decoded and encoded again"
).row(lambda selected: None, count, in_table=True)
"""Metric whose values are set in :func:`values_of_pair`, because a pair that was left out has no view."""
NULLS = ("recall", "recall_early_stop", "p_z")
"""Rows of an unanswered ``suffix_extraction``; with all rows, the table would be full of nulls."""


def selection_of(column: str, task_settings: TaskSettings) -> Selection:
    """Return the view and confidence that a column of ``suffix_extraction`` shows, from the column's name."""
    known = [*CONFIDENCES, TRAINED]
    views = [] if column in (suffix_finding.HEADLINE, *known) else [column]
    named = {
        selection.name: selection
        for selection in suffix_finding.selections(task_settings.get("confidence", DEFAULT_CONFIDENCE), known, views)
    }
    return named[column]


def selected_view(answer: str, column: str, task_settings: TaskSettings) -> SelectedView | None:
    """Return the view of one answer for a column; None for a pair that was left out."""
    return selection_of(column, task_settings).select(suffix_finding.suffix_finding_from_json(answer))


_suffix_rows = lru_cache(suffix_metrics)


def _rows_for(task_settings: TaskSettings) -> Sequence[Metric[SelectedView, Any]]:
    return _suffix_rows(task_settings.get("wrong"), task_settings.get("controls") is not None)


def _suffix_values(answer: str, column: str, task_settings: TaskSettings, copies: Copies) -> Values:
    selection, finding = selection_of(column, task_settings), suffix_finding.suffix_finding_from_json(answer)
    scheme = DecodingConfig(**{name: task_settings[name] for name in DECODING_OPTIONS if name in task_settings})
    return values_of_pair(finding, selection, scheme, _rows_for(task_settings))


def values_of_pair(
    finding: SuffixFinding, selection: Selection, scheme: DecodingConfig, rows: Iterable[Metric[SelectedView, Any]]
) -> Values:
    """Return the values of ``rows`` for the selected view of one pair; all None if the pair was left out.

    ``scheme`` is the run's decoding, which decides on the rows of a pair that was left out.
    """
    selected = selection.select(finding)
    like = selected or suffix_finding.left_out_view(finding, selection, scheme)
    values: Values = {row.name: None if selected is None else row.value(selected) for row in rows if row.applies(like)}
    if selection.kind == "headline" and finding.nodes == 0:
        values[LEFT_OUT.name] = 1.0 if selected is None and not finding.control else None
    return values


def _unscored(task_settings: TaskSettings) -> Mapping[str, str]:
    written = "it counts guesses that the run wrote to a file, which are not in the samples"
    return {} if task_settings.get("guesses") is None else {"guesses_written": written}


CANARY_EXPOSURE = canary_scoring("canary_exposure", "exposure", exposure.metrics)
CANARY_EXTRACTION = canary_scoring("canary_extraction", "extraction", extraction.metrics)
SUFFIX_EXTRACTION = register_scoring(
    Scoring(
        "suffix_extraction",
        lambda task_settings, copies: [*_rows_for(task_settings), LEFT_OUT],
        _suffix_values,
        partial(list, NULLS),
        unscored=_unscored,
        goal="suffixes",
        classes=OF_GOAL["suffixes"],
    )
)


def untargeted_rows(task_settings: TaskSettings, copies: Copies | None = None) -> Sequence[Metric[UntargetedView, Any]]:
    """Return the metrics of ``untargeted_extraction`` for the settings of a request. Raises OptionError."""
    given = {name: task_settings[name] for name in options_of(UntargetedRequest) if name in task_settings}
    return untargeted_metrics(UntargetedRequest(**given), task_settings.get("controls") is not None)


def _untargeted_values(finding: UntargetedFinding, column: str, task_settings: TaskSettings, copies: Copies) -> Values:
    view, rows = UntargetedView(column, finding), untargeted_rows(task_settings)
    if column != suffix_finding.HEADLINE and task_settings.get("rows") != "all":
        rows = rows_by_kind(tuple(rows))
    return {row.name: row.value(view) for row in rows if row.applies(view)}


UNTARGETED_EXTRACTION = register_scoring(
    Scoring(
        "untargeted_extraction",
        untargeted_rows,
        _untargeted_values,
        partial(list, UNTARGETED_NULLS),
        untargeted_finding_from_json,
        classes=("regurgitation",),
    )
)
