"""A plan as a table for people and as JSON for programs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leakage_tasks.core.atomic import write_text
from leakage_tasks.core.sizes import size_words
from leakage_tasks.core.text_table import text_table
from leakage_tasks.core.version import __version__
from leakage_tasks.planning.estimate import QUANTITIES, CostEstimate, KindPlan, Plan
from leakage_tasks.planning.plan import NATURAL
from leakage_tasks.stats.totals import LEVEL

SCHEMA = 1
HEAD = ("task", "attack", "kind", "canaries", "pilot", "rows", "passes", "tokens", "time")


def table(plan: Plan) -> str:
    """A row a task, attack and kind, and what they come to in all: likely (low to high)."""
    rows: list[Sequence[str]] = [HEAD]
    rows += [_row(kind) for kind in plan.kinds]
    totals = {name: plan.total(name) for name in QUANTITIES}
    piloted = all(kind.piloted for kind in plan.kinds)
    rows.append(("in all", "", "", "", "", *(_cell(name, each, piloted) for name, each in totals.items())))
    rows.append(("worst case", "", "", "", "", *(_shown(name, each.worst) for name, each in totals.items())))
    return "\n".join([text_table(rows, right=False), *notes(plan)])


def row_text(kind: KindPlan) -> str:
    """Return the plan of one kind of canaries as a line."""
    task, attack, named, canaries, pilot, rows, _, _, seconds = _row(kind)
    return f"{task}, {attack}, {canaries} {named}, pilot {pilot}: {rows} rows, {seconds}"


def _row(kind: KindPlan) -> Sequence[str]:
    cells = (_cell(name, kind.estimate(name), bool(kind.piloted)) for name in QUANTITIES)
    ended = f" ({kind.unfinished} ended)" if kind.unfinished else ""
    return kind.task, kind.attack, kind.kind, str(kind.canaries), f"{kind.piloted}{ended}", *cells


def notes(plan: Plan) -> list[str]:
    """What the figures rest on."""
    memory, pace = plan.memory, plan.kinds[0].pace
    unknown = [kind for kind in plan.kinds if not kind.piloted]
    lines = [
        f"memory: {size_words(memory.total)}: weights {size_words(memory.weights)}, a pass {size_words(memory.batch)}, "
        f"states kept at most {size_words(memory.kept)}",
        f"pace of three timed passes: {pace.a_pass:.2g} s a pass and {pace.a_token:.2g} s a token, {pace.at_once} rows "
        "at once",
    ]
    if len(unknown) < len(plan.kinds):
        lines.append(
            f"likely (range): the range of rows, passes and tokens holds the truth in {LEVEL * 10:.0f} of 10 pilots, "
            "that of time where the machine stays as busy as it was; it reaches to the budget for as many as a pilot "
            "of this size can miss, so a larger --pilot narrows it"
        )
    if any(kind.kind != NATURAL for kind in unknown):
        lines.append(
            "without a pilot nothing is known of memorization: from the cheapest there can be to the budget, which a "
            "search for a secret that the model does not know may spend"
        )
    if any(kind.kind == NATURAL for kind in unknown):
        lines.append("natural secrets are not tried: what a search takes tells how well the model knows them")
    if any(kind.merged for kind in plan.kinds):
        lines.append("searches of different canaries share passes on this model")
    if any(kind.unfinished for kind in plan.kinds):
        lines.append(
            "the pilot's time was up before all of its canaries were done: of those that it ended the rest may be "
            "anything up to the budget, so a larger --pilot_seconds narrows the range"
        )
    if any(kind.merged is None for kind in plan.kinds):
        lines.append("there was no time to try whether searches share passes: passes are those of one after the other")
    pilot = "no pilot was made"
    if len(unknown) < len(plan.kinds):
        pilot = f"the pilot took {_seconds(plan.pilot_seconds)}"
    return [*lines, f"times leave out loading the model; {pilot}"]


def write_report(path: Path, plan: Plan, asked: Mapping[str, Any]) -> None:
    """The same as JSON, with what was ``asked``. Raises LeakageError where the file cannot be written."""
    kinds = [
        {
            **{
                name: getattr(kind, name)
                for name in ("task", "attack", "kind", "canaries", "piloted", "unfinished", "merged")
            },
            **{name: dataclasses.asdict(kind.estimate(name)) for name in QUANTITIES},
        }
        for kind in plan.kinds
    ]
    report = {
        "schema": SCHEMA,
        "version": __version__,
        **asked,
        "level": LEVEL,
        "kinds": kinds,
        "total": {name: dataclasses.asdict(plan.total(name)) for name in QUANTITIES},
        "memory_bytes": dataclasses.asdict(plan.memory),
        "pace": {name: getattr(plan.kinds[0].pace, name) for name in ("a_pass", "a_token", "at_once")},
        "pilot_seconds": plan.pilot_seconds,
    }
    write_text(path, json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _cell(quantity: str, found: CostEstimate, piloted: bool) -> str:
    low, high = _shown(quantity, found.low), _shown(quantity, found.high)
    if not piloted and low != high:
        return f"{low} to {high}"
    return low if low == high else f"{_shown(quantity, found.likely)} ({low} to {high})"


def _shown(quantity: str, value: float) -> str:
    return _seconds(value) if quantity == "seconds" else _number(value)


def _number(value: float) -> str:
    if value < 10_000:
        return f"{value:.0f}"
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    raise AssertionError(value)


def _seconds(value: float) -> str:
    if value < 120:
        return f"{value:.2g} s"
    return f"{value / 60:.3g} min" if value < 7200 else f"{value / 3600:.3g} h"
