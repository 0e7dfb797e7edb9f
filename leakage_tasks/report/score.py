"""Scoring of a saved run's samples: its metrics, a comparison with its results file, and auditing metrics, as text."""

from __future__ import annotations

import dataclasses
import gc
import math
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.core.nouns import counted
from leakage_tasks.core.text_table import text_table
from leakage_tasks.metrics.audit_figure import AuditFigure
from leakage_tasks.metrics.scoring import Scores
from leakage_tasks.report.load.figures import Figure
from leakage_tasks.report.load.format import audit_words, interval
from leakage_tasks.report.load.results_file import read_run
from leakage_tasks.report.load.samples import Samples, read_samples

HEADS = ("column", "metric", "value", "95 % interval", "unit", "description")
WIDTH = 120
NOTHING = "-"
CHANGED_EMPTY = ("min_detectable_exposure",)
"""Metrics that earlier versions also computed for canaries for which they are empty now, or that were empty for some
for which they have a value now."""


@dataclass(frozen=True)
class ResultsComparison:
    """A comparison of scored metrics with a results file.

    ``equal`` counts metrics that agree up to rounding, ``differences`` describes the others, ``newer`` names metrics
    that the run lacks because a later version added them, ``emptied`` names metrics that a later version leaves empty.
    """

    file: Path
    equal: int
    differences: tuple[str, ...]
    newer: tuple[str, ...]
    emptied: tuple[str, ...] = ()


@dataclass(frozen=True)
class ScoredSamples:
    """A scored file of samples; ``compared`` is None without a results file, ``audit`` may be empty."""

    samples: Samples
    scores: Scores
    compared: ResultsComparison | None
    audit: tuple[AuditFigure, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the scores as JSON-able values."""
        compared = self.compared and {**dataclasses.asdict(self.compared), "file": self.compared.file.name}
        return {
            "task": self.samples.task,
            "samples": str(self.samples.file),
            "documents": self.samples.documents,
            "unanswered": self.samples.unanswered,
            "scores": self.scores,
            "unscored": dict(self.samples.unscored),
            "compared": compared,
            "audit": [dataclasses.asdict(figure) for figure in self.audit],
        }


def score_file(path: Path, delta: float = 0.0) -> ScoredSamples:
    """Compute all metrics of a file of samples, compare them with the run's results file, and audit at ``delta``.

    Raises ResultsError.
    """
    with _without_collecting():
        samples = read_samples(path)
        scores = samples.scores()
        figures = tuple(samples.audit(delta))
        return ScoredSamples(samples, scores, _compared(samples, scores), figures)


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Pause Python's cyclic garbage collector: a million records without cycles would cost a sixth more time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _compared(samples: Samples, scores: Scores) -> ResultsComparison | None:
    """Compare the scores with the run's results; None if it has no results of the task (``--predict_only``)."""
    file = samples.results
    result = None if file is None else read_run(file).tasks.get(samples.task)
    if file is None or result is None or result.predicted_only:
        return None
    theirs, ours = _flat(result.values), _flat(scores)
    scorable = {name: value for name, value in theirs.items() if _metric(name) not in samples.unscored}
    emptied = [name for name, value in scorable.items() if value is not None and ours.get(name, value) is None]
    emptied = [name for name in emptied if _metric(name) in CHANGED_EMPTY]
    filled = [name for name, value in scorable.items() if value is None and _metric(name) in CHANGED_EMPTY]
    filled = [name for name in filled if ours.get(name) is not None]
    expected = {name: value for name, value in scorable.items() if name not in (*emptied, *filled)}
    differing = [name for name, value in expected.items() if name not in ours or not _same(value, ours[name])]
    words = [
        f"{name}: {_exactly(expected[name])} in the run, "
        + (f"{_exactly(ours[name])} here" if name in ours else "not in the scores")
        for name in differing
    ]
    if samples.unanswered is None and result.samples not in (None, samples.documents):
        words.insert(0, f"the run had {counted(result.samples, 'document')}, the samples hold {samples.documents}")
    newer = (*(name for name, value in ours.items() if name not in theirs and value is not None), *filled)
    return ResultsComparison(file, len(expected) - len(differing), tuple(words), newer, tuple(emptied))


def _same(one: float | None, other: float | None) -> bool:
    """Return True if two values are equal up to rounding differences between library versions or processors."""
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)


def _flat(values: Mapping[str, Mapping[str, float | None]]) -> dict[str, float | None]:
    return {f"{metric},{column}": value for column, rows in values.items() for metric, value in rows.items()}


def _metric(name: str) -> str:
    return name.rpartition(",")[0]


def _exactly(value: float | None) -> str:
    return "null" if value is None else repr(value)


def score_text(scored: ScoredSamples, every: bool = False) -> str:
    """Return the table of a scored file, with ``every`` column if requested, and the comparison with the run."""
    samples = scored.samples
    documents = f"{samples.documents} document{'s' * (samples.documents > 1)}"
    parts = [f"{samples.task}, {documents}: {samples.file}"]
    if samples.unanswered is not None:
        parts += [f"null, since the model did not answer: {samples.unanswered}"]
    rows = list(_rows(scored, every))
    parts += [text_table([HEADS, *rows], right=False)] if rows else []
    hidden = len([column for column in scored.scores if column != HEADLINE])
    if hidden and not every:
        parts += [f"{hidden} more column{'s' * (hidden > 1)} with --all"]
    parts += [f"{name} is left out: {reason}" for name, reason in samples.unscored.items()]
    parts += [] if scored.compared is None else [_comparison(scored.compared)]
    return "\n".join(parts)


def audit_text(scored: ScoredSamples, delta: float) -> str:
    """Return the auditing metrics of a scored file, each with its meaning."""
    heading = f"audit at δ = {delta:g}: {scored.samples.file}"
    return "\n".join([heading, *(_figure(figure) for figure in scored.audit)])


def _rows(scored: ScoredSamples, every: bool) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the main column (:data:`HEADLINE`), or of ``every`` column. An interval is in the row of its
    value."""
    metrics = {metric.name: metric for metric in scored.samples.metrics()}
    for column, values in scored.scores.items():
        if every or column == HEADLINE:
            ends = {end for name in values for end in metrics[name].interval or ()}
            for metric in (metrics[name] for name in values if name not in ends):
                low, high = (values.get(end) for end in metric.interval or ("", ""))
                value = number(values[metric.name])
                yield (
                    column,
                    metric.name,
                    value,
                    interval(Figure(None, low, high), number),
                    metric.unit,
                    metric.description,
                )


def number(value: float | None) -> str:
    """Format a value with six significant digits, or as a dash if it is None."""
    return NOTHING if value is None else f"{value:.6g}"


def _comparison(compared: ResultsComparison) -> str:
    name = compared.file.name
    lines = [f"rows that {name} does not have: {', '.join(compared.newer)}"] if compared.newer else []
    if compared.emptied:
        lines.append(f"rows that {name} has from an earlier version, now empty: {', '.join(compared.emptied)}")
    if compared.differences:
        lines += [f"differs from {name} ({counted(compared.equal, 'row')} equal):"]
        lines += [f"  {difference}" for difference in compared.differences]
    else:
        lines.append(f"equal to {name} ({counted(compared.equal, 'row')})")
    return "\n".join(lines)


def _figure(figure: AuditFigure) -> str:
    indent = "      "
    meaning = textwrap.fill(figure.words, WIDTH, initial_indent=indent, subsequent_indent=indent)
    return f"  {figure.title}: {audit_words(figure, number)}" + (f"\n{meaning}" if meaning else "")
