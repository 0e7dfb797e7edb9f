"""``leakage check``: fail a build if a model leaks more than a limit."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakage_tasks.cli.help import REPORT
from leakage_tasks.cli.registry import register_command
from leakage_tasks.cli.shared_options import read_waivers
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.nouns import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from leakage_tasks.metrics.conclusion import Verdict
    from leakage_tasks.report.check import Limit
    from leakage_tasks.report.load.results import Run

_MOST = "exposure_max"
_OFTEN = 0.05
"""Probability: a limit that chance alone exceeds more often gets a note."""


@register_command("check", REPORT, 3, example="leakage check results --max-exposure 10 --max-extracted 0.01")
def check_command(
    results: Annotated[list[Path], typer.Argument(help="Results files of lm_eval, or folders with such files.")],
    max_exposure: Annotated[
        float | None, typer.Option(help="Upper limit on the exposure of every planted canary, in bits.")
    ] = None,
    max_extracted: Annotated[
        float | None,
        typer.Option(help="Upper limit on the share of extracted canaries, for the lowest repetition count."),
    ] = None,
    max_recall: Annotated[
        float | None, typer.Option(help="Upper limit on the share of suffixes that are extracted verbatim.")
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(help="Upper limit on any other metric, as [task/]metric[/filter]=number; repeatable."),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            help="Accept a condition that fails the check by default: underpowered, no-controls, controls-off-chance, "
            "lower-bound, extrapolated, texts-differ, share-controls, no-primary-metric, planting-claimed; repeatable."
        ),
    ] = None,
    point_estimate: Annotated[
        bool,
        typer.Option(
            "--point-estimate", help="Compare point estimates with the limits, instead of the worse ends of intervals."
        ),
    ] = False,
) -> None:
    """Fail a build if a model leaks more than a limit.

    A run passes if the worse end of each 95 % interval respects its limit, and if the run is valid and large enough.
    Exit code 1 if a run fails.
    """
    from leakage_tasks.report.check import Limit, headline_name, limit_from, outcomes, waived
    from leakage_tasks.report.load.format import verdict_words
    from leakage_tasks.report.load.results import read_runs

    _check_values(max_exposure, max_extracted, max_recall)
    named = ((_MOST, max_exposure), (headline_name("extracted"), max_extracted), ("recall", max_recall))
    limits = [Limit(metric, value) for metric, value in named if value is not None]
    limits += [limit_from(text) for text in limit or []]
    if not limits:
        raise OptionError(
            "no limit is given: use --max-exposure, --max-extracted, --max-recall or --limit, such as --max-exposure 10"
        )
    waivers = read_waivers(allow)
    runs = read_runs(results)
    limit_outcomes = outcomes(runs, limits, point_estimate=point_estimate, allowed=waivers)
    for outcome in limit_outcomes:
        print(f"{'PASS' if outcome.passed else 'FAIL'}  {outcome.words}")
    for run in runs:
        for verdict in verdict_words(_verdicts(run)):
            print(f"=     {run.name}: {verdict}")
    for note in (*waived(runs, waivers), *_notes(runs, limits)):
        print(f"note  {note}")
    raise typer.Exit(0 if all(outcome.passed for outcome in limit_outcomes) else 1)


def _verdicts(run: Run) -> dict[str, Verdict]:
    from leakage_tasks.report.load.figures import verdict_on

    verdicts = {task: verdict_on(result) for task, result in run.tasks.items()}
    return {task: verdict for task, verdict in verdicts.items() if verdict is not None}


def _check_values(exposure: float | None, extracted: float | None, recall: float | None) -> None:
    """Raise OptionError for a limit outside the range of its metric."""
    if exposure is not None and not 0 <= exposure < math.inf:
        raise OptionError(f"--max-exposure is {exposure:g}: give a number of bits, 0 or more, such as 10")
    for option, share in (("--max-extracted", extracted), ("--max-recall", recall)):
        if share is not None and not 0 <= share <= 1:
            raise OptionError(f"{option} is {share:g}: give a share from 0 to 1, such as 0.01")


def _notes(runs: Sequence[Run], limits: Sequence[Limit]) -> Iterator[str]:
    """Yield notes on the outcomes: the results for each repetition count, and limits that chance alone exceeds."""
    for run in runs:
        yield from _by_copies(run)
        for limit in limits:
            yield from _by_chance(run, limit)


def _by_copies(run: Run) -> Iterator[str]:
    """Yield the values for each repetition count and the pooled value, for metrics with several repetition counts."""
    from leakage_tasks.metrics.tiers import planted_words
    from leakage_tasks.report.load.figures import figure
    from leakage_tasks.report.load.format import interval, number

    for task, result in sorted(run.tasks.items()):
        rows = result.rows
        metrics = [row.parent for row in rows.values() if row.headline and row.copies]
        for metric in metrics:
            tiers = [row for row in rows.values() if row.copies and row.parent == metric]
            tiers.sort(key=lambda row: row.copies or 0)
            values = [(planted_words(row.copies or 0), figure(result, row.name)) for row in tiers]
            if len(values) > 1:
                values.append(("pooled", figure(result, metric)))
                listed = "; ".join(f"{name} {number(value.value)} {interval(value)}".strip() for name, value in values)
                yield f"{run.name}: {task}/{metric}: {listed}"


def _by_chance(run: Run, limit: Limit) -> Iterator[str]:
    """Yield a note if the most exposed of this number of secrets often exceeds the limit by chance."""
    from leakage_tasks.attacks.suffix.finding import HEADLINE
    from leakage_tasks.report.check import exceeded_by_chance
    from leakage_tasks.report.load.figures import figure, headline_of
    from leakage_tasks.report.load.format import number

    for task, result in sorted(run.tasks.items()):
        if limit.name not in (_MOST, f"{task}/{_MOST}", f"{task}/{_MOST}/{HEADLINE}"):
            continue
        most = figure(result, _MOST)
        number_of_secrets = most.count if most.value is not None and most.count else 0
        chance = exceeded_by_chance(limit.value, number_of_secrets) if number_of_secrets else 0.0
        if chance > _OFTEN:
            secrets = counted(number_of_secrets, "secret")
            yield (
                f"{run.name}: {task}: by chance alone, the highest exposure among {secrets} exceeds "
                f"{number(limit.value)} bits in {100 * chance:.0f} % of runs: raise the limit, or limit the mean "
                f"with --limit {headline_of(result, 'exposure')}=…"
            )
