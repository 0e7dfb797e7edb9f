"""Leaderboard as data: groups of comparable runs, their order, columns and flags."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.metrics.conclusion import Verdict
from leakage_tasks.metrics.metric import MetricSpec
from leakage_tasks.report.load.comparability import group_comparable, measured, separation_reason
from leakage_tasks.report.load.figures import Figure, Flag, figure, flags, verdict_on
from leakage_tasks.report.load.format import ARROWS, NOTHING
from leakage_tasks.report.load.results import Run, TaskResult


@dataclass(frozen=True, kw_only=True)
class Column(MetricSpec):
    """One column: a metric of a task.

    ``shown`` is False for a column that appears only if all columns are requested; ``leakage`` is False for usefulness.
    ``conditions`` are those of the runs in this column, if the task has several columns because runs differ in them.
    """

    task: str
    filter: str
    leakage: bool
    shown: bool
    conditions: str = ""

    @property
    def key(self) -> str:
        """The column's name, unique on the board."""
        more = ("" if self.filter == HEADLINE else self.filter, self.conditions.replace(" ", "-"))
        return "/".join([self.task, self.name, *filter(None, more)])

    @property
    def heading(self) -> str:
        """The title with the better direction and the unit."""
        unit = f", {self.unit}" if self.unit and self.unit not in ("share", "probability") else ""
        return f"{self.title}{unit} {ARROWS[self.direction]}".rstrip()


@dataclass(frozen=True)
class Entry:
    """One run on the board: its values by column key, its flags, and its place in its group, from 1.

    ``verdicts`` holds, by task, the verdict on each primary metric that can be tested against chance.

    ``place`` is None if the run is not ranked: there are no common columns, the controls show a fault, or a task has no
    primary metric.
    """

    run: Run
    figures: Mapping[str, Figure]
    flags: tuple[Flag, ...]
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    place: int | None = None

    @property
    def place_text(self) -> str:
        """The place as text, or a dash if the run is not ranked."""
        return NOTHING if self.place is None else str(self.place)

    @property
    def unranked(self) -> bool:
        """True if the controls show a fault or a task has no primary metric."""
        return any(flag.unranked for flag in self.flags)

    def figure(self, column: Column) -> Figure:
        """Return the run's value in a column, or an empty figure."""
        return self.figures.get(column.key, _EMPTY)


_EMPTY = Figure(None)


@dataclass(frozen=True)
class Group:
    """Runs that may be compared, the least leaking first; ``reason`` says why they are not in the first group."""

    entries: tuple[Entry, ...]
    reason: str = ""


@dataclass(frozen=True)
class Board:
    """Columns (leakage first) and groups of runs (the largest first, runs without leakage results last).

    ``ranked_by`` lists the columns that decide the places, the most important first.
    """

    columns: tuple[Column, ...]
    groups: tuple[Group, ...]
    ranked_by: tuple[str, ...] = ()

    @property
    def entries(self) -> list[Entry]:
        """All runs, group by group."""
        return [entry for group in self.groups for entry in group.entries]


def make_board(runs: Sequence[Run]) -> Board:
    """Arrange runs on a board; runs that cannot be compared with the first group form further groups with a reason."""
    apart = _measured_apart(runs)
    columns = _columns(runs, apart)
    ranking = [column for column in columns if column.leakage and column.shown and column.direction is not None]
    grouped = sorted(
        group_comparable(runs), key=lambda members: (not measured(members[0]), -len(members), members[0].name)
    )
    groups = tuple(
        Group(
            _rank([_entry(run, columns, apart) for run in members], ranking),
            separation_reason(members, grouped[0]) if index else "",
        )
        for index, members in enumerate(grouped)
    )
    return Board(columns, groups, tuple(column.key for column in ranking))


def _measured_apart(runs: Sequence[Run]) -> set[str]:
    """Return the usefulness tasks that runs measured under several conditions."""
    conditions: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        for task, result in run.tasks.items():
            conditions[task].add(result.conditions)
    return {task for task, several in conditions.items() if len(several) > 1}


