"""A saved run scored again: its rows, whether they equal those of its results file, and its auditing figures."""

from __future__ import annotations

import dataclasses
import gc
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.metrics import Metric
from leakage_tasks.metrics.audit import AuditFigure, audit
from leakage_tasks.metrics.scoring import CANARY_EXPOSURE, Scores
from leakage_tasks.report.reading.results_file import read_run
from leakage_tasks.report.reading.run import TaskResult
from leakage_tasks.report.reading.samples import Samples, read_samples


@dataclass(frozen=True)
class ScoreRow:
    """One row of one column: its value with its 95 % interval, and what it declares about itself."""

    column: str
    metric: str
    value: float | None
    low: float | None
    high: float | None
    unit: str
    words: str


@dataclass(frozen=True)
class ResultsComparison:
    """The rows scored beside those of a results file.

    ``equal`` counts the rows that are the same but for rounding, ``differences`` says in words which are not, ``newer``
    names those that the run does not have, of metrics that came later.
    """

    file: Path
    equal: int
    differences: tuple[str, ...]
    newer: tuple[str, ...]


@dataclass(frozen=True)
class ScoredSamples:
    """A file of samples scored; ``compared`` is None without a results file, ``audit`` empty where none applies."""

    samples: Samples
    scores: Scores
    compared: ResultsComparison | None
    audit: tuple[AuditFigure, ...]

    def lines(self, every: bool = False) -> list[ScoreRow]:
        """The rows of the run's own column, or of ``every`` column, with intervals beside their values."""
        metrics = {each.name: each for each in self.samples.metrics()}
        return [
            line
            for column, values in self.scores.items()
            if every or column == HEADLINE
            for line in _lines(column, values, metrics)
        ]

    def to_json(self) -> dict[str, Any]:
        """All of it, JSON-able."""
        compared = (
            None if self.compared is None else {**dataclasses.asdict(self.compared), "file": self.compared.file.name}
        )
        return {
            "task": self.samples.task,
            "samples": str(self.samples.file),
            "documents": self.samples.documents,
            "unanswered": self.samples.unanswered,
            "scores": self.scores,
            "unscored": dict(self.samples.unscored),
            "compared": compared,
            "audit": [dataclasses.asdict(each) for each in self.audit],
        }


def score_file(path: Path, delta: float = 0.0) -> ScoredSamples:
    """All metrics of a file of samples, compared with the results file beside it, and audited at ``delta``.

    Raises ResultsError.
    """
    with _without_collecting():
        samples = read_samples(path)
        scores = samples.scores()
        findings = samples.findings() if samples.scoring is CANARY_EXPOSURE else []
        figures = audit(findings, delta) if any(each.planted for each in findings) else []
        return ScoredSamples(samples, scores, _compared(samples, scores), tuple(figures))


@contextmanager
def _without_collecting() -> Iterator[None]:
    """No search for circles among a million records that hold none, which takes a sixth of the time."""
    usual = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if usual:
            gc.enable()


def _lines(column: str, values: Mapping[str, float | None], metrics: Mapping[str, Metric[Any, Any]]) -> list[ScoreRow]:
    ends = {end for name in values for end in metrics[name].interval or () if end in values}
    found = []
    for name, value in values.items():
        if name not in ends:
            low, high = (values.get(end) for end in metrics[name].interval or ("", ""))
            found.append(ScoreRow(column, name, value, low, high, metrics[name].unit, metrics[name].words))
    return found


def _compared(samples: Samples, scores: Scores) -> ResultsComparison | None:
    """The scores beside the run's own; None where there are none of the task."""
    file = samples.results
    result = None if file is None else read_run(file).tasks.get(samples.task)
    if file is None or result is None:
        return None
    theirs, ours = _flat(result.values), _flat(scores)
    expected = {key: value for key, value in theirs.items() if key[1] not in samples.unscored}
    differing = [key for key, value in expected.items() if key not in ours or not _same(value, ours[key])]
    words = [_documents(samples, result), *(_difference(key, expected[key], ours) for key in differing)]
    newer = tuple(_name(key) for key, value in ours.items() if key not in theirs and value is not None)
    return ResultsComparison(file, len(expected) - len(differing), tuple(each for each in words if each), newer)


def _same(one: float | None, other: float | None) -> bool:
    """Whether two figures are equal but for what other versions of libraries, or processors, round otherwise."""
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)


def _flat(values: Mapping[str, Mapping[str, float | None]]) -> dict[tuple[str, str], float | None]:
    return {(column, metric): value for column, rows in values.items() for metric, value in rows.items()}


def _documents(samples: Samples, result: TaskResult) -> str:
    if samples.unanswered is not None or result.samples in (None, samples.documents):
        return ""
    return f"the run had {result.samples} documents, the samples hold {samples.documents}"


def _difference(key: tuple[str, str], expected: float | None, ours: Mapping[tuple[str, str], float | None]) -> str:
    if key not in ours:
        return f"{_name(key)}: {_exactly(expected)} in the run, not in the scores"
    return f"{_name(key)}: {_exactly(expected)} in the run, {_exactly(ours[key])} here"


def _name(key: tuple[str, str]) -> str:
    """The harness' name of a row."""
    return f"{key[1]},{key[0]}"


def _exactly(value: float | None) -> str:
    return "null" if value is None else repr(value)
