"""Figures of an evidence report, drawn from the samples of a run."""

from __future__ import annotations

from collections.abc import Iterator

from leakage_tasks.report.evidence.record import Drawing
from leakage_tasks.report.load.documents import read_documents
from leakage_tasks.report.load.findings import SUFFIXES, WINDOWS, read_details
from leakage_tasks.report.load.results import Run
from leakage_tasks.report.load.texts import TEXTS, read_texts
from leakage_tasks.report.page.documents import describe_documents
from leakage_tasks.report.page.runs import spread_of
from leakage_tasks.report.page.spreads import describe_spread
from leakage_tasks.report.plots.findings import recall_of
from leakage_tasks.report.plots.recall import draw_recall
from leakage_tasks.report.plots.runs import draw_runs, run_curves
from leakage_tasks.report.plots.style import data_uri
from leakage_tasks.stats.passages import Limits


def drawings_of(run: Run) -> Iterator[Drawing]:
    """Yield the figures of the tasks that logged samples; natural secrets stay hidden. Raises ResultsError."""
    details = read_details(run)
    spread = describe_spread(spread_of(run.name, details.canaries), drawn=True)
    if spread is not None:
        yield Drawing("Exposure and extraction by number of copies", spread["alt"], spread["figure"])
    suffixes = run.tasks.get(SUFFIXES)
    if suffixes is not None and suffixes.answered and suffixes.logged is not None and details.pairs:
        curves = recall_of([suffixes.logged])
        words = f"Recall of suffixes against the number of wrong guesses allowed, for {len(details.pairs):,} pairs."
        yield Drawing("Recall by number of wrong guesses allowed", words, data_uri(draw_recall(curves)))
    written = run.tasks.get(TEXTS)
    if written is not None and written.answered and written.logged is not None:
        lines = run_curves(read_texts(run))
        words = "; ".join(f"{line.name}: {line.shares[0].value:.3g} of {line.count:,} texts" for line in lines)
        drawn = f"Share of texts with a run of {lines[0].shares[0].length} tokens or more. {words}."
        yield Drawing("Written texts with a run of the corpus, by length of the run", drawn, data_uri(draw_runs(lines)))
    windows = run.tasks.get(WINDOWS)
    if windows is not None and windows.answered and windows.logged is not None:
        picture, words = describe_documents(read_documents(windows.logged, Limits()))
        yield Drawing("Windows of documents that the model writes", words, picture)
