"""From an attack's answer to the values of a task's metrics, apart from harness and model.

The tasks score their answers here, and so does whoever has saved answers: the same answers give the same figures.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

from leakage_tasks.attacks.coarse import coarsened
from leakage_tasks.attacks.finding import Finding, finding_from_json
from leakage_tasks.attacks.suffix import finding as suffix_finding
from leakage_tasks.attacks.suffix.confidences import CONFIDENCES
from leakage_tasks.attacks.suffix.finding import SelectedView, Selection
from leakage_tasks.attacks.suffix.request import DEFAULT_CONFIDENCE
from leakage_tasks.attacks.suffix.trained_confidence import TRAINED
from leakage_tasks.core.null_results import reason_of
from leakage_tasks.core.registry import Registry
from leakage_tasks.metrics import exposure, extraction
from leakage_tasks.metrics.aggregates import count
from leakage_tasks.metrics.metric import Metric, MetricSpec
from leakage_tasks.metrics.suffixes import suffix_metrics
from leakage_tasks.metrics.tiers import Copies, Grouped, copies_of
from leakage_tasks.targets.suffix.decoding_config import DECODING_OPTIONS, DecodingConfig

Goal = Literal["exposure", "extraction"]
TaskSettings = Mapping[str, Any]
"""What was asked of the attack, as a request carries it."""
Values = dict[str, Any]
"""By metric, what one document gives it; None where it gives nothing."""
Scores = dict[str, dict[str, float | None]]
"""By column, by metric."""


class Answered(NamedTuple):
    """One document's answer (a finding as JSON, or why there is none), its column of results, the task's settings."""

    answer: str
    column: str
    task_settings: TaskSettings


class DamagedAnswer(ValueError):
    """An answer that is no finding of its task, as an error of some ``kind`` told; ``place`` counts from 0.

    Its reason may hold what the answer holds.
    """

    def __init__(self, place: int, error: Exception) -> None:
        self.place, self.kind = place, type(error).__name__
        super().__init__(f"{self.kind}: {error}")


@contextmanager
def reading(place: int) -> Iterator[None]:
    """Raise DamagedAnswer for whatever reading an answer raises that is not as it was written."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise DamagedAnswer(place, error) from None


@dataclass(frozen=True)
class Scoring:
    """How a task's answers become values.

    ``read`` makes of an answer what ``values`` and ``copies`` take. ``metrics`` are its rows, ``values`` what one
    answer gives them in one column; both depend on how many canaries were planted how often; ``copies`` tells of an
    answer what :func:`copies_of` asks of its own. ``nulls`` are the rows of a task that stayed unanswered. ``unscored``
    are rows that answers do not tell, each with the reason.
    """

    task: str
    metrics: Callable[[TaskSettings, Copies], Sequence[Metric[Any, Any]]]
    values: Callable[[Any, str, TaskSettings, Copies], Values]
    nulls: Callable[[], Iterable[str]]
    read: Callable[[str], Any] = lambda answer: answer
    copies: Callable[[Any], Grouped | None] = lambda answer: None
    unscored: Callable[[TaskSettings], Mapping[str, str]] = lambda task_settings: {}
    goal: str = ""
    """What the task's attacks are for: ``exposure``, by which reports bound ε too, ``extraction``, ``suffixes``."""


SCORINGS: Registry[Scoring] = Registry("scoring", group="lm_eval_leakage.scorings")
"""Scorings by name. A task has the scoring of its own name, or the one that its class inherits."""
INHERITED = "scoring"
"""The key by which a request, and a task's declaration, name a scoring that is not called like the task."""


def register_scoring(scoring: Scoring) -> Scoring:
    """Make a scoring known. Raises PluginError for a name that is taken."""
    return SCORINGS.register(scoring.task, scoring, scoring.values)


def inherited(scoring: Scoring, task: str) -> dict[str, str]:
    """Return what a request of ``task`` says of its scoring: nothing for a scoring of the task's own name."""
    return {} if scoring.task == task else {INHERITED: scoring.task}


def scoring_name(task: str, task_settings: TaskSettings) -> str | None:
    """Return the name of the scoring of a task's answers, None for a task without one.

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
    """What the rows of a task come to over all its documents, as the harness aggregates them.

    ``read`` is what :func:`read_answers` gives, where that is known already. A task whose first answer is none is null,
    on all documents. Raises DamagedAnswer.
    """
    if not answered:
        return {}
    if reason_of(answered[0].answer) is not None:
        return {each.column: dict.fromkeys(scoring.nulls()) for each in answered}
    read = read_answers(scoring, answered) if read is None else read
    copies = copies_among(scoring, read)
    found: dict[str, dict[str, list[Any]]] = {}
    for index, (each, answer) in enumerate(zip(answered, read, strict=True)):
        rows = found.setdefault(each.column, defaultdict(list))
        with reading(index):
            values = scoring.values(answer, each.column, each.task_settings, copies)
        for name, value in values.items():
            rows[name].append(value)
    metrics = {metric.name: metric for metric in scoring.metrics(answered[0].task_settings, copies)}
    return {
        column: {name: metrics[name].aggregate(listed) for name, listed in rows.items()}
        for column, rows in found.items()
    }


def read_answers(scoring: Scoring, answered: Sequence[Answered]) -> list[Any]:
    """What the task's scoring makes of each answer. Raises DamagedAnswer."""
    found = []
    for index, each in enumerate(answered):
        with reading(index):
            found.append(scoring.read(each.answer))
    return found


