"""A run scored again as plain text: a table of its rows, how they compare, and the audit."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.metrics.audit import AuditFigure
from leakage_tasks.report.reading.format import text_table
from leakage_tasks.report.score.score import ResultsComparison, ScoredSamples

HEADS = ("column", "metric", "value", "95 % interval", "unit", "what it is")
WIDTH = 120
NONE = "-"


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
                yield column, metric.name, value, _interval(low, high), metric.unit, metric.words


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
    return f"  {figure.title}: {_value(figure)}\n{said}"


def _value(figure: AuditFigure) -> str:
    if figure.refused is not None:
        return f"none, {figure.refused}"
    if figure.lower_bound:
        return f"{number(figure.value)} or more ({figure.basis}; all right would have shown {number(figure.best)})"
    interval = _interval(figure.low, figure.high)
    return f"{number(figure.value)} {interval} ({figure.basis}; {figure.chance:g} without a leak)"
