"""The leaderboard as data: which runs may be ranked against each other, in which columns, with what warnings."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.metrics.metric import MetricSpec
from leakage_tasks.metrics.verdict import Verdict
from leakage_tasks.report.load.comparability import apart, comparable, measured
from leakage_tasks.report.load.figures import Figure, Flag, figure, flags, verdict_on
from leakage_tasks.report.load.format import ARROWS, NOTHING
from leakage_tasks.report.load.results import Run, TaskResult


@dataclass(frozen=True, kw_only=True)
class Column(MetricSpec):
    """One column: a metric of a task.

    ``shown`` tells whether it is there without being asked for; ``leakage`` whether it stands with leakage or with
    usefulness.
    """

    task: str
    filter: str
    leakage: bool
    shown: bool

    @property
    def key(self) -> str:
        """Its name, unique on the board."""
        return f"{self.task}/{self.name}" + ("" if self.filter == HEADLINE else f"/{self.filter}")

    @property
    def heading(self) -> str:
        """The title with the direction that is better and the unit."""
        unit = f", {self.unit}" if self.unit and self.unit not in ("share", "probability") else ""
        return f"{self.title}{unit} {ARROWS[self.direction]}".rstrip()


@dataclass(frozen=True)
class Entry:
    """One run on the board: its figures by column key, its flags, and its place in its group, from 1.

    ``verdicts`` are by task, of those whose figures can be held against chance, and have a headline.

    ``place`` is None where there is nothing to rank by, where the controls show a fault and where no figure is a
    headline.
    """

    run: Run
    figures: Mapping[str, Figure]
    flags: tuple[Flag, ...]
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    place: int | None = None

    @property
    def place_text(self) -> str:
        """Its place; a dash where it is not ranked."""
        return NOTHING if self.place is None else str(self.place)

    @property
    def unranked(self) -> bool:
        """Whether its controls show a fault, or none of its figures is a headline."""
        return any(flag.unranked for flag in self.flags)

    def figure(self, column: Column) -> Figure:
        """Its figure of a column; an empty one where it has none."""
        return self.figures.get(column.key, _EMPTY)


_EMPTY = Figure(None)


@dataclass(frozen=True)
class Group:
    """Runs that may be compared, the least leaking first; ``reason`` says why they stand apart from the first group."""

    entries: tuple[Entry, ...]
    reason: str = ""


@dataclass(frozen=True)
class Board:
    """Columns (leakage first) and groups of runs (the largest first, those without leakage figures last).

    ``ranked_by`` are the columns that places go by, the first one deciding.
    """

    columns: tuple[Column, ...]
    groups: tuple[Group, ...]
    ranked_by: tuple[str, ...] = ()

    @property
    def entries(self) -> list[Entry]:
        """All runs, group by group."""
        return [entry for group in self.groups for entry in group.entries]


def make_board(runs: Sequence[Run]) -> Board:
    """Runs side by side; those whose figures cannot be compared are in groups of their own, with the reason."""
    columns = _columns(runs)
    ranking = [column for column in columns if column.leakage and column.shown and column.direction is not None]
    gathered = sorted(comparable(runs), key=lambda members: (not measured(members[0]), -len(members), members[0].name))
    groups = tuple(
        Group(_rank([_entry(run, columns) for run in members], ranking), apart(members, gathered[0]) if at else "")
        for at, members in enumerate(gathered)
    )
    return Board(columns, groups, tuple(column.key for column in ranking))


def _entry(run: Run, columns: Sequence[Column]) -> Entry:
    found = {
        column.key: figure(run.tasks[column.task], column.name, column.filter)
        for column in columns
        if column.task in run.tasks and column.name in run.tasks[column.task].values.get(column.filter, {})
    }
    raised = tuple(flag for _, result in sorted(run.tasks.items()) for flag in flags(result))
    said = {task: verdict for task, result in run.tasks.items() if (verdict := verdict_on(result)) is not None}
    return Entry(run, found, raised, said)


def _rank(entries: Sequence[Entry], ranking: Sequence[Column]) -> tuple[Entry, ...]:
    """The entries with their places, the least leaking first; equal figures share a place.

    Places go by the columns that all of them have, those whose controls show a fault, or that have no headline, left
    out of it.
    """
    ordered = sorted(entries, key=lambda entry: entry.run.name)
    sound = [entry for entry in ordered if not entry.unranked]
    common = [column for column in ranking if all(entry.figure(column).value is not None for entry in sound)]
    if not sound or not common:
        return tuple(ordered)

    def key(entry: Entry) -> list[float]:
        # What the figures are to the defender, the lower the better.
        return [(entry.figure(column).value or 0.0) * (1 if column.direction == "lower" else -1) for column in common]

    sound.sort(key=key)
    keys = [key(entry) for entry in sound]
    placed = [dataclasses.replace(entry, place=1 + bisect_left(keys, key(entry))) for entry in sound]
    return (*placed, *(entry for entry in ordered if entry.unranked))


def _columns(runs: Sequence[Run]) -> tuple[Column, ...]:
    found: dict[str, Column] = {}
    runs_with: Counter[str] = Counter()
    for run in runs:
        for _, result in sorted(run.tasks.items()):
            hidden = any(any(run.tasks[parent].values.values()) for parent in result.parents if parent in run.tasks)
            for column in _columns_of(result, hidden):
                known = found.setdefault(column.key, column)
                found[column.key] = dataclasses.replace(known, shown=known.shown or column.shown)
                runs_with[column.key] += 1
    # Of usefulness first what sets most runs side by side; of leakage the order that places go by.
    ordered = sorted(
        found.values(), key=lambda column: (not column.leakage, -runs_with[column.key] * (not column.leakage))
    )
    titles = Counter(column.title for column in ordered)
    return tuple(
        dataclasses.replace(column, title=f"{column.title} ({column.task})") if titles[column.title] > 1 else column
        for column in ordered
    )


def _columns_of(result: TaskResult, hidden: bool) -> list[Column]:
    if result.declared is None:
        pairs = [(metric, each) for each, values in result.values.items() for metric in values]
        return [_plain(result, *pair, shown=not hidden and not index) for index, pair in enumerate(pairs)]
    rows = result.declared.rows
    ends = {end for row in rows.values() for end in row.interval or ()}
    there = result.values.get(HEADLINE, {})
    # In the order of their declaration, which is that of their weight.
    return [
        Column(
            **{**vars(row), "title": row.title or row.name},
            task=result.task,
            filter=HEADLINE,
            leakage=result.is_leakage,
            shown=row.headline,
        )
        for name, row in rows.items()
        if name in there and name not in ends
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
