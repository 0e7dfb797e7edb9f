"""A plan as a text table and as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.core.atomic import write_text
from leakage_tasks.core.sizes import size_words
from leakage_tasks.core.text_table import text_table
from leakage_tasks.core.version import __version__
from leakage_tasks.planning.estimate import QUANTITIES, CostEstimate, KindPlan, Plan
from leakage_tasks.stats.totals import LEVEL

SCHEMA = 1
HEAD = ("task", "attack", "kind", "canaries", "pilot", "rows", "passes", "tokens", "time")


def table(plan: Plan) -> str:
    """Return a table with a row per task, attack and kind, and their total as likely value (low to high)."""
    rows: list[Sequence[str]] = [HEAD]
    rows += [_row(kind) for kind in plan.kinds]
    totals = {name: plan.total(name) for name in QUANTITIES}
    known = all(kind.known for kind in plan.kinds)
    rows.append(("total", "", "", "", "", *(_cell(name, estimate, known) for name, estimate in totals.items())))
    rows.append(("worst case", "", "", "", "", *(_shown(name, estimate.worst) for name, estimate in totals.items())))
    return "\n".join([text_table(rows, right=False), *notes(plan)])


def row_text(kind: KindPlan) -> str:
    """Return the plan for one kind of canary as a line."""
    task, attack, named, canaries, pilot, rows, _, _, seconds = _row(kind)
    return f"{task}, {attack}, {canaries} {named}, pilot {pilot}: {rows} rows, {seconds}"


def _row(kind: KindPlan) -> Sequence[str]:
    cells = (_cell(name, kind.estimate(name), kind.known) for name in QUANTITIES)
    ended = f" ({kind.unfinished} ended)" if kind.unfinished else ""
    return kind.task, kind.attack, kind.kind, str(kind.canaries), f"{kind.piloted}{ended}", *cells


def notes(plan: Plan) -> list[str]:
    """Return notes that explain how the estimates were made."""
    memory, pace = plan.memory, plan.kinds[0].pace
    unknown = [kind for kind in plan.kinds if not kind.piloted]
    lines = [
        f"memory: {size_words(memory.total)}: weights {size_words(memory.weights)}, a forward pass "
        f"{size_words(memory.batch)}, stored KV caches at most {size_words(memory.kept)}",
        f"speed in three timed passes: {pace.a_pass:.2g} s per pass and {pace.a_token:.2g} s per token, "
        f"{pace.at_once} rows per pass",
    ]
    if any(kind.known for kind in plan.kinds):
        lines.append(
            "likely (range): the range of rows, passes and tokens contains the true value in about "
            f"{LEVEL * 10:.0f} of 10 pilots, and the range of time too if the load of the machine stays equal; a "
            "larger --pilot narrows the range"
        )
    if any(map(_is_random, plan.kinds)):
        lines.append("canaries that a pilot of this size can miss count with the most that their attack may read")
    if any(kind.kind != NATURAL for kind in unknown):
        lines.append(
            "without a pilot nothing is known about memorization: the range goes from one row per canary to the most "
            "that its attack may read"
        )
    if any(kind.kind == NATURAL for kind in unknown):
        lines.append(
            "natural secrets are not attacked by the pilot: the cost of a search reveals how well the model knows them"
        )
    if any(kind.merged for kind in plan.kinds):
        lines.append("searches of different canaries share forward passes on this model")
    if any(kind.unfinished for kind in plan.kinds):
        lines.append(
            "the pilot's time ended before all of its canaries were finished: an interrupted attack may go on to "
            "the most that it may read, so a larger --pilot_seconds narrows the range"
        )
    pilot = "there was no pilot"
    if len(unknown) < len(plan.kinds):
        pilot = f"the pilot took {_seconds(plan.pilot_seconds)}"
    return [*lines, f"times do not include loading the model; {pilot}"]


def _is_random(kind: KindPlan) -> bool:
    """Return True if the pilot is a part of the kind's canaries, drawn with equal chances."""
    return 0 < kind.piloted < kind.canaries and not kind.groups["rows"].chances


def write_report(path: Path, plan: Plan, options: Mapping[str, Any]) -> None:
    """Write the plan and the ``options`` of the command as JSON. Raises LeakageError if the file is not writable."""
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
        **options,
        "level": LEVEL,
        "kinds": kinds,
        "total": {name: dataclasses.asdict(plan.total(name)) for name in QUANTITIES},
        "memory_bytes": dataclasses.asdict(plan.memory),
        "pace": {name: getattr(plan.kinds[0].pace, name) for name in ("a_pass", "a_token", "at_once")},
        "pilot_seconds": plan.pilot_seconds,
    }
    write_text(path, json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _cell(quantity: str, estimate: CostEstimate, known: bool) -> str:
    low, high = _shown(quantity, estimate.low), _shown(quantity, estimate.high)
    if not known and low != high:
        return f"{low} to at most {high}"
    return low if low == high else f"{_shown(quantity, estimate.likely)} ({low} to {high})"


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
        return f"{value:.2g} s" if value < 10 else f"{value:.0f} s"
    return f"{value / 60:.3g} min" if value < 7200 else f"{value / 3600:.3g} h"
