"""``leakage study list``, ``leakage study run`` and ``leakage study report``."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from leakage_tasks.cli.help import RESEARCH, CommandList, LeakageCommand, command_help

STUDY = typer.Typer(
    cls=CommandList,
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    rich_help_panel=RESEARCH,
    help="Reproduce the tables of papers.",
)


@STUDY.command("list", cls=LeakageCommand)
@command_help(example="leakage study list")
def list_command() -> None:
    """List the studies with their papers.

    The lines below a group give the cost of each scale.
    """
    from leakage_tasks.research.framework.registry import all_studies

    studies = all_studies()
    for scales, group in groupby(studies, key=lambda study: study.scales):
        for study in group:
            typer.echo(f"{study.name}: {study.title} ({study.source})")
        for scale, cost in scales.items():
            typer.echo(f"    --scale {scale:<5}  {cost}")
    if not studies:
        typer.echo("no study is installed")


@STUDY.command("run", cls=LeakageCommand)
@command_help(example="leakage study run elmahdy --scale smoke")
def run_command(
    names: Annotated[
        list[str], typer.Argument(help="Names of studies, or of papers for all their studies; see 'study list'.")
    ],
    scale: Annotated[str, typer.Option(help="smoke (seconds), small (minutes on 2 cores) or paper.")] = "small",
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for trials and reports.")] = Path(
        "runs/studies"
    ),
    seed: Annotated[int, typer.Option(help="Random seed of the first run of each setting.")] = 0,
    trials: Annotated[
        int | None, typer.Option(help="Number of independent runs of each setting (default: as in the study).")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run all trials again, also those already saved.")] = False,
    jobs: Annotated[
        int, typer.Option(help="Number of processes that run trials in parallel, each with its own models and threads.")
    ] = 1,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="Show text written by people, in studies of single texts.")
    ] = False,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Run trials on the Dask cluster with this scheduler, such as tcp://host:8786."
        ),
    ] = None,
) -> None:
    """Run studies, and compare their results with the published ones.

    After an interruption, the command continues with the remaining trials.
    """
    from leakage_tasks.research.framework.registry import StudyPlan, check_scale, find_studies
    from leakage_tasks.research.framework.runner import run_studies

    studies = find_studies(names)
    plan = StudyPlan(check_scale(scale, studies), seed, trials, reveal)
    try:
        for result in run_studies(studies, plan, output, fresh=fresh, jobs=jobs, dask=dask):
            typer.echo(result.summary())
    except KeyboardInterrupt:
        again = "leave --fresh out to continue" if fresh else "run the command again to continue"
        typer.echo(f"leakage: stopped; {again} with the remaining trials", err=True)
        raise


@STUDY.command("report", cls=LeakageCommand)
@command_help(example="leakage study report --store runs/studies")
def report_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="Markdown page to write.")] = Path(
        "docs/reproduction.md"
    ),
    results: Annotated[Path, typer.Option(help="Folder of stored results, small JSON files.")] = Path("docs/results"),
    store: Annotated[
        Path | None,
        typer.Option(
            metavar="RUNS", help="First add the finished studies in this folder of runs to the stored results."
        ),
    ] = None,
) -> None:
    """Write a page on the outcomes of all studies.

    For each table, figure and claim of the papers it compares published and stored results.
    """
    from leakage_tasks.research.framework.reproduction_page import write_page
    from leakage_tasks.research.framework.stored_results import store_runs

    if store is not None:
        for path in store_runs(store, results):
            typer.echo(f"stored {path}")
    typer.echo(write_page(results, output))
    typer.echo(f"written to {output}")
