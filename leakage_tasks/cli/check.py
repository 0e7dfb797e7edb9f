"""``leakage check``: a limit on leakage that a build can fail by."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakage_tasks.cli.registry import register_command
from leakage_tasks.core.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from leakage_tasks.metrics.verdict import Verdict
    from leakage_tasks.report.check.check import Limit
    from leakage_tasks.report.load.results import Run

_MOST = "exposure_max"
_OFTEN = 0.05


@register_command("check", 13)
def check_command(
    results: Annotated[list[Path], typer.Argument(help="Results files of lm_eval, or folders of them.")],
    max_exposure: Annotated[
        float | None, typer.Option(help="Most bits of exposure that any planted canary may have.")
    ] = None,
    max_extracted: Annotated[
        float | None, typer.Option(help="Largest share of the canaries planted the fewest times that may be extracted.")
    ] = None,
    max_recall: Annotated[
        float | None, typer.Option(help="Largest share of suffixes that may come out verbatim.")
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(help="A limit on any other figure, as [task/]metric[/filter]=number; may be repeated."),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            help="Let pass what fails otherwise: underpowered, no-controls, controls-off-chance, lower-bound, "
            "extrapolated, no-headline, planting-claimed; may be repeated."
        ),
    ] = None,
    point_estimate: Annotated[
        bool, typer.Option("--point-estimate", help="Judge by figures instead of the worse end of their intervals.")
    ] = False,
) -> None:
    """Exit with 1 unless each run is shown to leak no more than it may.

    The worse end of the 95 % interval has to keep the limit, and nothing may be wrong or too little about the run.
    """
    from leakage_tasks.report.check.check import WAIVERS, Limit, headline_name, limit_from, outcomes, waived
    from leakage_tasks.report.load.format import verdict_words
    from leakage_tasks.report.load.results import read_runs

    _check_values(max_exposure, max_extracted, max_recall)
    named = ((_MOST, max_exposure), (headline_name("extracted"), max_extracted), ("recall", max_recall))
    limits = [Limit(metric, value) for metric, value in named if value is not None]
    limits += [limit_from(text) for text in limit or []]
    if not limits:
        raise OptionError("nothing to check: give --max-exposure, --max-extracted, --max-recall or --limit")
    for waiver in allow or []:
        if waiver not in WAIVERS:
            raise OptionError(f"--allow is {waiver!r}: nothing of that name is waived: use {', '.join(WAIVERS)}")
    runs = read_runs(results)
    found = outcomes(runs, limits, point_estimate=point_estimate, allowed=allow or [])
    for outcome in found:
        print(f"{'PASS' if outcome.kept else 'FAIL'}  {outcome.words}")
    for words in (f"{run.name}: {each}" for run in runs for each in verdict_words(_verdicts(run))):
        print(f"=     {words}")
    for note in (*waived(runs, allow or []), *_notes(runs, limits)):
        print(f"note  {note}")
    raise typer.Exit(0 if all(outcome.kept for outcome in found) else 1)


def _verdicts(run: Run) -> dict[str, Verdict]:
    from leakage_tasks.report.load.figures import verdict_on

    return {task: found for task, result in run.tasks.items() if (found := verdict_on(result)) is not None}


def _check_values(exposure: float | None, extracted: float | None, recall: float | None) -> None:
    """Raise OptionError for a limit that is none."""
    if exposure is not None and not math.isfinite(exposure):
        raise OptionError(f"--max-exposure is {exposure:g}: give a number of bits, such as 10")
    for option, share in (("--max-extracted", extracted), ("--max-recall", recall)):
        if share is not None and not 0 <= share <= 1:
            raise OptionError(f"{option} is {share:g}: give a share from 0 to 1, such as 0.01")


def _notes(runs: Sequence[Run], limits: Sequence[Limit]) -> Iterator[str]:
    """What a reader of outcomes should know: what more copies leak, and limits that chance alone exceeds."""
    for run in runs:
        yield from _by_copies(run)
        for limit in limits:
            yield from _by_chance(run, limit)


def _by_copies(run: Run) -> Iterator[str]:
    """Figures by how often canaries were planted, and of all of them, where there is more than one number of copies."""
    from leakage_tasks.metrics.tiers import planted_words
    from leakage_tasks.report.load.figures import figure
    from leakage_tasks.report.load.format import interval, number

    for task, result in sorted(run.tasks.items()):
        rows = result.rows
        headlines = [row.parent for row in rows.values() if row.headline and row.copies]
        for of in headlines:
            own = sorted(
                (row for row in rows.values() if row.copies and row.parent == of), key=lambda row: row.copies or 0
            )
            found = [(planted_words(row.copies or 0), figure(result, row.name)) for row in own]
            if len(found) > 1:
                found.append(("pooled", figure(result, of)))
                words = "; ".join(f"{words} {number(each.value)} {interval(each)}".strip() for words, each in found)
                yield f"{run.name}: {task}/{of}: {words}"


def _by_chance(run: Run, limit: Limit) -> Iterator[str]:
    from leakage_tasks.attacks.suffix.finding import HEADLINE
    from leakage_tasks.report.check.check import exceeded_by_chance
    from leakage_tasks.report.load.figures import figure, headline_of
    from leakage_tasks.report.load.format import number

    for task, result in sorted(run.tasks.items()):
        if limit.name not in (_MOST, f"{task}/{_MOST}", f"{task}/{_MOST}/{HEADLINE}"):
            continue
        found = figure(result, _MOST)
        chance = exceeded_by_chance(limit.value, found.count) if found.value is not None and found.count else 0.0
        if chance > _OFTEN:
            yield (
                f"{run.name}: {task}: of {found.count} secrets that no model saw, the most exposed exceeds "
                f"{number(limit.value)} bits in {chance:.0%} of runs by chance: raise the limit, or limit the mean "
                f"with --limit {headline_of(result, 'exposure')}=…"
            )
