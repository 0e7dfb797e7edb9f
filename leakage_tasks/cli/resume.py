"""``leakage resume``: list or prune the findings in a folder of ``--metadata resume=DIR``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leakage_tasks.cli.help import AUDIT
from leakage_tasks.cli.registry import register_command

if TYPE_CHECKING:
    from collections.abc import Callable


@register_command("resume", AUDIT, 5, example="leakage resume findings --prune --older-than 30")
def resume_command(
    folder: Annotated[Path, typer.Argument(help="Folder given to lm_eval as --metadata resume=FOLDER.")],
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Remove torn lines, duplicates and findings of other versions."),
    ] = False,
    older_than: Annotated[
        float | None, typer.Option(min=0, help="With --prune: also remove findings older than this number of days.")
    ] = None,
) -> None:
    """List or prune findings saved by resume=FOLDER.

    The list is by task, model and attack.
    """
    from leakage_tasks.core import journal
    from leakage_tasks.core.errors import OptionError
    from leakage_tasks.core.nouns import counted

    if older_than is not None and not prune:
        raise OptionError(
            "--older-than needs --prune: add it, as in --prune --older-than 30, or leave --older-than out"
        )
    journal.check_folder(folder)
    if prune:
        removed = journal.prune(folder, _usable(older_than))
        busy = f"; {counted(removed.busy, 'file')} kept, because a run is writing to them" if removed.busy else ""
        print(f"removed {counted(removed.records, 'finding')} and {counted(removed.torn, 'torn line')}{busy}")
    _list(folder)


def _usable(older_than: float | None) -> Callable[[Mapping[str, Any]], bool]:
    """Return a predicate of records: this version, not too old, and the first record of its key."""
    from leakage_tasks.attacks.arithmetic import ARITHMETIC
    from leakage_tasks.tasks.resume import summary_of

    oldest = None if older_than is None else datetime.now(UTC) - timedelta(days=older_than)
    seen: set[Any] = set()

    def is_usable(record: Mapping[str, Any]) -> bool:
        try:
            summary_of(record)
            usable = record["arithmetic"] == ARITHMETIC and record["key"] not in seen
            usable = usable and (oldest is None or datetime.fromisoformat(record["when"]) >= oldest)
        except (KeyError, ValueError, TypeError):
            return False
        if usable:
            seen.add(record["key"])
        return usable

    return is_usable


def _list(folder: Path) -> None:
    from leakage_tasks.core.errors import one_line
    from leakage_tasks.core.journal import journal_files
    from leakage_tasks.core.nouns import counted
    from leakage_tasks.core.text_table import text_table
    from leakage_tasks.tasks.resume import summary_of

    groups: dict[tuple[str, ...], list[str]] = {}
    torn = 0
    for file in journal_files(folder):
        torn += file.torn
        for record in file.records:
            try:
                groups.setdefault((*summary_of(record), str(record.get("arithmetic"))), []).append(record["when"])
            except (KeyError, ValueError, TypeError):
                torn += 1
    header = ["task", "model", "attack", "version", "findings", "first", "last", "key"]
    rows = [
        [*map(one_line, (task, model, attack, version)), str(len(when)), min(when), max(when), one_line(group[:12])]
        for (group, task, model, attack, version), when in sorted(groups.items(), key=lambda item: min(item[1]))
    ]
    print(text_table([header, *rows], right=False) if rows else f"{folder}: no findings")
    if torn:
        print(f"{counted(torn, 'torn or damaged line')}: remove with --prune")
