"""Data for each plot, read from results files, files of samples, and folders with such files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from leakage_tasks.attacks import Finding
from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.attacks.suffix.finding import HEADLINE, Selection, SuffixFinding
from leakage_tasks.core.errors import OptionError, ResultsError
from leakage_tasks.core.task_names import EXPOSURE, EXTRACTION, SUFFIXES, WINDOWS
from leakage_tasks.metrics.suffix_values import guessed
from leakage_tasks.metrics.tiers import planted_words
from leakage_tasks.report.load.results import read_runs, results_files
from leakage_tasks.report.load.run import Run
from leakage_tasks.report.load.samples import Samples, read_all_samples
from leakage_tasks.report.load.training_log import EpochExposure
from leakage_tasks.report.plots.histogram import MOST, Costs
from leakage_tasks.report.plots.prefixes import PrefixCurve, prefix_curves
from leakage_tasks.report.plots.recall import RecallCurve
from leakage_tasks.report.plots.repetitions import RunByRepetitions, by_repetitions

Sources = Sequence[str | Path]


@dataclass(frozen=True)
class RunFindings:
    """The findings of one run by kind of task; ``wrong`` is the suffix run's limit of wrong guesses.

    ``windows`` are the findings of ``memorization``, with controls, and ``distance`` is its unit of the edit distance.
    """

    name: str
    exposure: tuple[Finding, ...] = ()
    extraction: tuple[Finding, ...] = ()
    suffixes: tuple[SuffixFinding, ...] = ()
    wrong: int | None = None
    windows: tuple[SuffixFinding, ...] = ()
    distance: str = "tokens"


def read_logged(sources: Sequence[str | Path], tasks: Sequence[str]) -> list[RunFindings]:
    """Read the runs of ``sources`` with their findings of ``tasks``, in the order of the sources.

    Runs of one source are in the order of their models' names, where ``checkpoint-200`` precedes ``checkpoint-1000``.
    Each run has a unique name; runs without findings of ``tasks`` are left out. Raises ResultsError for a source that
    cannot be read, and for a run that has one of ``tasks`` but logged no samples.
    """
    located = [_locate(Path(source)) for source in sources]
    runs = read_runs(dict.fromkeys(file for source in located for file in source.results))
    ordered = sorted(runs, key=lambda run: (_source_index(run, located), _with_numbers(" + ".join(run.recorded_parts))))
    named = [(run.name, _samples_of(run, located, tasks)) for run in ordered]
    named += [
        (source.samples.file.stem, [source.samples]) for source in located if source.samples and not source.results
    ]
    logged = [_logged(name, [sample for sample in samples if sample.task in tasks]) for name, samples in named]
    return [run for run in logged if run.exposure or run.extraction or run.suffixes or run.windows]


@dataclass(frozen=True)
class _Source:
    """One source: its results files, and the samples if it is a file of samples, which excludes other samples."""

    results: tuple[Path, ...]
    samples: Samples | None = None


def _locate(path: Path) -> _Source:
    if path.suffix != ".jsonl":
        return _Source(tuple(file.resolve() for file in results_files(path)))
    samples = read_all_samples(path.resolve())
    return _Source((samples.results,) if samples.results else (), samples)


def _source_index(run: Run, located: Sequence[_Source]) -> int:
    return min(index for index, source in enumerate(located) if set(source.results) & set(run.files))


def _with_numbers(name: str) -> list[tuple[str, int]]:
    """Return a sort key of a name that compares the numbers in it by their values."""
    return [(text, int(digits or 0)) for text, digits in re.findall(r"(\D*)([0-9]*)", name)]


def _samples_of(run: Run, located: Sequence[_Source], tasks: Sequence[str]) -> list[Samples]:
    samples = []
    for task in tasks:
        result = run.scored_as(task)
        if result is None:
            continue
        candidates = [source.samples for source in located if result.file in source.results]
        if None in candidates and result.logged is None:
            raise ResultsError(
                f"{result.file}: no samples of {task} in its folder: run lm_eval again with --log_samples"
            )
        chosen = next(
            (candidate for candidate in candidates if candidate is not None and candidate.task == result.task), None
        )
        if chosen is not None:
            samples.append(chosen)
        elif None in candidates and result.logged is not None:
            samples.append(read_all_samples(result.logged))
    return samples


def _logged(name: str, samples: Iterable[Samples]) -> RunFindings:
    by_task = {sample.scoring.task: sample for sample in samples}
    exposure, extraction = (by_task[task].findings() if task in by_task else () for task in (EXPOSURE, EXTRACTION))
    run = RunFindings(name, tuple(exposure), tuple(extraction))
    windows = by_task.get(WINDOWS)
    if windows is not None and windows.unanswered is None:
        distance = windows.answered[0].task_settings.get("distance", "tokens")
        run = replace(run, windows=_suffixes(windows, controls=True), distance=distance)
    suffixes = by_task.get(SUFFIXES)
    if suffixes is None or suffixes.unanswered is not None:
        return run
    return replace(run, suffixes=_suffixes(suffixes), wrong=suffixes.answered[0].task_settings.get("wrong"))


def _suffixes(samples: Samples, controls: bool = False) -> tuple[SuffixFinding, ...]:
    return tuple(finding for _, finding in samples.suffix_findings() if controls or not finding.control)


def epochs_of(sources: Sources) -> list[EpochExposure]:
    """Read the exposures of several runs of ``canary_exposure`` as epochs, in their order.

    Raises LeakageError, also for a source without exposures, since the runs after it would be drawn too early.
    """
    runs = _exposed_runs(sources)
    for source in sources if len(runs) < len(sources) else ():
        if not any(run.exposure for run in read_logged([source], [EXPOSURE])):
            raise OptionError(f"{source}: has no exposure, so later checkpoints would move forward: leave it out")
    return [
        EpochExposure(
            epoch=epoch,
            canary=finding.canary,
            repetitions=finding.copies,
            exposure=finding.exposure,
            log2_size=finding.log2_size,
            bound=finding.method == "lower_bound",
            natural=finding.kind == NATURAL,
            reading=finding.reading,
        )
        for epoch, run in enumerate(runs, 1)
        for finding in run.exposure
        if finding.exposure is not None
    ]


def repetitions_of(sources: Sources) -> list[RunByRepetitions]:
    """Read exposures, and extractions if the runs tested them, by number of copies. Raises LeakageError."""
    runs = _exposed_runs(sources, EXTRACTION)
    return [by_repetitions(run.name, run.exposure, run.extraction) for run in runs]


def _exposed_runs(sources: Sources, *others: str) -> list[RunFindings]:
    """Read the runs with findings of exposure, with their findings of ``others``. Raises OptionError without a run."""
    return _require_any([run for run in read_logged(sources, [EXPOSURE, *others]) if run.exposure], EXPOSURE)


def costs_of(sources: Sources, canaries: Sequence[str] = ()) -> list[Costs]:
    """Read the panels of a histogram: the canaries with these ids in every run that has them.

    Without ids, each run gives its most and least exposed planted canary and its median control, but no natural one.
    Raises OptionError for an id that is unknown or natural and for more panels than fit, and ResultsError if the run
    logged no costs.
    """
    runs = _exposed_runs(sources)
    known = {finding.canary for run in runs for finding in run.exposure}
    for name in canaries:
        if name not in known:
            listed = ", ".join(sorted(known)[:12]) + (f" and {len(known) - 12} more" if len(known) > 12 else "")
            raise OptionError(f"--canary {name}: no such canary: choose from {listed}")
    chosen = [(run, finding) for run in runs for finding in (_selected(run, canaries) if canaries else _extremes(run))]
    for run, finding in chosen:
        if finding.coarse:
            raise OptionError(
                f"{run.name}: canary {finding.canary!r} is natural, and its rank among its fillings would confirm a "
                "guess: choose others with --canary"
            )
        if "costs" not in finding.extra:
            raise ResultsError(
                f"{run.name}: canary {finding.canary!r} has no costs of random fillings: run lm_eval again with "
                "--metadata histogram=2000"
            )
    if len(chosen) > MOST:
        raise OptionError(
            f"{len(chosen)} panels, but at most {MOST} fit: give fewer runs, or canaries with --canary ID"
        )
    return [_costs(finding, run.name if len(runs) > 1 else "") for run, finding in chosen]


def _selected(run: RunFindings, canaries: Sequence[str]) -> list[Finding]:
    by_name = {finding.canary: finding for finding in run.exposure}
    return [by_name[name] for name in dict.fromkeys(canaries) if name in by_name]


def _extremes(run: RunFindings) -> list[Finding]:
    """Return the most and the least exposed planted canary, and the median control."""
    candidates = [finding for finding in run.exposure if not finding.coarse] or run.exposure
    ranked = sorted(candidates, key=lambda finding: (-(finding.exposure or 0.0), finding.canary))
    planted = [finding for finding in ranked if finding.planted]
    controls = [finding for finding in ranked if not finding.planted]
    chosen = [*planted[:1], *planted[-1:], *controls[len(controls) // 2 :][:1]]
    return list({finding.canary: finding for finding in chosen}.values())


def _costs(finding: Finding, run: str) -> Costs:
    classified = "class_loss" in finding.extra
    secret_cost = finding.extra["class_loss"] if classified else finding.log_perplexity
    if secret_cost is None or finding.exposure is None:
        raise ResultsError(f"canary {finding.canary!r}: has no cost of its secret or no rank: run lm_eval again")
    costs = finding.extra["costs"]
    if not isinstance(costs, list) or not costs or not all(isinstance(cost, int | float) for cost in costs):
        raise ResultsError(f"canary {finding.canary!r}: field 'costs': expected a list of numbers: run lm_eval again")
    return Costs(
        name=f"{run}: {finding.canary}" if run else finding.canary,
        planting=planted_words(finding.tier) if finding.planted else "never planted",
        costs=sorted(costs),
        secret_cost=secret_cost,
        exposure=finding.exposure,
        method=finding.method or "exact",
        log2_size=finding.log2_size,
        words="class loss (bits)" if classified else "log-perplexity of the filled text (bits)",
    )


def recall_of(sources: Sources) -> list[RecallCurve]:
    """Return a curve per confidence for a single run, or a curve per run, ordered by the run's own confidence.

    Raises LeakageError.
    """
    runs = _require_any([run for run in read_logged(sources, [SUFFIXES]) if run.suffixes], SUFFIXES)
    if len(runs) > 1:
        return [_curve(run.name, run, run.suffixes[0].chosen_by) for run in runs]
    run = runs[0]
    chosen_by = run.suffixes[0].chosen_by
    views = (suffix.views[HEADLINE] for suffix in run.suffixes if HEADLINE in suffix.views)
    others = {name for view in views for name in view.choices} - {chosen_by}
    return [
        _curve(f"{chosen_by} (the run's own)", run, chosen_by),
        *(_curve(name, run, name) for name in sorted(others)),
    ]


def _curve(name: str, run: RunFindings, confidence: str) -> RecallCurve:
    """Collect the guesses behind ``recall_early_stop`` for one confidence; pairs left out have no guess."""
    views = map(Selection(confidence, "confidence", HEADLINE, confidence).select, run.suffixes)
    return RecallCurve(name, [guessed(view) for view in views if view is not None], run.wrong)


def prefixes_of(sources: Sources) -> list[PrefixCurve]:
    """Return the curves of memorization by length of the prefix, of all runs. Raises LeakageError."""
    runs = _require_any([run for run in read_logged(sources, [WINDOWS]) if run.windows], WINDOWS)
    names = [run.name for run in runs] if len(runs) > 1 else [""]
    return [
        curve for name, run in zip(names, runs, strict=True) for curve in prefix_curves(name, run.windows, run.distance)
    ]


def _require_any(runs: list[RunFindings], task: str) -> list[RunFindings]:
    if not runs:
        raise OptionError(f"nothing to draw: no samples of {task}: run lm_eval --tasks {task} --log_samples")
    return runs
