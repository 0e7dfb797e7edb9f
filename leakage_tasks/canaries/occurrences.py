"""Where canaries' texts stand in one file of data: as rows, inside others, beside which source, and what chunks cut."""

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
    """A file to look through, for which canaries, the length of a chunk that may cut them, if turns may be shared."""

    planted: Path
    wanted: Columns
    canaries: Sequence[Canary]
    chunk: int | None
    tokenizer: str | None
    shared: bool = False
    state: Path | None = None
    """Where what is found is kept, None for nowhere."""
    key: Any = None
    """What the result follows from besides the file and the other fields."""


@dataclass
class Occurrences:
    """What is in one file: occurrences by text, as rows and inside others, beside a wrong source, cut by chunks."""

    rows: int
    sha256: str
    whole: Counter[str]
    inside: Counter[str]
    wrong: Counter[str]
    cut: Counter[str]
    again: bool = False
    """Whether an earlier run found it out."""

    @classmethod
    def of_kept(cls, found: Mapping[str, Any], texts: Sequence[str]) -> Self:
        """What :meth:`to_keep` gave."""
        counts = {name: Counter({texts[place]: times for place, times in found[name]}) for name in _COUNTS}
        return cls(found["rows"], found["sha256"], **counts, again=True)

    def to_keep(self, texts: Sequence[str]) -> dict[str, Any]:
        """As JSON holds it, each text by its place in ``texts``: some are secret."""
        places = {text: index for index, text in enumerate(texts)}
        counts = {name: [(places[text], times) for text, times in getattr(self, name).items()] for name in _COUNTS}
        return {"rows": self.rows, "sha256": self.sha256, **counts}

    @classmethod
    def joined(cls, files: Sequence[Self]) -> Self:
        """What is in several files together, whose hashes are apart."""
        rows = sum(file.rows for file in files)
        empty: Counter[str] = Counter()
        whole, inside, wrong, cut = (sum((getattr(file, name) for file in files), empty) for name in _COUNTS)
        return cls(rows, "", whole, inside, wrong, cut)


@dataclass(frozen=True)
class CopyCount:
    """``rows``: copies that are rows of their own. ``inside``: occurrences inside other rows."""

    expected: int
    rows: int
    inside: int


def scan(task: FileScan) -> Occurrences:
    """Read a file through, as often as what is asked for takes, or take what an earlier run found in the same file."""
    texts = [canary.text for canary in task.canaries]
    with unchanged(task.planted):
        kind = format_of(task.planted)
        digest = sha256_of(task.planted)
        key = ["verify", digest, asdict(task.wanted), task.chunk, task.tokenizer, task.shared, task.key]
        if task.state is not None and (earlier := load_part(task.state, key)) is not None:
            return Occurrences.of_kept(earlier, texts)
        found = _scan(task, kind, digest)
    if task.state is not None:
        save_part(task.state, key, found.to_keep(texts))
    return found


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
    """How often each text is a row and inside others; copies are noted in ``copies``, if there: it can be long."""
    natural = {canary.text for canary in canaries if canary.kind == "natural"}
    rows: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    end = 0
    for span in spans:
        if span.whole:
            end = span.end
        elif span.end <= end:
            # It is inside a row that is a canary's own: that row is the longer canary's.
            continue
        (rows if span.whole else inside)[span.text] += 1
        if copies is not None and (span.whole or span.text in natural):
            copies.append(span)
    return rows, inside


def copy_counts(canaries: Sequence[Canary], found: Occurrences, part: Part | None) -> dict[str, CopyCount]:
    """How often each canary occurs, by id, beside how often it is to in that ``part`` of the data."""
    # Canaries with one text (classes of one sentence, say) cannot be told apart, so they are counted together.
    expected: Counter[str] = Counter()
    for canary in canaries:
        expected[canary.text] += repetitions_in(part, canary.repetitions)
    return {
        each.id: CopyCount(expected[each.text], found.whole[each.text], found.inside[each.text]) for each in canaries
    }


def _sources(canaries: Sequence[Canary]) -> dict[str, set[str | None]]:
    """The source sentences that may stand beside each text."""
    sources: dict[str, set[str | None]] = {}
    for canary in canaries:
        sources.setdefault(canary.text, set()).add(canary.source_text)
    return sources


def _wrong_sources(rows: Iterable[tuple[Turns, Turns]], sources: Mapping[str, set[str | None]]) -> Counter[str]:
    """Texts beside another source than theirs; ``rows``: the text of a row and what its source column holds."""
    return Counter(
        text
        for texts, beside in rows
        for text in texts
        if text in sources and not sources[text].issuperset(beside or (None,))
    )
