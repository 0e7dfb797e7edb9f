"""``leakage verify-report``: check a page of ``leakage report`` offline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakage_tasks.cli.help import REPORT
from leakage_tasks.cli.registry import register_command
from leakage_tasks.core.errors import ResultsError


@register_command("verify-report", REPORT, 8, example="leakage verify-report report.html --results results")
def verify_report_command(
    report: Annotated[Path, typer.Argument(help="Page that leakage report wrote.")],
    results: Annotated[
        Path | None, typer.Option(help="Results to compare with the report: a results file, or a folder.")
    ] = None,
    model: Annotated[
        list[Path] | None,
        typer.Option(help="Folder or file of the model's weights; repeatable, for a base model and its adapter."),
    ] = None,
    manifest: Annotated[Path | None, typer.Option(help="Manifest of the canaries.")] = None,
    data: Annotated[list[Path] | None, typer.Option(help="File or folder of training data; repeatable.")] = None,
) -> None:
    """Check a page of leakage report offline.

    Exit code 1 if something differs, 2 if a part cannot be checked. It does not prove who made the page.
    """
    from leakage_tasks.report.evidence.files import Files
    from leakage_tasks.report.evidence.verify import verify

    files = Files(tuple(model or ()), manifest, tuple(data or ()), results=results)
    outcomes, notes = verify(report, files)
    for outcome in outcomes:
        if outcome.passed is not None:
            print(f"{'PASS' if outcome.passed else 'FAIL'}  {outcome.words}")
    if not all(outcome.passed is not False for outcome in outcomes):
        raise typer.Exit(1)
    for note in notes:
        print(f"note  {note}")
    unknown = [outcome.words for outcome in outcomes if outcome.passed is None]
    if unknown:
        raise ResultsError(f"{report}: {'; '.join(unknown)}")
