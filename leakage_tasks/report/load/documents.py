"""Windows of documents from the samples of a run, and the figures of each document."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from leakage_tasks.attacks.suffix.finding import HEADLINE, Selection, SuffixFinding
from leakage_tasks.core.errors import ResultsError
from leakage_tasks.metrics.clustered import DOCUMENT_MEAN, SHARE
from leakage_tasks.metrics.suffix_values import p_z, recalled
from leakage_tasks.report.load.figures import Figure
from leakage_tasks.report.load.sample_files import find_samples
from leakage_tasks.report.load.sample_lines import wrong_line
from leakage_tasks.report.load.samples import read_all_samples
from leakage_tasks.stats.clusters import clustered_mean, clustered_share
from leakage_tasks.stats.passages import Block, Limits, Stretch, covered, longest, merged, passages, stretch_of

GOAL = "suffixes"
"""Goal of the tasks whose samples hold windows."""
_WITHOUT_DRAWS = ("greedy", "beam")
"""Beginnings of the names of decoding schemes that draw nothing, so that their p_z is 0, 1 or unknown."""


@dataclass(frozen=True)
class Window:
    """One window: the positions of its suffix in the document, and the result of its attack.

    ``probability`` is that of the exact suffix, or None if the model does not report it. ``exact`` is true if greedy
    decoding writes the suffix. ``blocks`` are the equal runs of the guess and the suffix, or None if the run did not
    record them.
    """

    span: Stretch
    probability: float | None
    exact: bool
    blocks: tuple[Block, ...] | None


@dataclass(frozen=True)
class DocumentWindows:
    """The windows of one document, by position. ``control`` is true for a text that the model never saw."""

    number: int
    control: bool
    windows: tuple[Window, ...]
    limits: Limits = Limits()

    @property
    def name(self) -> str:
        """The name in reports."""
        return f"{'control' if self.control else 'document'} {self.number}"

    @cached_property
    def tested(self) -> list[Stretch]:
        """The positions in suffixes; a document's first prefix is never tested."""
        return merged(window.span for window in self.windows)

    @property
    def tokens(self) -> int:
        """Number of tested tokens."""
        return covered(self.tested)

    @property
    def exact(self) -> int:
        """Number of windows whose suffix greedy decoding writes."""
        return sum(window.exact for window in self.windows)

    @cached_property
    def longest_run(self) -> int:
        """Number of tokens of the longest run that suffixes of exact windows cover without a gap."""
        run = longest(window.span for window in self.windows if window.exact)
        return 0 if run is None else run.length

    @cached_property
    def near(self) -> list[Stretch] | None:
        """The positions written near-verbatim and in order; None if the run did not record equal runs."""
        if any(window.blocks is None for window in self.windows):
            return None
        blocks = [block for window in self.windows for block in window.blocks or ()]
        return merged(stretch_of(block) for passage in passages(blocks, self.limits) for block in passage)

    @property
    def recalled(self) -> int | None:
        """Number of tokens written near-verbatim and in order."""
        return None if self.near is None else covered(self.near)

    @property
    def probability(self) -> float | None:
        """Mean probability of an exact suffix, or None if it is unknown."""
        known = [window.probability for window in self.windows if window.probability is not None]
        return sum(known) / len(known) if len(known) == len(self.windows) else None


@dataclass(frozen=True)
class DocumentRun:
    """The documents of a run, controls last, and the meaning of ``probability``."""

    file: Path
    scheme: str
    documents: tuple[DocumentWindows, ...]

    @property
    def probability_words(self) -> str:
        """Description of the probability of a suffix."""
        drawn = f"p_z: probability of the exact suffix in one draw ({self.scheme})"
        undrawn = "probability of the exact suffix under the model's own distribution (temperature 1, no truncation)"
        return undrawn if self.scheme.startswith(_WITHOUT_DRAWS) else drawn

    def of_kind(self, control: bool) -> list[DocumentWindows]:
        """Return the controls, or the other documents."""
        return [document for document in self.documents if document.control is control]


