"""Saved findings for plots: from results files, files of samples, and folders of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from leakage_tasks.attacks import Finding
from leakage_tasks.attacks.suffix.finding import HEADLINE, SuffixFinding, suffix_finding_from_json
from leakage_tasks.core.errors import ResultsError
from leakage_tasks.metrics.scoring import CANARY_EXPOSURE, CANARY_EXTRACTION, SUFFIX_EXTRACTION
from leakage_tasks.report.reading.results import read_runs, results_files
from leakage_tasks.report.reading.run import Run
from leakage_tasks.report.reading.samples import AGAIN, Samples, read_samples

EXPOSURE, EXTRACTION, SUFFIXES = CANARY_EXPOSURE.task, CANARY_EXTRACTION.task, SUFFIX_EXTRACTION.task


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
    found = [_logged(name, [each for each in samples if each.task in tasks]) for name, samples in named]
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
    return min(place for place, each in enumerate(given) if set(each.results) & set(run.files))


def _samples_of(run: Run, given: Sequence[_Place], tasks: Sequence[str]) -> list[Samples]:
    """The samples of a run's tasks, of those that were asked for."""
    found = []
    for task in tasks:
        result = run.tasks.get(task)
        places = [place for place in given if result is not None and result.file in place.results]
        single = [place.samples for place in places if place.samples is not None]
        whole = len(single) < len(places)
        if result is not None and whole and result.logged is None:
            raise ResultsError(f"{result.file}: no samples of {task} beside it: run lm_eval again with --log_samples")
        own = next((each for each in single if each.task == task), None)
        if own is not None:
            found.append(own)
        elif result is not None and whole and result.logged is not None:
            found.append(read_samples(result.logged))
    return found


def _logged(name: str, samples: Iterable[Samples]) -> RunFindings:
    run = RunFindings(name)
    for each in samples:
        if each.task == EXPOSURE:
            run = replace(run, exposure=tuple(each.findings()))
        elif each.task == EXTRACTION:
            run = replace(run, extraction=tuple(each.findings()))
        elif each.unanswered is None:
            run = replace(run, suffixes=_suffixes(each), wrong=each.answered[0].order.get("wrong"))
    return run


def _suffixes(samples: Samples) -> tuple[SuffixFinding, ...]:
    found = []
    for line, each in zip(samples.lines, samples.answered, strict=True):
        if each.column == HEADLINE:
            try:
                found.append(suffix_finding_from_json(each.answer))
            except (AttributeError, LookupError, TypeError, ValueError):
                raise ResultsError(f"{samples.file}:{line}: field 'resps': no finding: {AGAIN}") from None
    return tuple(found)
