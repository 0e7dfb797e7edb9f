"""``leakage power``: compute the size of an audit, and the smallest leakage that an audit can show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakage_tasks.cli.help import CHECK
from leakage_tasks.cli.registry import register_command
from leakage_tasks.core.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from leakage_tasks.report.power import AuditPlan


@register_command("power", CHECK, 1, example="leakage power --rate 0.1 --repetitions 1,4,16")
def power_command(
    audits: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Existing audits: manifests (.jsonl), results files of lm_eval, or folders with such files."
        ),
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Extraction rate to detect, from 0 to 1.")] = None,
    exposure: Annotated[float | None, typer.Option(help="Mean exposure to detect, in bits.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Lower bound on ε to detect.")] = None,
    accuracy: Annotated[
        float, typer.Option(help="For --epsilon: accuracy of a guess at the planted canary of a pair.")
    ] = 0.95,
    chance: Annotated[
        float, typer.Option(help="For --rate and --count: rate at which random guesses extract a secret, 1/|R|.")
    ] = 0.0,
    repetitions: Annotated[
        str, typer.Option(help="Repetition counts, such as 1,4,16; the leakage is to be detected for each count.")
    ] = "1",
    count: Annotated[
        int | None, typer.Option(help="Also report the smallest leakage that this number of planted canaries detects.")
    ] = None,
    controls: Annotated[int, typer.Option(help="Number of controls, for --count.")] = 0,
) -> None:
    """Compute how many canaries an audit needs.

    For an existing or planned audit it computes the smallest leakage that the audit detects. Tests are one-sided at
    5 %, with a power of 80 %.
    """
    from leakage_tasks.canaries.option_texts import numbers
    from leakage_tasks.report.power import POWER_TEXT, AuditGoal, detectable_effects, required_sizes

    tiers = numbers("--repetitions", repetitions)
    _check(tiers, count, controls, chance)
    _check_used("--accuracy", accuracy != AuditGoal.accuracy, {"--epsilon": epsilon})
    _check_used("--chance", chance > 0, {"--rate": rate, "--count": count})
    _check_used("--controls", controls > 0, {"--count": count})
    sizes = required_sizes(AuditGoal(rate, exposure, epsilon, accuracy, chance, tuple(tiers)))
    plans = [
        *_existing(audits or []),
        *([] if count is None else [("this many canaries", _assigned(count, tiers, controls, chance))]),
    ]
    if not sizes and not plans:
        raise OptionError(
            "nothing to compute: give --rate, --exposure, --epsilon, --count, a manifest or results, such as --rate 0.1"
        )
    if sizes:
        typer.echo("\n  ".join([f"to show with {POWER_TEXT}, at 95 % confidence:", *sizes]))
    for name, planned in plans:
        typer.echo(
            "\n  ".join([f"{name} can show with {POWER_TEXT}, at 95 % confidence:", *detectable_effects(planned)])
        )


def _check(tiers: list[int], count: int | None, controls: int, chance: float) -> None:
    if min(tiers) < 1:
        raise OptionError(
            f"--repetitions has {min(tiers)} copies: give 1 or more, such as 1,4,16; for controls use --controls"
        )
    if count is not None and count < 1:
        raise OptionError(f"--count is {count}: give 1 or more, such as 32")
    if controls < 0:
        raise OptionError(f"--controls is {controls}: give 0 or more, such as 100")
    if not 0 <= chance < 1:
        raise OptionError(f"--chance is {chance:g}: give a rate of at least 0 and less than 1, such as 0.001")


def _check_used(option: str, given: bool, others: Mapping[str, float | None]) -> None:
    """Raise OptionError for an option that is given without one of the others, which alone use it."""
    if given and all(value is None for value in others.values()):
        raise OptionError(f"{option} goes with {' or '.join(others)}: leave it out")


def _assigned(count: int, tiers: list[int], controls: int, chance: float) -> AuditPlan:
    """Assign repetition counts to canaries in turn, as ``leakage canaries`` does."""
    from collections import Counter

    from leakage_tasks.report.power import AuditPlan

    return AuditPlan(Counter(tiers[index % len(tiers)] for index in range(count)), controls, chance=chance)


def _existing(audits: list[Path]) -> Iterator[tuple[str, AuditPlan]]:
    """Yield the names and sizes of existing audits. Raises OptionError for a run without canaries."""
    from leakage_tasks.report.load.results import read_runs
    from leakage_tasks.report.power import plan_of_manifest, plan_of_run

    manifests = [path for path in audits if path.suffix == ".jsonl"]
    for path in manifests:
        yield str(path), plan_of_manifest(path)
    results = [path for path in audits if path not in manifests]
    for run in read_runs(results) if results else []:
        planned = plan_of_run(run)
        if planned is None:
            raise OptionError(
                f"{run.files[-1]}: has no results of a canary task: give a run of canary_exposure or canary_extraction"
            )
        yield run.name, planned