def read_documents(path: str | Path, limits: Limits) -> DocumentRun:
    """Read the windows of the only run under ``path``.

    Raises ResultsError for samples that cannot be read, for several runs, and for windows without a place in a
    document.
    """
    found = [samples for file in find_samples([path]).files if (samples := read_all_samples(file)).scoring.goal == GOAL]
    if len(found) != 1:
        held = ", ".join(str(samples.file.name) for samples in found) or "none"
        raise ResultsError(f"{path}: expected one file of samples of suffix_extraction, found {held}: name the file")
    (samples,) = found
    if samples.unanswered is not None:
        raise ResultsError(f"{samples.file}: the run has no results: {samples.unanswered}")
    windows: dict[tuple[bool, int], list[Window]] = defaultdict(list)
    schemes = set()
    for line, finding in samples.suffix_findings():
        if finding.document is None or finding.offset is None:
            raise wrong_line(samples.file, line, "resps", "a pair without a place in a document: run with stride=…")
        if (window := _window(finding)) is not None:
            windows[finding.control, finding.document].append(window)
            schemes.add(finding.scheme)
    if not windows:
        raise ResultsError(f"{samples.file}: every window was left out: see the row left_out of the results")
    documents = (
        DocumentWindows(number, control, tuple(sorted(group, key=lambda window: window.span)), limits)
        for (control, number), group in sorted(windows.items())
    )
    return DocumentRun(samples.file, ", ".join(sorted(schemes)), tuple(documents))


def _window(finding: SuffixFinding) -> Window | None:
    selected = Selection(HEADLINE, "headline", HEADLINE, finding.chosen_by).select(finding)
    if selected is None or finding.offset is None:
        return None
    view = selected.view
    start = finding.offset + view.prefix_length
    untruncated = None if view.own_bits is None else min(1.0, 2.0**-view.own_bits)
    probability = untruncated if finding.scheme.startswith(_WITHOUT_DRAWS) else p_z(selected)
    exact = recalled(selected) == 1 if view.top1 is None else view.top1 == view.suffix_length
    blocks = None if view.blocks is None else tuple(Block(start + a, start + b, n) for a, b, n in view.blocks)
    return Window(Stretch(start, start + view.suffix_length), probability, exact, blocks)


def exact_share(documents: Sequence[DocumentWindows]) -> Figure:
    """Return the share of exact windows, with an interval by document if there are two documents or more."""
    hits = [(float(window.exact), index) for index, each in enumerate(documents) for window in each.windows]
    values, clusters = zip(*hits, strict=True)
    low, high = clustered_share(values, clusters) if len(documents) > 1 else (None, None)
    return Figure(sum(values) / len(values), low, high, SHARE.kind, count=len(values))


def near_share(documents: Sequence[DocumentWindows]) -> Figure | None:
    """Return the share of tested tokens that were written near-verbatim and in order; None if it was not recorded.

    The interval is by document, and missing for a single document.
    """
    counts = [(each.recalled, each.tokens) for each in documents]
    known = [(recalled_, tokens) for recalled_, tokens in counts if recalled_ is not None]
    if len(known) < len(counts):
        return None
    total = sum(tokens for _, tokens in known)
    low, high = _ratio_interval(known) if len(known) > 1 else (None, None)
    return Figure(sum(part for part, _ in known) / total, low, high, SHARE.kind, count=total)


def mean_probability(documents: Sequence[DocumentWindows]) -> Figure | None:
    """Return the mean probability over windows, with an interval by document; None if it is unknown."""
    listed = [(window.probability, index) for index, each in enumerate(documents) for window in each.windows]
    known: list[tuple[Any, int]] = [pair for pair in listed if pair[0] is not None]
    if len(known) < len(listed):
        return None
    values, clusters = zip(*known, strict=True)
    low, high = clustered_mean(values, clusters, 0, 1) if len(documents) > 1 else (None, None)
    return Figure(sum(values) / len(values), low, high, DOCUMENT_MEAN, count=len(values))


def _ratio_interval(counts: Iterable[tuple[int, int]]) -> tuple[float, float]:
    """Return the interval of a share of tokens of documents, given as tokens inside and all tokens."""
    values: list[float] = []
    clusters: list[int] = []
    for index, (part, tokens) in enumerate(counts):
        values += [1.0] * part + [0.0] * (tokens - part)
        clusters += [index] * tokens
    return clustered_share(values, clusters)
