"""What the page tells of each run when a reader picks it: its tasks, its plots, its canaries and pairs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from leakage_tasks.report.board.board import Board, Entry
from leakage_tasks.report.page.canary_rows import PAIR_HEADS, canary_order, pair_order, tell_canary, tell_pair
from leakage_tasks.report.page.spreads import exposures, repetitions
from leakage_tasks.report.reading.audits import audit_of, audit_words
from leakage_tasks.report.reading.findings import Details, read_details
from leakage_tasks.report.reading.format import flag_words
from leakage_tasks.report.reading.run import Run

MOST, IN_ALL, LEAST = 300, 3000, 20
"""The most canaries, and pairs, that are shown of a run and of all runs; and how many each run may show at least."""


def tell_runs(board: Board, *, reveal: bool = False) -> list[dict[str, Any]]:
    """Every run of the board in its order, JSON-able. Raises ResultsError for samples that cannot be read."""
    entries = [entry for group in board.groups for entry in group.entries]
    most = max(LEAST, min(MOST, IN_ALL // max(1, len(entries))))
    return [_run(entry, read_details(entry.run, reveal=reveal), most) for entry in entries]


def _run(entry: Entry, details: Details, most: int) -> dict[str, Any]:
    canaries = sorted(details.canaries, key=canary_order)
    pairs = sorted(details.pairs, key=pair_order)
    return {
        "name": entry.run.name,
        "facts": list(_facts(entry.run)),
        "warnings": flag_words(entry.flags),
        "missing": [[task, reason] for task, reason in details.missing.items()],
        "exposures": exposures(canaries),
        "repetitions": repetitions(canaries),
        "audit": [[each.title, audit_words(each), each.words] for each in audit_of(entry.run, 0.0)],
        "canaries": {"total": len(canaries), "shown": [tell_canary(each) for each in canaries[:most]]},
        "pairs": {
            "total": len(pairs),
            "left_out": details.left_out,
            "heads": PAIR_HEADS,
            "shown": [tell_pair(each) for each in pairs[:most]],
        },
    }


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    yield "Model", run.source
    yield "Kind", run.model
    for task, result in sorted(run.tasks.items()):
        documents = "" if result.samples is None else f"{result.samples:,} documents"
        attacks = () if result.declared is None else dict.fromkeys(result.declared.attacks)
        used = [f"{attack} ({access})" if access else attack for attack, access in attacks]
        yield task, ", ".join([*([documents] if documents else []), *used]) or "asked"
    if run.versions:
        yield "Versions", ", ".join(f"{name} {version}" for name, version in run.versions.items())
