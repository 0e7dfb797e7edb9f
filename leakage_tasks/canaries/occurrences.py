"""Occurrences of canaries in one file: as rows, inside other rows, with a source sentence, cut by chunks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.search import (
    Finder,
    Span,
    cut_by_characters,
    cut_by_tokens,
    spans_in_blocks,
    spans_in_rows,
)
from leakage_tasks.canaries.sidecar import Part, repetitions_in, sha256_of
from leakage_tasks.core.partial_results import load_part, save_part
from leakage_tasks.core.stable_inputs import unchanged
from leakage_tasks.data import Columns, Format, Turns, format_of
from leakage_tasks.data.turns import turns_of

_COUNTS = ("whole", "inside", "wrong", "cut")


@dataclass(frozen=True)
class FileScan:
    """A file to search, the canaries to search for, and the length of a chunk that may cut them.

    ``shared`` is True if copies may be the last line of a longer chat turn.
    """

    planted: Path
    wanted: Columns
    canaries: Sequence[Canary]
    chunk: int | None
    tokenizer: str | None
    shared: bool = False
    state: Path | None = None
    """The file that stores the result, or None."""
    key: Any = None
    """Additional data on which the result depends, for the key of the stored result."""


@dataclass
class Occurrences:
    """Counts of one file, by text: as whole rows, inside other rows, with a wrong source sentence, cut by chunks."""

    rows: int
    sha256: str
    whole: Counter[str]
    inside: Counter[str]
    wrong: Counter[str]
    cut: Counter[str]
    again: bool = False
    """True if the counts were stored by an earlier run."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any], texts: Sequence[str]) -> Self:
        """Build the object from the values that :meth:`to_json` returned."""
        counts = {name: Counter({texts[index]: times for index, times in data[name]}) for name in _COUNTS}
        return cls(data["rows"], data["sha256"], **counts, again=True)

    def to_json(self, texts: Sequence[str]) -> dict[str, Any]:
        """Return the counts as JSON values; each text is given by its index in ``texts``, because it may be secret."""
        indices = {text: index for index, text in enumerate(texts)}
        counts = {name: [(indices[text], times) for text, times in getattr(self, name).items()] for name in _COUNTS}
        return {"rows": self.rows, "sha256": self.sha256, **counts}

    @classmethod
    def joined(cls, files: Sequence[Self]) -> Self:
        """Return the sums over several files; the sum has no hash."""
        rows = sum(file.rows for file in files)
        empty: Counter[str] = Counter()
        whole, inside, wrong, cut = (sum((getattr(file, name) for file in files), empty) for name in _COUNTS)
        return cls(rows, "", whole, inside, wrong, cut)


@dataclass(frozen=True)
class CopyCount:
    """The number of copies of a canary: ``rows`` of their own, and occurrences ``inside`` other rows."""

    expected: int
    rows: int
    inside: int

    @property
    def everywhere(self) -> int:
        """The number of all occurrences."""
        return self.rows + self.inside


def scan(task: FileScan) -> Occurrences:
    """Search a file, or return the stored result of an earlier run on an unchanged file."""
    texts = [canary.text for canary in task.canaries]
    with unchanged(task.planted):
        kind = format_of(task.planted)
        digest = sha256_of(task.planted)
        key = ["verify", digest, asdict(task.wanted), task.chunk, task.tokenizer, task.shared, task.key]
        if (earlier := load_part(task.state, key)) is not None:
            return Occurrences.from_json(earlier, texts)
        occurrences = _scan(task, kind, digest)
    save_part(task.state, key, occurrences.to_json(texts))
    return occurrences


def _scan(task: FileScan, kind: Format, digest: str) -> Occurrences:
    planted, wanted = task.planted, task.wanted
    layout, texts = kind.reading(planted, wanted)
    finder = Finder(canary.text for canary in task.canaries)
    shared = layout.chat and task.shared
    spans = spans_in_blocks(texts, finder) if kind.running else spans_in_rows(texts, finder, shared)
    copies: list[Span] | None = None if task.chunk is None else []
    rows, inside = _count(task.canaries, spans, copies)
    wrong: Counter[str] = Counter()
    if layout.source is not None:
        beside = map(turns_of, kind.values(planted, layout, wanted, layout.source))
        wrong = _wrong_sources(zip(kind.texts(planted, layout, wanted), beside, strict=True), _sources(task.canaries))
    cut: list[Span] = []
    if task.chunk is not None and copies is not None:
        if task.tokenizer is None:
            cut = cut_by_characters(copies, task.chunk)
        else:
            texts = kind.texts(planted, layout, wanted)
            cut = cut_by_tokens(texts, kind.running, copies, task.chunk, task.tokenizer)
    return Occurrences(layout.rows, digest, rows, inside, wrong, Counter(span.text for span in cut))


def _count(
    canaries: Sequence[Canary], spans: Iterable[Span], copies: list[Span] | None
) -> tuple[Counter[str], Counter[str]]:
    """Count each text as a row and inside other rows. Append copies to ``copies`` if that is a list."""
    natural = {canary.text for canary in canaries if canary.kind == "natural"}
    rows: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    end = 0
    for span in spans:
        if span.whole:
            end = span.end
        elif span.end <= end:
            # This occurrence is inside a row of a longer canary.
            continue
        (rows if span.whole else inside)[span.text] += 1
        if copies is not None and (span.whole or span.text in natural):
            copies.append(span)
    return rows, inside


def copy_counts(canaries: Sequence[Canary], occurrences: Occurrences, part: Part | None) -> dict[str, CopyCount]:
    """Return the number of occurrences of each canary by id, with the number expected in ``part`` of the data."""
    # Canaries with equal text (for example, classes of one sentence) cannot be distinguished, so they share counts.
    expected: Counter[str] = Counter()
    for canary in canaries:
        expected[canary.text] += repetitions_in(part, canary.repetitions)
    return {
        canary.id: CopyCount(expected[canary.text], occurrences.whole[canary.text], occurrences.inside[canary.text])
        for canary in canaries
    }


def _sources(canaries: Sequence[Canary]) -> dict[str, set[str | None]]:
    """Return the source sentences that each text may be paired with."""
    sources: dict[str, set[str | None]] = {}
    for canary in canaries:
        sources.setdefault(canary.text, set()).add(canary.source_text)
    return sources


def _wrong_sources(rows: Iterable[tuple[Turns, Turns]], sources: Mapping[str, set[str | None]]) -> Counter[str]:
    """Count the texts whose source column holds the source sentence of another text.

    For each row, ``rows`` holds its texts and the content of its source column.
    """
    return Counter(
        text
        for texts, row_sources in rows
        for text in texts
        if text in sources and not sources[text].issuperset(row_sources or (None,))
    )
