"""A saved run scored again: its rows, whether they equal those of its results file, its auditing figures, as text."""

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
from leakage_tasks.core.text_table import text_table
from leakage_tasks.metrics.audit import AuditFigure
from leakage_tasks.metrics.scoring import Scores
from leakage_tasks.report.load.results_file import read_run
from leakage_tasks.report.load.samples import Samples, read_samples

HEADS = ("column", "metric", "value", "95 % interval", "unit", "what it is")
WIDTH = 120
NONE = "-"


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

    def to_json(self) -> dict[str, Any]:
        """All of it, JSON-able."""
        compared = self.compared and {**dataclasses.asdict(self.compared), "file": self.compared.file.name}
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
        figures = tuple(samples.audit(delta))
        return ScoredSamples(samples, scores, _compared(samples, scores), figures)


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


def _compared(samples: Samples, scores: Scores) -> ResultsComparison | None:
    """The scores beside the run's own; None if the run has none of the task, as under ``--predict_only``."""
    file = samples.results
    result = None if file is None else read_run(file).tasks.get(samples.task)
    if file is None or result is None or result.predicted_only:
        return None
    theirs, ours = _flat(result.values), _flat(scores)
    expected = {name: value for name, value in theirs.items() if name.rpartition(",")[0] not in samples.unscored}
    differing = [name for name, value in expected.items() if name not in ours or not _same(value, ours[name])]
    words = [
        f"{name}: {_exactly(expected[name])} in the run, "
        + (f"{_exactly(ours[name])} here" if name in ours else "not in the scores")
        for name in differing
    ]
    if samples.unanswered is None and result.samples not in (None, samples.documents):
        words.insert(0, f"the run had {result.samples} documents, the samples hold {samples.documents}")
    newer = tuple(name for name, value in ours.items() if name not in theirs and value is not None)
    return ResultsComparison(file, len(expected) - len(differing), tuple(words), newer)


def _same(one: float | None, other: float | None) -> bool:
    """Whether two figures are equal but for what other versions of libraries, or processors, round otherwise."""
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)


def _flat(values: Mapping[str, Mapping[str, float | None]]) -> dict[str, float | None]:
    """Values by the harness' name of a row."""
    return {f"{metric},{column}": value for column, rows in values.items() for metric, value in rows.items()}


def _exactly(value: float | None) -> str:
    return "null" if value is None else repr(value)


def score_text(scored: ScoredSamples, every: bool = False) -> str:
    """The table of a scored file, ``every`` column of it if wanted, and whether it equals the run's own figures."""
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
    """The auditing figures of a scored file, each with what it means."""
    heading = f"audit at δ = {delta:g}: {scored.samples.file}"
    return "\n".join([heading, *(_figure(each) for each in scored.audit)])


def _rows(scored: ScoredSamples, every: bool) -> Iterator[tuple[str, ...]]:
    """The rows of the run's own column, or of ``every`` column, with intervals beside their values."""
    metrics = {each.name: each for each in scored.samples.metrics()}
    for column, values in scored.scores.items():
        if every or column == HEADLINE:
            ends = {end for name in values for end in metrics[name].interval or ()}
            for metric in (metrics[name] for name in values if name not in ends):
                low, high = (values.get(end) for end in metric.interval or ("", ""))
                value = number(values[metric.name])
                yield column, metric.name, value, _interval(low, high), metric.unit, metric.description


def number(value: float | None) -> str:
    """A value to six digits; a dash for none."""
    return NONE if value is None else f"{value:.6g}"


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"[{number(low)}, {number(high)}]"


def _comparison(compared: ResultsComparison) -> str:
    name = compared.file.name
    lines = [f"rows that {name} does not have: {', '.join(compared.newer)}"] if compared.newer else []
    if compared.differences:
        lines += [f"differs from {name} ({compared.equal} rows are equal):"]
        lines += [f"  {difference}" for difference in compared.differences]
    else:
        lines.append(f"equal to {name} ({compared.equal} rows)")
    return "\n".join(lines)


def _figure(figure: AuditFigure) -> str:
    indent = "      "
    said = textwrap.fill(figure.words, WIDTH, initial_indent=indent, subsequent_indent=indent)
    return f"  {figure.title}: {_value(figure)}" + (f"\n{said}" if said else "")


def _value(figure: AuditFigure) -> str:
    if figure.refused is not None:
        return f"none, {figure.refused}"
    if figure.lower_bound:
        return f"{number(figure.value)} or more ({figure.basis}; all right would have shown {number(figure.best)})"
    interval = _interval(figure.low, figure.high)
    return f"{number(figure.value)} {interval} ({figure.basis}; {figure.chance:g} without a leak)"
