"""``leakage study list``, ``leakage study run`` and ``leakage study report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ABOUT = "Each paper's tables as something to run."
STUDY = typer.Typer(no_args_is_help=True, rich_markup_mode=None, add_completion=False, help=ABOUT)


@STUDY.command("list")
def list_command() -> None:
    """Name every study, what it shows, and what its scales take."""
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
    names: Annotated[list[str], typer.Argument(help="Studies, or papers for all of theirs; see 'study list'.")],
    scale: Annotated[str, typer.Option(help="smoke (seconds), small (minutes on 2 cores) or paper.")] = "small",
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for trials and reports.")] = Path(
        "runs/studies"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the first run of each setting.")] = 0,
    trials: Annotated[int | None, typer.Option(help="Independent runs of each setting (default: the study's).")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run all trials anew, saved ones too.")] = False,
    jobs: Annotated[int, typer.Option(help="Processes that run trials at once, each with its models and threads.")] = 1,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="Show text that people wrote where a study looks at single texts.")
    ] = False,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Run trials on a Dask cluster: its scheduler's address (tcp://host:8786)."
        ),
    ] = None,
) -> None:
    """Run studies: published figures beside measured ones. Run again after an interruption, it goes on."""
    from leakage_tasks.research.framework.registry import StudyPlan, check_scale, find_studies
    from leakage_tasks.research.framework.runner import run_studies

    studies = find_studies(names)
    plan = StudyPlan(check_scale(scale, studies), seed, trials, reveal)
    try:
        for done in run_studies(studies, plan, output, fresh=fresh, jobs=jobs, dask=dask):
            typer.echo(done.summary())
    except KeyboardInterrupt:
        again = "leave --fresh out to go on" if fresh else "the same command goes on"
        typer.echo(f"leakage: stopped; {again} with the trials that are left", err=True)
        raise


@STUDY.command("report")
def report_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="The page, Markdown.")] = Path("docs/reproduction.md"),
    results: Annotated[Path, typer.Option(help="The store: a folder of small JSON files.")] = Path("docs/results"),
    store: Annotated[
        Path | None,
        typer.Option(metavar="RUNS", help="First take the finished studies of this folder of runs into the store."),
    ] = None,
) -> None:
    """Say what came of each table, figure and claim of the papers, from stored results."""
    from leakage_tasks.research.framework.reproduction_page import write_page
    from leakage_tasks.research.framework.stored_results import store_runs

    if store is not None:
        for path in store_runs(store, results):
            typer.echo(f"stored {path}")
    typer.echo(write_page(results, output))
    typer.echo(f"written to {output}")