def _entry(run: Run, columns: Sequence[Column], apart: Collection[str]) -> Entry:
    figures = {
        column.key: figure(result, column.name, column.filter)
        for column in columns
        if (result := run.tasks.get(column.task)) is not None
        and column.name in result.values.get(column.filter, {})
        and (column.task not in apart or column.conditions == result.conditions)
    }
    raised_flags = tuple(flag for _, result in sorted(run.tasks.items()) for flag in flags(result))
    verdicts = {task: verdict for task, result in run.tasks.items() if (verdict := verdict_on(result)) is not None}
    return Entry(run, figures, raised_flags, verdicts)


def _rank(entries: Sequence[Entry], ranking: Sequence[Column]) -> tuple[Entry, ...]:
    """Rank the entries, the least leaking first; equal values share a place.

    Only columns that all ranked runs have count. Unranked runs (faulty controls, no primary metric) come last.
    """
    ordered = sorted(entries, key=lambda entry: entry.run.name)
    sound = [entry for entry in ordered if not entry.unranked]
    common = [column for column in ranking if all(entry.figure(column).value is not None for entry in sound)]
    if not sound or not common:
        return tuple(ordered)

    def key(entry: Entry) -> list[float]:
        # Values with the sign that makes lower better for the defender.
        return [(entry.figure(column).value or 0.0) * (1 if column.direction == "lower" else -1) for column in common]

    sound.sort(key=key)
    keys = [key(entry) for entry in sound]
    placed = [dataclasses.replace(entry, place=1 + bisect_left(keys, key(entry))) for entry in sound]
    return (*placed, *(entry for entry in ordered if entry.unranked))


def _columns(runs: Sequence[Run], apart: Collection[str]) -> tuple[Column, ...]:
    by_key: dict[str, Column] = {}
    runs_with: Counter[str] = Counter()
    for run in runs:
        for _, result in sorted(run.tasks.items()):
            hidden = any(any(run.tasks[parent].values.values()) for parent in result.parents if parent in run.tasks)
            for column in _columns_of(result, hidden):
                if result.task in apart and result.conditions:
                    title = f"{column.title}, {result.conditions}"
                    column = dataclasses.replace(column, title=title, conditions=result.conditions)
                known = by_key.setdefault(column.key, column)
                by_key[column.key] = dataclasses.replace(known, shown=known.shown or column.shown)
                runs_with[column.key] += 1
    # Usefulness: the columns of most runs first. Leakage: the order of ranking.
    ordered = sorted(
        by_key.values(), key=lambda column: (not column.leakage, -runs_with[column.key] * (not column.leakage))
    )
    titles = Counter(column.title for column in ordered)
    return tuple(
        dataclasses.replace(column, title=f"{column.title} ({column.task})") if titles[column.title] > 1 else column
        for column in ordered
    )


def _columns_of(result: TaskResult, hidden: bool) -> list[Column]:
    if result.declared is None:
        pairs = [(metric, column) for column, values in result.values.items() for metric in values]
        return [_plain(result, *pair, shown=not hidden and not index) for index, pair in enumerate(pairs)]
    rows = result.declared.rows
    ends = {end for row in rows.values() for end in row.interval or ()}
    values = result.values.get(HEADLINE, {})
    # The declaration lists the most important metrics first.
    return [
        Column(
            **{**vars(row), "title": row.title or row.name},
            task=result.task,
            filter=HEADLINE,
            leakage=result.is_leakage,
            shown=row.headline,
        )
        for name, row in rows.items()
        if name in values and name not in ends
    ]


def _plain(result: TaskResult, metric: str, column: str, shown: bool) -> Column:
    title = result.task if result.task.endswith(f"_{metric}") else f"{result.task} {metric}"
    return Column(
        task=result.task,
        name=metric,
        filter=column,
        title=title if column == HEADLINE else f"{title} ({column})",
        description=f"{metric} of the task {result.task}, as the harness gives it",
        direction=result.better(metric),
        leakage=False,
        shown=shown,
    )
