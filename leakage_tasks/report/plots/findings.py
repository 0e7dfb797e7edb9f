"""What each plot is drawn from: findings out of results files, files of samples, and folders of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from leakage_tasks.attacks import Finding
from leakage_tasks.attacks.suffix.finding import HEADLINE, Selection, SuffixFinding, suffix_finding_from_json
from leakage_tasks.core.errors import OptionError, ResultsError
from leakage_tasks.metrics.extraction import extracted
from leakage_tasks.metrics.suffix_values import guessed
from leakage_tasks.report.load.findings import EXPOSURE, EXTRACTION, SUFFIXES
from leakage_tasks.report.load.results import read_runs, results_files
from leakage_tasks.report.load.run import Run
from leakage_tasks.report.load.sample_lines import AGAIN
from leakage_tasks.report.load.samples import Samples, read_samples
from leakage_tasks.report.load.training_log import EpochExposure
from leakage_tasks.report.plots.histogram import MOST, Costs
from leakage_tasks.report.plots.recall import RecallCurve
from leakage_tasks.report.plots.repetitions import CanaryPoint, RunByRepetitions

Sources = Sequence[str | Path]


@dataclass(frozen=True)
class RunFindings:
    """The findings of one run by the kind of task; ``wrong`` is what a suffix run was told of wrong guesses."""

    name: str
    exposure: tuple[Finding, ...] = ()
    extraction: tuple[Finding, ...] = ()
    suffixes: tuple[SuffixFinding, ...] = ()
    wrong: int | None = None


def read_logged(sources: Sequence[str | Path], tasks: Sequence[str]) -> list[RunFindings]:
    """The runs that ``sources`` stand for with their findings of ``tasks``, in the order of the sources.

    Each run has a name of its own; runs that hold nothing of ``tasks`` are left out. Raises ResultsError for a source
    that cannot be read, and for a run that has one of ``tasks`` but logged no samples.
    """
    given = [_place(Path(source)) for source in sources]
    runs = read_runs(dict.fromkeys(file for place in given for file in place.results))
    named = [(run.name, _samples_of(run, given, tasks)) for run in sorted(runs, key=lambda run: _turn(run, given))]
    named += [(place.samples.file.stem, [place.samples]) for place in given if place.samples and not place.results]
    found = [_logged(name, [sample for sample in samples if sample.task in tasks]) for name, samples in named]
    return [each for each in found if each.exposure or each.extraction or each.suffixes]


@dataclass(frozen=True)
class _Place:
    """One source: its results files and, where it is a file of samples, nothing but those of them."""

    results: tuple[Path, ...]
    samples: Samples | None = None


def _place(path: Path) -> _Place:
    if path.suffix != ".jsonl":
        return _Place(tuple(file.resolve() for file in results_files(path)))
    samples = read_samples(path.resolve())
    return _Place((samples.results,) if samples.results else (), samples)


def _turn(run: Run, given: Sequence[_Place]) -> int:
    """The place of the first source that stands for a run."""
    return min(index for index, each in enumerate(given) if set(each.results) & set(run.files))


def _samples_of(run: Run, given: Sequence[_Place], tasks: Sequence[str]) -> list[Samples]:
    """The samples of a run's tasks, of those that were asked for."""
    found = []
    for task in tasks:
        result = run.scored_as(task)
        if result is None:
            continue
        given_as = [place.samples for place in given if result.file in place.results]
        if None in given_as and result.logged is None:
            raise ResultsError(f"{result.file}: no samples of {task} beside it: run lm_eval again with --log_samples")
        own = next((each for each in given_as if each is not None and each.task == result.task), None)
        if own is not None:
            found.append(own)
        elif None in given_as and result.logged is not None:
            found.append(read_samples(result.logged))
    return found


def _logged(name: str, samples: Iterable[Samples]) -> RunFindings:
    by_task = {sample.scoring.task: sample for sample in samples}
    exposure, extraction = (by_task[task].findings() if task in by_task else () for task in (EXPOSURE, EXTRACTION))
    run = RunFindings(name, tuple(exposure), tuple(extraction))
    suffixes = by_task.get(SUFFIXES)
    if suffixes is None or suffixes.unanswered is not None:
        return run
    return replace(run, suffixes=_suffixes(suffixes), wrong=suffixes.answered[0].task_settings.get("wrong"))


def _suffixes(samples: Samples) -> tuple[SuffixFinding, ...]:
    found = []
    for line, each in zip(samples.lines, samples.answered, strict=True):
        if each.column == HEADLINE:
            try:
                finding = suffix_finding_from_json(each.answer)
            except (AttributeError, LookupError, TypeError, ValueError):
                raise ResultsError(f"{samples.file}:{line}: field 'resps': no finding: {AGAIN}") from None
            found += [] if finding.control else [finding]
    return tuple(found)


def epochs_of(sources: Sources) -> list[EpochExposure]:
    """Exposures of several runs of ``canary_exposure``, each an epoch, in the order given. Raises LeakageError."""
    return [
        EpochExposure(epoch, each.canary, each.repetitions, each.exposure, each.log2_size, each.method == "lower_bound")
        for epoch, run in enumerate(_exposed_runs(sources), 1)
        for each in run.exposure
        if each.exposure is not None
    ]


