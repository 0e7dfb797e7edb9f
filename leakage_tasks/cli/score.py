"""``leakage score``: recompute all metrics from saved samples, without the model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakage_tasks.cli.help import AUDIT
from leakage_tasks.cli.registry import register_command
from leakage_tasks.cli.shared_options import Delta, output_option

if TYPE_CHECKING:
    from leakage_tasks.report.score import ScoredSamples


@register_command("score", AUDIT, 6, example="leakage score results --all -o scores.json")
def score_command(
    findings: Annotated[
        list[Path], typer.Argument(help="samples_….jsonl, results_….json with samples in its folder, or a folder.")
    ],
    every: Annotated[
        bool, typer.Option("--all", help="Show every column of results, not only the column of the run.")
    ] = False,
    output: Annotated[Path | None, output_option("Also write all columns and audits to this file, as JSON.")] = None,
    delta: Delta = 0.0,
) -> None:
    """Recompute all metrics from saved samples, without the model.

    Runs with controls get an audit of their differential privacy. If the results file of the run is in the folder of
    the samples, every row is compared with it; exit code 1 if a row differs.
    """
    runs = _scored(findings, every, delta)
    if output is not None:
        _write(output, runs, delta)
    if any(run.compared is not None and run.compared.differences for run in runs):
        raise typer.Exit(1)


def _scored(paths: list[Path], every: bool, delta: float) -> list[ScoredSamples]:
    from leakage_tasks.report.load.sample_files import find_samples
    from leakage_tasks.report.score import audit_text, score_file, score_text

    samples = find_samples(paths)
    for note in samples.notes:
        typer.echo(f"leakage: {note}", err=True)
    runs = [score_file(file, delta) for file in samples.files]
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
