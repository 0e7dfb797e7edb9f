"""``leakage study list``, ``leakage study run`` and ``leakage study report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ABOUT = "Reproduce the tables and figures of papers."
STUDY = typer.Typer(no_args_is_help=True, rich_markup_mode=None, add_completion=False, help=ABOUT)


@STUDY.command("list")
def list_command() -> None:
    """List all studies with their titles and the cost of each scale."""
    from leakage_tasks.research.framework.registry import all_studies

    studies = all_studies()
    for study in studies:
        typer.echo(f"{study.name}: {study.title} ({study.source})")
        for scale, takes in study.scales.items():
            typer.echo(f"    --scale {scale:<5}  {takes}")
    if not studies:
        typer.echo("no study is installed")


@STUDY.command("run")
def run_command(
    names: Annotated[
        list[str], typer.Argument(help="Studies, or papers to run all of their studies; see 'study list'.")
    ],
    scale: Annotated[str, typer.Option(help="smoke (seconds), small (minutes on 2 cores) or paper.")] = "small",
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for trials and reports.")] = Path(
        "runs/studies"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the first run of each setting.")] = 0,
    trials: Annotated[int | None, typer.Option(help="Independent runs of each setting (default: the study's).")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run all trials again, including saved ones.")] = False,
    jobs: Annotated[int, typer.Option(help="Trials to run at the same time, each in its own process.")] = 1,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="Show text that people wrote, in studies that examine single texts.")
    ] = False,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Run trials on a Dask cluster: its scheduler's address (tcp://host:8786)."
        ),
    ] = None,
) -> None:
    """Run studies and compare published with measured values. An interrupted run continues with the same command."""
    from leakage_tasks.research.framework.registry import StudyPlan, check_scale, find_studies
    from leakage_tasks.research.framework.runner import run_studies

    studies = find_studies(names)
    plan = StudyPlan(check_scale(scale, studies), seed, trials, reveal)
    try:
        for done in run_studies(studies, plan, output, fresh=fresh, jobs=jobs, dask=dask):
            typer.echo(done.summary())
    except KeyboardInterrupt:
        again = "run the command without --fresh to continue" if fresh else "run the command again to continue"
        typer.echo(f"leakage: stopped; {again} with the remaining trials", err=True)
        raise


@STUDY.command("report")
def report_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write, Markdown.")] = Path(
        "docs/reproduction.md"
    ),
    results: Annotated[Path, typer.Option(help="Folder of stored results.")] = Path("docs/results"),
    store: Annotated[
        Path | None,
        typer.Option(metavar="RUNS", help="First store the finished studies of this folder of runs."),
    ] = None,
) -> None:
    """Write a page with the verdict on each claim of the papers, from stored results."""
    from leakage_tasks.research.framework.reproduction_page import write_page
    from leakage_tasks.research.framework.stored_results import store_runs

    if store is not None:
        for path in store_runs(store, results):
            typer.echo(f"stored {path}")
    typer.echo(write_page(results, output))
    typer.echo(f"written to {output}")
