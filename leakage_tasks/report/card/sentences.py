"""A figure as one sentence that can be quoted by itself: the value and all that it may not be said without."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.metrics.aggregates import FEWEST
from leakage_tasks.metrics.tiers import planted_words
from leakage_tasks.report.board.board import Column
from leakage_tasks.report.reading.figures import Figure, row_of
from leakage_tasks.report.reading.format import number, percent
from leakage_tasks.report.reading.run import TaskResult

KINDS = {
    "random": "synthetic, drawn at random",
    "organic": "synthetic, written by a person",
    "natural": "natural, of the training text itself",
}
LOWER_BOUND = "This is a lower bound on what leaks: another attack may get more."
UPPER_BOUND = "This is an upper bound, which another attack that gets more out would lower."
EXTRAPOLATED = "This is extrapolated from a fitted distribution: nothing as cheap as the secrets was counted."


def sentence(result: TaskResult, column: Column, found: Figure) -> str:
    """Value, interval, what it rests on, the tier, kind and share of the training text, the attack and its access."""
    declared = result.declared
    tested = {} if declared is None else declared.tested
    ran = [] if declared is None else [f"{attack} ({access})" for attack, access in declared.attacks]
    by = f", by {'the attack' if len(ran) == 1 else 'the attacks'} {' and '.join(ran)}" if ran else ""
    over = _over(result, column, found, tested)
    figure = f"{_value(found.value, column.unit)}{_interval(column, found)}"
    return f"{_title(column)}: {figure}{over}{_without_leak(column, found)}{by}. {_bound(result, column)}"


def _bound(result: TaskResult, column: Column) -> str:
    if column.unit == "bits" and result.values.get(HEADLINE, {}).get("fit_kept") is not None:
        return EXTRAPOLATED
    return UPPER_BOUND if column.better == "higher" else LOWER_BOUND


def _without_leak(column: Column, found: Figure) -> str:
    """What the figure would be without a leak, and what it is of controls."""
    control = [f"controls have {_value(found.control, column.unit)}"] if found.control is not None else []
    chance = [f"chance is {column.chance}"] if column.chance else []
    return f", where {' and '.join([*control, *chance])}" if chance or control else ""


def _title(column: Column) -> str:
    """The title without the number of copies, which is said with the number of canaries."""
    planted = "pooled" if column.copies is None else planted_words(column.copies)
    return column.title.removesuffix(f" ({column.task})").removesuffix(f", {planted}")


def _value(value: float | None, unit: str) -> str:
    if value is not None and unit == "share":
        return percent(value)
    return f"{number(value)} {unit}".strip()


def _interval(column: Column, found: Figure) -> str:
    if found.low is None or found.high is None:
        few = column.copies is not None and found.count is not None and found.count < FEWEST
        return f" (no interval{': too few canaries' if few else ''})"
    low = _value(found.low, column.unit).removesuffix(column.unit).strip()
    kind = f", {found.kind}" if found.kind else ""
    return f" (95 % interval {low} to {_value(found.high, column.unit)}{kind})"


def _over(result: TaskResult, column: Column, found: Figure, tested: Mapping[str, Any]) -> str:
    if found.count is None:
        return ""
    row = row_of(result, column.metric)
    counted = None if row is None or row.count is None else row_of(result, row.count)
    facts = [*_copies(column, tested), *_kinds(tested), *_share(column, tested), *_claimed(tested)]
    told = f" ({'; '.join(facts)})" if facts else ""
    return f", over {found.count:,} {counted.words if counted else 'documents'}{told}"


def _copies(column: Column, tested: Mapping[str, Any]) -> list[str]:
    """How many copies there were of a canary, where they are of several numbers of copies."""
    copies = tested.get("repetitions")
    if column.copies is not None or not isinstance(copies, Mapping) or not copies:
        return []
    *most, last = map(str, copies)
    several = f"{', '.join(most)} or {last} copies" if most else f"{last} {'copy' if last == '1' else 'copies'}"
    return [f"{several} of each"]


def _kinds(tested: Mapping[str, Any]) -> list[str]:
    kinds = tested.get("kinds")
    named = [KINDS.get(str(kind), str(kind)) for kind in kinds] if isinstance(kinds, list) else []
    return [" or ".join(named)] if named else []


def _share(column: Column, tested: Mapping[str, Any]) -> list[str]:
    """What share of the training text the canaries are, all their copies together; nothing where it is not known."""
    shares = tested.get("planted_share")
    if not isinstance(shares, Mapping) or not all(_is_share(each) for each in shares.values()):
        return []
    own = sum(shares.values()) if column.copies is None else shares.get(str(column.copies))
    return [f"{percent(own)} of the training text by characters"] if own else []


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1


def _claimed(tested: Mapping[str, Any]) -> list[str]:
    return ["planting claimed, not proven"] if tested.get("planted") and tested.get("planting") != "proven" else []
