"""Report on whole documents: tables in the terminal and on a page, and JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from leakage_tasks.core.nouns import percent
from leakage_tasks.core.text_table import text_table
from leakage_tasks.report.load.documents import (
    DocumentRun,
    DocumentWindows,
    exact_share,
    mean_probability,
    near_share,
)
from leakage_tasks.report.load.figures import Figure
from leakage_tasks.report.load.format import NOTHING, interval, number
from leakage_tasks.report.page.document import render
from leakage_tasks.report.page.spreads import Table
from leakage_tasks.report.plots.documents import MOST, draw_documents
from leakage_tasks.report.plots.style import data_uri
from leakage_tasks.stats.passages import Limits

SHOWN = 200
"""Maximum number of documents in a table."""
HEADS = (
    ("Document", "its number in the data, from 0"),
    ("Windows", "number of windows"),
    ("Exact", "windows whose suffix greedy decoding writes token for token"),
    ("Probability", "mean probability of the exact suffix"),
    ("Longest run", "longest run of tokens that exact suffixes cover without a gap"),
    ("Near-verbatim", "share of the tested tokens in passages that the model writes near-verbatim and in order"),
    ("Tested tokens", "number of tokens in suffixes; the first prefix of a document is not tested"),
)
"""Column heads of the table of documents, each with its description."""


def ordered(documents: Sequence[DocumentWindows]) -> list[DocumentWindows]:
    """Return documents in descending order of their share recalled, then of exact windows; controls come last."""
    return sorted(
        documents,
        key=lambda each: (
            each.control,
            -(each.recalled or 0) / each.tokens,
            -each.exact / len(each.windows),
            each.number,
        ),
    )


def summary(run: DocumentRun) -> Table:
    """Return the figures over all documents and the controls, with counts and intervals by document."""
    kinds = [group for group in (run.of_kind(False), run.of_kind(True)) if group]
    heads = ("Figure", *("controls" if group[0].control else "documents" for group in kinds))
    rows = [
        ["Documents", *(f"{len(group):,}" for group in kinds)],
        ["Windows extracted exactly", *(_share(exact_share(group), "windows") for group in kinds)],
        ["Probability of an exact suffix, mean", *(_mean(mean_probability(group)) for group in kinds)],
        ["Longest run, in tokens", *(f"{max(each.longest_run for each in group):,}" for group in kinds)],
        ["Recalled near-verbatim in order", *(_share(near_share(group), "tokens") for group in kinds)],
    ]
    return Table("All documents", heads, rows)


def document_rows(documents: Sequence[DocumentWindows]) -> list[list[str]]:
    """Return the cells of each document for :data:`HEADS`."""
    return [
        [
            each.name,
            f"{len(each.windows):,}",
            f"{each.exact:,}",
            number(each.probability),
            f"{each.longest_run:,}",
            NOTHING if each.recalled is None else percent(each.recalled / each.tokens),
            f"{each.tokens:,}",
        ]
        for each in ordered(documents)[:SHOWN]
    ]


def notes(run: DocumentRun, limits: Limits) -> list[str]:
    """Return what a reader must know about the figures."""
    lines = [
        f"Probability: {run.probability_words}.",
        f"Near-verbatim: equal runs of {limits.block} tokens or more, joined over gaps of at most {limits.gap} tokens "
        f"and changes of the shift of at most {limits.drift}; passages of fewer than {limits.passage} equal tokens do "
        "not count.",
        "The figures of one document have no interval: its windows are all of it, not a sample.",
    ]
    if not run.of_kind(True):
        lines.append("No controls: text that is easy to guess counts as recalled; give controls=… to see how much.")
    if any(document.near is None for document in run.documents):
        lines.append("The run did not record equal runs, so near-verbatim recall is unknown: run it with stride=….")
    return lines


def as_text(run: DocumentRun, limits: Limits) -> str:
    """Return the tables and notes for the terminal."""
    table = summary(run)
    rows = [[head for head, _ in HEADS], *document_rows(run.documents)]
    left_out = len(run.documents) - SHOWN
    more = [f"{left_out:,} more documents are only in the .json report"] if left_out > 0 else []
    return "\n\n".join(
        [text_table([table.heads, *table.rows]), text_table(rows), "\n".join([*more, *notes(run, limits)])]
    )


def page(run: DocumentRun, limits: Limits) -> str:
    """Return the report as one HTML document without external resources; it holds no text of the documents."""
    picture, words = describe_documents(run)
    return render(
        "documents.html",
        ("base.css", "table.css", "plots.css", "print.css", "changes.css"),
        summary=summary(run),
        heads=HEADS,
        rows=document_rows(run.documents),
        more=max(0, len(run.documents) - SHOWN),
        notes=notes(run, limits),
        picture=picture,
        alt=words,
        part=part_words(run),
    )


def describe_documents(run: DocumentRun) -> tuple[str, str]:
    """Return the heat map of the documents as the address of an image, and its description in words."""
    shown = drawn(run)
    return data_uri(draw_documents(shown, run.probability_words)), _alt(shown)


def drawn(run: DocumentRun) -> list[DocumentWindows]:
    """Return the documents of the heat map: those recalled most, and at least a quarter controls if there are many."""
    seen, controls = ordered(run.of_kind(False)), ordered(run.of_kind(True))
    room = min(len(controls), max(MOST // 4, MOST - len(seen)))
    return [*seen[: MOST - room], *controls[:room]]


def part_words(run: DocumentRun) -> str:
    """State which documents the heat map leaves out; empty if it shows all of them."""
    shown = drawn(run)
    if len(shown) == len(run.documents):
        return ""
    seen, controls = (sum(each.control is control for each in shown) for control in (False, True))
    numbers = [f"{seen:,} of {len(run.of_kind(False)):,} documents, those recalled most"]
    if run.of_kind(True):
        numbers.append(f"{controls:,} of {len(run.of_kind(True)):,} controls")
    return f"The heat map shows {', and '.join(numbers)}."


def as_json(run: DocumentRun, limits: Limits) -> dict[str, Any]:
    """Return all figures of all documents and of their windows."""
    kinds = {"documents": run.of_kind(False), "controls": run.of_kind(True)}
    figures: dict[str, Callable[[list[DocumentWindows]], Figure | None]] = {
        "exact": exact_share,
        "probability": mean_probability,
        "near_verbatim": near_share,
    }
    return {
        "schema": 1,
        "scheme": run.scheme,
        "probability": run.probability_words,
        "limits": vars(limits),
        **{
            kind: {
                "summary": {name: _figure(of(group)) for name, of in figures.items()},
                "items": [_document(each) for each in group],
            }
            for kind, group in kinds.items()
            if group
        },
    }


def _document(document: DocumentWindows) -> dict[str, Any]:
    return {
        "number": document.number,
        "tokens": document.tokens,
        "exact": document.exact,
        "longest_run": document.longest_run,
        "recalled": document.recalled,
        "near_verbatim": None if document.near is None else [list(span) for span in document.near],
        "windows": [[*window.span, window.probability, window.exact] for window in document.windows],
    }


def _figure(value: Figure | None) -> dict[str, Any] | None:
    if value is None:
        return None
    return {"value": value.value, "low": value.low, "high": value.high, "n": value.count}


def _share(value: Figure | None, counted: str) -> str:
    if value is None or value.value is None:
        return NOTHING
    ends = interval(value, lambda end: percent(end or 0.0))
    return f"{percent(value.value)} {ends}".strip() + f", n = {value.count:,} {counted}"


def _mean(value: Figure | None) -> str:
    return NOTHING if value is None else f"{number(value.value)} {interval(value)}".strip() + f", n = {value.count:,}"


def _alt(documents: Sequence[DocumentWindows]) -> str:
    parts = [f"{each.name}: {each.exact} of {len(each.windows)} windows exact" for each in documents]
    return f"Probability, exact and near-verbatim extraction by position. {'; '.join(parts)}"
