"""``leakage power``: how many canaries, copies and controls an audit takes, and what one could have shown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakage_tasks.cli.registry import register_command
from leakage_tasks.core.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leakage_tasks.report.power import AuditPlan


@register_command("power", 11)
def power_command(
    audits: Annotated[
        list[Path] | None,
        typer.Argument(help="What is there already: manifests (.jsonl), results files of lm_eval, or folders of them."),
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Extraction rate to show, a share.")] = None,
    exposure: Annotated[float | None, typer.Option(help="Mean exposure to show, in bits.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Lower bound on ε to show.")] = None,
    accuracy: Annotated[
        float, typer.Option(help="How often a guess at which of a pair was planted is right; for --epsilon.")
    ] = 0.95,
    chance: Annotated[
        float, typer.Option(help="Rate at which random guesses extract a secret, 1/|R|; for --rate.")
    ] = 0.0,
    repetitions: Annotated[
        str, typer.Option(help="Tiers of copies, each of which is to show it by itself, such as 1,4,16.")
    ] = "1",
    count: Annotated[int | None, typer.Option(help="What could so many planted canaries show?")] = None,
    controls: Annotated[int, typer.Option(help="Controls beside --count.")] = 0,
) -> None:
    """Say how many canaries, copies and controls show what is wanted, or what those that there are can show.

    One-sided tests at 5 %, with a power of 80 %.
    """
    from leakage_tasks.canaries.option_texts import numbers
    from leakage_tasks.report.power import CERTAIN, AuditGoal, needed, shown

    tiers = numbers("--repetitions", repetitions)
    _check(tiers, count, controls, chance)
    wanted = needed(AuditGoal(rate, exposure, epsilon, accuracy, chance, tuple(tiers)))
    plans = [*_found(audits or []), *([] if count is None else [(None, _dealt(count, tiers, controls))])]
    if not wanted and not plans:
        raise OptionError("nothing to reckon: give --rate, --exposure or --epsilon, --count, a manifest or results")
    if wanted:
        typer.echo("\n  ".join([f"to show with {CERTAIN}, at 95 % confidence:", *wanted]))
    for name, planned in plans:
        typer.echo("\n  ".join([f"{name or 'so many'} can show with {CERTAIN}, at 95 % confidence:", *shown(planned)]))


def _check(tiers: list[int], count: int | None, controls: int, chance: float) -> None:
    if min(tiers) < 1:
        raise OptionError(f"--repetitions names {min(tiers)} copies: give 1 or more; controls are those with none")
    if count is not None and count < 1:
        raise OptionError(f"--count is {count}: give 1 or more")
    if controls < 0:
        raise OptionError(f"--controls is {controls}: give 0 or more")
    if not 0 <= chance < 1:
        raise OptionError(f"--chance is {chance:g}: give a share from 0 up to, not including, 1")


def _dealt(count: int, tiers: list[int], controls: int) -> AuditPlan:
    """As ``leakage canaries`` deals copies out: in turn."""
    from collections import Counter

    from leakage_tasks.report.power import AuditPlan

    return AuditPlan(Counter(tiers[place % len(tiers)] for place in range(count)), controls)


def _found(audits: list[Path]) -> Iterator[tuple[str, AuditPlan]]:
    """What manifests and runs hold, under their names. Raises OptionError for a run without canaries."""
    from leakage_tasks.report.load.results import read_runs
    from leakage_tasks.report.power import of_manifest, of_run

    manifests = [path for path in audits if path.suffix == ".jsonl"]
    for path in manifests:
        yield str(path), of_manifest(path)
    results = [path for path in audits if path not in manifests]
    for run in read_runs(results) if results else []:
        planned = of_run(run)
        if planned is None:
            raise OptionError(f"{run.files[-1]}: holds no run of a canary task: give one that does")
        yield run.name, planned
