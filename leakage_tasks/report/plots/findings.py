"""What each plot is drawn from, out of saved findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from leakage_tasks.attacks import Finding
from leakage_tasks.attacks.suffix.finding import HEADLINE, Selection, SuffixFinding
from leakage_tasks.core.errors import OptionError, ResultsError
from leakage_tasks.metrics.aggregates import Guessed
from leakage_tasks.metrics.extraction import extracted
from leakage_tasks.metrics.suffixes import guessed
from leakage_tasks.report.plots.data import EXPOSURE, EXTRACTION, SUFFIXES, RunFindings, read_logged
from leakage_tasks.report.plots.histogram import MOST, Costs
from leakage_tasks.report.plots.recall import RecallCurve
from leakage_tasks.report.plots.repetitions import CanaryPoint, RunByRepetitions
from leakage_tasks.report.reading.exposure_history import EpochExposure

Sources = Sequence[str | Path]


def epochs_of(sources: Sources) -> list[EpochExposure]:
    """Exposures of several runs of ``canary_exposure``, each an epoch, in the order given. Raises LeakageError."""
    runs = _some([run for run in read_logged(sources, [EXPOSURE]) if run.exposure], EXPOSURE)
    return [
        EpochExposure(epoch, each.canary, each.repetitions, each.exposure, each.log2_size)
        for epoch, run in enumerate(runs, 1)
        for each in run.exposure
        if each.exposure is not None
    ]


def repetitions_of(sources: Sources) -> list[RunByRepetitions]:
    """Exposures, and what was extracted where that was asked too, by repetitions. Raises LeakageError."""
    runs = _some([run for run in read_logged(sources, [EXPOSURE, EXTRACTION]) if run.exposure], EXPOSURE)
    return [RunByRepetitions(run.name, list(_exposed(run.exposure)), _extracted(run.extraction)) for run in runs]


def _exposed(findings: Iterable[Finding]) -> Iterator[CanaryPoint]:
    for each in findings:
        if each.exposure is not None:
            bound = each.method == "lower_bound"
            yield CanaryPoint(each.canary, each.repetitions, each.exposure, each.log2_size, bound)


def _extracted(findings: Iterable[Finding]) -> dict[int, list[bool]]:
    found: dict[int, list[bool]] = {}
    for each in findings:
        right = extracted(each)
        if right is not None:
            found.setdefault(each.repetitions, []).append(right == 1)
    return found


def costs_of(sources: Sources, canaries: Sequence[str] = ()) -> list[Costs]:
    """The panels of a histogram: the canaries of these ids in every run that has them.

    Without ids, of each run the most and the least exposed planted canary and the control in the middle, none of them
    natural. Raises OptionError for an id that no run has or that is natural, for more panels than fit, and where no
    costs were kept.
    """
    runs = _some([run for run in read_logged(sources, [EXPOSURE]) if run.exposure], EXPOSURE)
    known = {each.canary for run in runs for each in run.exposure}
    for name in canaries:
        if name not in known:
            raise OptionError(f"--canary {name}: no such canary: there are {_listed(sorted(known))}")
    chosen = [(run, each) for run in runs for each in (_named(run, canaries) if canaries else _telling(run))]
    for run, each in chosen:
        if each.coarse:
            raise OptionError(
                f"{run.name}: canary {each.canary!r} is natural: where it lies among its fillings would confirm a "
                "guess at it: name others with --canary"
            )
        if "costs" not in each.extra:
            raise ResultsError(
                f"{run.name}: canary {each.canary!r} has no costs of random fillings: run lm_eval again with "
                "--metadata histogram=2000"
            )
    if len(chosen) > MOST:
        raise OptionError(f"{len(chosen)} panels, {MOST} fit: name fewer runs, or canaries with --canary ID")
    return [_costs(each, run.name if len(runs) > 1 else "") for run, each in chosen]


def _listed(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _named(run: RunFindings, canaries: Sequence[str]) -> list[Finding]:
    by_name = {each.canary: each for each in run.exposure}
    return [by_name[name] for name in dict.fromkeys(canaries) if name in by_name]


def _telling(run: RunFindings) -> list[Finding]:
    """The most and the least exposed planted canary, and the control in the middle."""
    told = [each for each in run.exposure if not each.coarse] or run.exposure
    ranked = sorted(told, key=lambda each: (-(each.exposure or 0.0), each.canary))
    planted = [each for each in ranked if each.planted]
    controls = [each for each in ranked if not each.planted]
    return list(
        {each.canary: each for each in [*planted[:1], *planted[-1:], *controls[len(controls) // 2 :][:1]]}.values()
    )


def _costs(found: Finding, run: str) -> Costs:
    classified = "class_loss" in found.extra
    own = found.extra["class_loss"] if classified else found.log_perplexity
    if own is None or found.exposure is None:
        raise ResultsError(f"canary {found.canary!r}: has no cost of its own or no rank: run lm_eval again")
    return Costs(
        name=f"{run}: {found.canary}" if run else found.canary,
        repetitions=found.repetitions,
        costs=_numbers(found),
        own=own,
        exposure=found.exposure,
        method=found.method or "exact",
        log2_size=found.log2_size,
        words="class loss (bits)" if classified else "log-perplexity of the filled text (bits)",
    )


def _numbers(found: Finding) -> list[float]:
    """The costs kept, ascending. Raises ResultsError for what cannot be any."""
    costs = found.extra["costs"]
    if not isinstance(costs, list) or not costs or not all(isinstance(cost, int | float) for cost in costs):
        raise ResultsError(f"canary {found.canary!r}: its costs are no list of numbers: run lm_eval again")
    return sorted(costs)


def recall_of(sources: Sources) -> list[RecallCurve]:
    """A line a confidence of one run of ``suffix_extraction``; of several runs a line each, by their own confidence.

    Raises LeakageError.
    """
    runs = _some([run for run in read_logged(sources, [SUFFIXES]) if run.suffixes], SUFFIXES)
    if len(runs) > 1:
        return [_ordered(run.name, run, run.suffixes[0].chosen_by) for run in runs]
    run = runs[0]
    own = run.suffixes[0].chosen_by
    views = (each.views[HEADLINE] for each in run.suffixes if HEADLINE in each.views)
    others = {name for view in views for name in view.choices} - {own}
    return [_ordered(f"{own} (the run's own)", run, own), *(_ordered(name, run, name) for name in sorted(others))]


def _ordered(name: str, run: RunFindings, confidence: str) -> RecallCurve:
    return RecallCurve(name, list(_guesses(run.suffixes, confidence)), run.wrong)


def _guesses(findings: Iterable[SuffixFinding], confidence: str) -> Iterator[Guessed]:
    """What ``recall_early_stop`` of the confidence's column is computed from; pairs left out give none."""
    selection = Selection(confidence, "confidence", HEADLINE, confidence)
    for finding in findings:
        reading = selection.reading(finding)
        if reading is not None:
            yield guessed(reading)


def _some(runs: list[RunFindings], task: str) -> list[RunFindings]:
    if not runs:
        raise OptionError(f"nothing to draw: no samples of {task} there: run lm_eval --tasks {task} --log_samples")
    return runs