def repetitions_of(sources: Sources) -> list[RunByRepetitions]:
    """Exposures, and what was extracted where that was asked too, by repetitions. Raises LeakageError."""
    runs = _exposed_runs(sources, EXTRACTION)
    return [RunByRepetitions(run.name, _canary_points(run.exposure), _outcomes(run.extraction)) for run in runs]


def _exposed_runs(sources: Sources, *others: str) -> list[RunFindings]:
    """The runs with findings of exposure, those of the ``others`` among tasks too. Raises OptionError for none."""
    return _some([run for run in read_logged(sources, [EXPOSURE, *others]) if run.exposure], EXPOSURE)


def _canary_points(findings: Iterable[Finding]) -> list[CanaryPoint]:
    return [
        CanaryPoint(
            finding.canary, finding.repetitions, finding.exposure, finding.log2_size, finding.method == "lower_bound"
        )
        for finding in findings
        if finding.exposure is not None
    ]


def _outcomes(findings: Iterable[Finding]) -> dict[int, list[bool]]:
    found: dict[int, list[bool]] = {}
    for finding in findings:
        right = extracted(finding)
        if right is not None:
            found.setdefault(finding.repetitions, []).append(right == 1)
    return found


def costs_of(sources: Sources, canaries: Sequence[str] = ()) -> list[Costs]:
    """The panels of a histogram: the canaries of these ids in every run that has them.

    Without ids, of each run the most and the least exposed planted canary and the control in the middle, none of them
    natural. Raises OptionError for an id that no run has or that is natural, for more panels than fit, and where no
    costs were kept.
    """
    runs = _exposed_runs(sources)
    known = {each.canary for run in runs for each in run.exposure}
    for name in canaries:
        if name not in known:
            listed = ", ".join(sorted(known)[:12]) + (f" and {len(known) - 12} more" if len(known) > 12 else "")
            raise OptionError(f"--canary {name}: no such canary: there are {listed}")
    chosen = [(run, each) for run in runs for each in (_asked_for(run, canaries) if canaries else _extremes(run))]
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


def _asked_for(run: RunFindings, canaries: Sequence[str]) -> list[Finding]:
    by_name = {each.canary: each for each in run.exposure}
    return [by_name[name] for name in dict.fromkeys(canaries) if name in by_name]


def _extremes(run: RunFindings) -> list[Finding]:
    """The most and the least exposed planted canary, and the control in the middle."""
    told = [each for each in run.exposure if not each.coarse] or run.exposure
    ranked = sorted(told, key=lambda each: (-(each.exposure or 0.0), each.canary))
    planted = [each for each in ranked if each.planted]
    controls = [each for each in ranked if not each.planted]
    chosen = [*planted[:1], *planted[-1:], *controls[len(controls) // 2 :][:1]]
    return list({each.canary: each for each in chosen}.values())


def _costs(found: Finding, run: str) -> Costs:
    classified = "class_loss" in found.extra
    own = found.extra["class_loss"] if classified else found.log_perplexity
    if own is None or found.exposure is None:
        raise ResultsError(f"canary {found.canary!r}: has no cost of its own or no rank: run lm_eval again")
    costs = found.extra["costs"]
    if not isinstance(costs, list) or not costs or not all(isinstance(cost, int | float) for cost in costs):
        raise ResultsError(f"canary {found.canary!r}: its costs are no list of numbers: run lm_eval again")
    return Costs(
        name=f"{run}: {found.canary}" if run else found.canary,
        repetitions=found.repetitions,
        costs=sorted(costs),
        own=own,
        exposure=found.exposure,
        method=found.method or "exact",
        log2_size=found.log2_size,
        words="class loss (bits)" if classified else "log-perplexity of the filled text (bits)",
    )


def recall_of(sources: Sources) -> list[RecallCurve]:
    """A line a confidence of one run of ``suffix_extraction``; of several runs a line each, by their own confidence.

    Raises LeakageError.
    """
    runs = _some([run for run in read_logged(sources, [SUFFIXES]) if run.suffixes], SUFFIXES)
    if len(runs) > 1:
        return [_curve(run.name, run, run.suffixes[0].chosen_by) for run in runs]
    run = runs[0]
    own = run.suffixes[0].chosen_by
    views = (suffix.views[HEADLINE] for suffix in run.suffixes if HEADLINE in suffix.views)
    others = {name for view in views for name in view.choices} - {own}
    return [_curve(f"{own} (the run's own)", run, own), *(_curve(name, run, name) for name in sorted(others))]


def _curve(name: str, run: RunFindings, confidence: str) -> RecallCurve:
    """What ``recall_early_stop`` of the confidence's column is computed from; pairs left out give none."""
    readings = map(Selection(confidence, "confidence", HEADLINE, confidence).select, run.suffixes)
    return RecallCurve(name, [guessed(reading) for reading in readings if reading is not None], run.wrong)


def _some(runs: list[RunFindings], task: str) -> list[RunFindings]:
    if not runs:
        raise OptionError(f"nothing to draw: no samples of {task} there: run lm_eval --tasks {task} --log_samples")
    return runs
