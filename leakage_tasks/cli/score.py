"""``leakage score``: all metrics again from saved samples, without the model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakage_tasks.cli.registry import register_command

if TYPE_CHECKING:
    from leakage_tasks.report.score.score import ScoredSamples


@register_command("score", 10)
def score_command(
    findings: Annotated[
        list[Path], typer.Argument(help="samples_….jsonl, a results_….json with its samples beside, or a folder.")
    ],
    every: Annotated[bool, typer.Option("--all", help="Every column of results, not just the run's own.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="JSON file for all columns and audits.")] = None,
    delta: Annotated[float, typer.Option(help="δ of the audit's (ε, δ)-differential privacy.")] = 0.0,
) -> None:
    """Score saved samples again, without the model, and audit runs with controls.

    Where the results file of the run lies beside, every row is compared with it; exit code 1 if one differs.
    """
    from leakage_tasks.core.atomic import check_place
    from leakage_tasks.core.errors import OptionError

    if not 0 <= delta < 1:
        raise OptionError(f"--delta is {delta:g}: give a number from 0 up to, not including, 1, such as 1e-5")
    if output is not None:
        check_place(output)
    runs = _scored(findings, every, delta)
    if output is not None:
        _write(output, runs, delta)
    if any(run.compared is not None and run.compared.differences for run in runs):
        raise typer.Exit(1)


def _scored(paths: list[Path], every: bool, delta: float) -> list[ScoredSamples]:
    from leakage_tasks.report.load.sample_files import find_samples
    from leakage_tasks.report.score.score import audit_text, score_file, score_text

    found = find_samples(paths)
    for note in found.notes:
        typer.echo(f"leakage: {note}", err=True)
    runs = [score_file(file, delta) for file in found.files]
    sections = [score_text(run, every) for run in runs] + [audit_text(run, delta) for run in runs if run.audit]
    typer.echo("\n\n".join(sections))
    return runs


def _write(output: Path, runs: list[ScoredSamples], delta: float) -> None:
    import json

    from leakage_tasks.core.atomic import write_text
    from leakage_tasks.core.version import __version__

    data = {"schema": 1, "version": __version__, "delta": delta, "runs": [run.to_json() for run in runs]}
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)
    write_text(output, text + "\n", errors="backslashreplace")