def copies_among(scoring: Scoring, read: Sequence[Any]) -> Copies:
    """How many canaries were planted how often, given what :func:`read_answers` gives."""
    found = map(scoring.copies, read)
    return copies_of(each for each in found if each is not None)


_NO_ATTACK = Finding("", "", planted=False, repetitions=0, kind="", log2_size=0.0)


def canary_scoring(task: str, goal: Goal, metrics: Callable[[Copies], Sequence[Metric[Finding, Any]]]) -> Scoring:
    """Register the scoring of a task whose answers are findings about canaries, and return it.

    Args:
        task: The name of the scoring, and of the task if no other task shares it.
        goal: ``exposure`` or ``extraction``, as the task's ``GOAL``.
        metrics: Returns the rows, given how many canaries were planted how often; ``metrics`` of
            :mod:`~leakage_tasks.metrics.exposure` or :mod:`~leakage_tasks.metrics.extraction`, and others.

    Raises:
        PluginError: If the name is taken.
    """
    rows = lru_cache(lambda copies: metrics(dict(copies)))

    def listed(task_settings: TaskSettings, copies: Copies) -> Sequence[Metric[Finding, Any]]:
        return rows(tuple(sorted(copies.items(), key=str)))

    def values(found: Finding, column: str, task_settings: TaskSettings, copies: Copies) -> Values:
        return {metric.name: metric.value(found) for metric in listed(task_settings, copies) if metric.applies(found)}

    def nulls() -> list[str]:
        return [metric.name for metric in metrics({}) if metric.in_table and metric.applies(_NO_ATTACK)]

    scoring = Scoring(task, listed, values, nulls, _finding, _copies, goal=goal)
    return SCORINGS.register(task, scoring, metrics)


def _finding(answer: str) -> Finding:
    # A run may have been told to reveal what it found; its figures are told to others all the same.
    return coarsened(finding_from_json(answer))


def _copies(found: Finding) -> Grouped:
    return found.planted, found.kind, found.tier, found.family


LEFT_OUT: Metric[SelectedView, Any] = MetricSpec(
    "left_out", "pairs that do not survive the way through text, left out"
).row(lambda reading: None, count)
"""Its values come of readings that there are not."""
NULLS = ("recall", "recall_early_stop", "p_z")
"""Rows of ``suffix_extraction`` where it stayed unanswered: more would fill the table with nothing."""


def selection_of(column: str, task_settings: TaskSettings) -> Selection:
    """What a column of ``suffix_extraction`` is read off, by its name."""
    known = [*CONFIDENCES, TRAINED]
    views = [] if column in (suffix_finding.HEADLINE, *known) else [column]
    named = {
        selection.name: selection
        for selection in suffix_finding.selections(task_settings.get("confidence", DEFAULT_CONFIDENCE), known, views)
    }
    return named[column]


def reading_of(answer: str, column: str, task_settings: TaskSettings) -> SelectedView | None:
    """What a column reads off one answer; None for a pair that was left out."""
    return selection_of(column, task_settings).select(suffix_finding.suffix_finding_from_json(answer))


_suffix_rows = lru_cache(suffix_metrics)


def _rows_asked(task_settings: TaskSettings) -> Sequence[Metric[SelectedView, Any]]:
    return _suffix_rows(task_settings.get("wrong"), task_settings.get("controls") is not None)


def _suffix_values(answer: str, column: str, task_settings: TaskSettings, copies: Copies) -> Values:
    """The values of one column for one pair; all None where the pair was left out."""
    selection, finding = selection_of(column, task_settings), suffix_finding.suffix_finding_from_json(answer)
    reading = selection.select(finding)
    scheme = DecodingConfig(**{name: task_settings[name] for name in DECODING_OPTIONS if name in task_settings})
    like = reading or suffix_finding.left_out_view(finding, selection, scheme)
    rows = [metric for metric in _rows_asked(task_settings) if metric.applies(like)]
    values = {row.name: None if reading is None else row.value(reading) for row in rows}
    if selection.kind == "headline" and finding.nodes == 0:
        values[LEFT_OUT.name] = 1.0 if reading is None and not finding.control else None
    return values


def _unscored(task_settings: TaskSettings) -> Mapping[str, str]:
    written = "it counts what the run wrote to a file, and samples do not hold the guesses"
    return {} if task_settings.get("guesses") is None else {"guesses_written": written}


CANARY_EXPOSURE = canary_scoring("canary_exposure", "exposure", exposure.metrics)
CANARY_EXTRACTION = canary_scoring("canary_extraction", "extraction", extraction.metrics)
SUFFIX_EXTRACTION = register_scoring(
    Scoring(
        "suffix_extraction",
        lambda task_settings, copies: [*_rows_asked(task_settings), LEFT_OUT],
        _suffix_values,
        partial(list, NULLS),
        unscored=_unscored,
        goal="suffixes",
    )
)
