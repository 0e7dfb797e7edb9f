"""``leakage resume``: what a folder of ``--metadata resume=DIR`` holds, and taking out of it what no run can use."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leakage_tasks.cli.registry import register_command

if TYPE_CHECKING:
    from collections.abc import Callable


@register_command("resume", 17)
def resume_command(
    folder: Annotated[Path, typer.Argument(help="What --metadata resume=… named.")],
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Take out torn lines, what is there twice, and findings of other versions."),
    ] = False,
    older_than: Annotated[
        float | None, typer.Option(min=0, help="With --prune: also findings older than so many days.")
    ] = None,
) -> None:
    """List the findings that runs with resume=FOLDER have kept, by task, model and attack, or prune them."""
    from leakage_tasks.core import journal
    from leakage_tasks.core.errors import OptionError

    if older_than is not None and not prune:
        raise OptionError("--older-than goes with --prune: add it, or leave --older-than out")
    journal.check_folder(folder)
    if prune:
        gone = journal.prune(folder, _wanted(older_than))
        busy = f"; {gone.busy} file(s) left alone, as a run is writing to them" if gone.busy else ""
        print(f"removed {gone.records} finding(s) and {gone.torn} torn line(s){busy}")
    _list(folder)


def _wanted(older_than: float | None) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a record can be of use: of this version, young enough, and the first of its key."""
    from leakage_tasks.attacks.arithmetic import ARITHMETIC
    from leakage_tasks.tasks.resume import summary_of

    oldest = None if older_than is None else datetime.now(UTC) - timedelta(days=older_than)
    seen: set[Any] = set()

    def wanted(record: Mapping[str, Any]) -> bool:
        try:
            summary_of(record)
            usable = record["arithmetic"] == ARITHMETIC and record["key"] not in seen
            usable = usable and (oldest is None or datetime.fromisoformat(record["when"]) >= oldest)
        except (KeyError, ValueError, TypeError):
            return False
        if usable:
            seen.add(record["key"])
        return usable

    return wanted


def _list(folder: Path) -> None:
    from leakage_tasks.core.errors import one_line
    from leakage_tasks.core.journal import kept
    from leakage_tasks.core.text_table import text_table
    from leakage_tasks.tasks.resume import summary_of

    groups: dict[tuple[str, ...], list[str]] = {}
    torn = 0
    for file in kept(folder):
        torn += file.torn
        for record in file.records:
            try:
                groups.setdefault((*summary_of(record), str(record.get("arithmetic"))), []).append(record["when"])
            except (KeyError, ValueError, TypeError):
                torn += 1
    head = ["task", "model", "attack", "version", "findings", "first", "last", "key"]
    rows = [
        [*map(one_line, (task, model, attack, version)), str(len(when)), min(when), max(when), one_line(group[:12])]
        for (group, task, model, attack, version), when in sorted(groups.items(), key=lambda each: min(each[1]))
    ]
    print(text_table([head, *rows], right=False) if rows else f"{folder}: no findings")
    if torn:
        print(f"{torn} torn or damaged line(s): --prune takes them out")
