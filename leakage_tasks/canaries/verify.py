"""Checking a planted dataset against its manifest and its record, which proves that canaries were planted."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from leakage_tasks.canaries.canary import BESIDE, Canary
from leakage_tasks.canaries.manifest import manifest_hash, read_manifest
from leakage_tasks.canaries.search import (
    Finder,
    Span,
    cut_by_characters,
    cut_by_tokens,
    spans_in_blocks,
    spans_in_rows,
)
from leakage_tasks.canaries.sidecar import (
    TRAINED_AFTER,
    Before,
    Part,
    Sidecar,
    read_sidecar,
    records_of,
    repetitions_in,
    sha256_of,
    sidecar_path,
)
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.steady import unchanged
from leakage_tasks.core.workers import each
from leakage_tasks.data import Columns, Turns, format_of
from leakage_tasks.data.base import turns_of
from leakage_tasks.data.shards import shards_of

State = Literal["proven", "claimed", "none"]


@dataclass(frozen=True)
class CopyCount:
    """``rows``: copies that are rows of their own. ``inside``: occurrences inside other rows."""

    expected: int
    rows: int
    inside: int


@dataclass
class VerifyReport:
    """What a planted dataset is like beside its manifest and record."""

    planted: Path
    """The dataset."""
    rows: int
    """How many it has."""
    recorded: bool
    """Whether there is a record beside it."""
    counts: dict[str, CopyCount]
    """How often each canary occurs, by id."""
    problems: list[str] = field(default_factory=list)
    """One line each, none if all is well."""
    cut: dict[str, int] | None = None
    """How many of a canary's copies a chunk would cut in two, by id; None if no chunk length was given."""
    chunk: int | None = None
    """That length."""
    unit: str = "characters"
    """What it counts."""
    before: Before | None = None
    """What stands before a copy, None where no record says it."""

    @property
    def ok(self) -> bool:
        """Whether the dataset is what manifest and record say. Cut copies are a remark, no problem."""
        return not self.problems

    def lines(self) -> Iterator[str]:
        """The report for people; secrets are never in it."""
        yield from self.problems
        copies = sum(count.rows for count in self.counts.values())
        state = "as planted" if self.ok else f"{len(self.problems)} problem(s)"
        basis = "hashes checked" if self.recorded else "no record beside it, so hashes not checked"
        yield f"{self.planted}: {state}; {copies} copies in {self.rows:,} rows; {basis}"
        if self.before is not None:
            yield f"the training meets each copy {TRAINED_AFTER[self.before]}"
        if self.cut is None:
            return
        for name, cut in self.cut.items():
            found = self.counts[name].rows + self.counts[name].inside
            yield f"a chunk of {self.chunk} {self.unit} cuts {name}: {cut} of {found} copies"
        if not self.cut:
            yield f"a chunk of {self.chunk} {self.unit} cuts no copy"


def verify(
    planted: Path,
    manifest: Path,
    chunk: int | None = None,
    tokenizer: str | None = None,
    *,
    text_column: str | None = None,
    source_column: str | None = None,
    split: str | None = None,
    jobs: int = 1,
    dask: str | None = None,
) -> VerifyReport:
    """Check hashes against the record (if it is there), copies against repetitions, and controls for absence.

    A copy is a row of its own (a line, a chat turn) equal to the canary's text, or the last line of a turn where the
    record says that copies went into turns that were there, or there is no record; occurrences inside other
    rows are problems too, except inside a longer canary's row. A file whose record says that it is the training or the
    validation part must have that part of the repetitions. Natural canaries may stand anywhere, but
    must be there; a validation part need not have them. Where there is a source column (as planted, unless named),
    each copy must stand beside its canary's source sentence. With ``chunk``, also how many copies a chunk of that many
    characters, or tokens of ``tokenizer``, of the text column concatenated in order would cut in two.

    Of a folder of shards each file is looked through, ``jobs`` at once; chunks begin anew with each.

    Raises LeakageError if a file cannot be read or changes meanwhile; what does not match is in the report.
    """
    planted, manifest = Path(planted), Path(manifest)
    if chunk is not None and chunk < 1:
        raise OptionError(f"--chunk is {chunk}: give a length of 1 or more")
    if tokenizer is not None and chunk is None:
        raise OptionError("--tokenizer says what --chunk counts: give --chunk N too")
    with unchanged(planted, manifest, sidecar_path(planted)):
        return _check_planted(planted, manifest, (chunk, tokenizer), (text_column, source_column, split), jobs, dask)


def _check_planted(
    planted: Path,
    manifest: Path,
    chunks: tuple[int | None, str | None],
    asked: tuple[str | None, ...],
    jobs: int,
    dask: str | None,
) -> VerifyReport:
    canaries = read_manifest(manifest)
    record = read_sidecar(sidecar_path(planted))
    part, before = (record.part, record.before) if record else (None, None)
    wanted = _columns(record, *asked)
    shards = shards_of(planted)
    files = [planted] if shards is None else [shards.path(name) for name in shards.names]
    # Without a record nobody knows whether copies stand in turns of others.
    shared = record is None or record.turn in ("last", "random")
    tasks = [Looking(file.absolute(), wanted, canaries, *chunks, shared) for file in files]
    looks: list[Look] = each(look, tasks, jobs, dask)
    counts = _counts(canaries, looks, part)
    if shards is None or record is None or record.shards is None:
        problems = [*_against_hash(record, planted, looks[0].sha256 if shards is None else None)]
    else:
        found = {name: one.sha256 for name, one in zip(shards.names, looks, strict=True)}
        problems = [*_against_shards(planted, record.shards, found)]
    problems += [*_against_record(record, planted, canaries), *_against_manifest(canaries, counts, part)]
    wrong: Counter[str] = sum((one.wrong for one in looks), Counter())
    problems += _against_sources(wrong, canaries)
    rows = sum(one.rows for one in looks)
    report = VerifyReport(planted, rows, record is not None, counts, problems, chunk=chunks[0], before=before)
    if chunks[0] is not None:
        report.unit = "characters" if chunks[1] is None else "tokens"
        cut: Counter[str] = sum((one.cut for one in looks), Counter())
        report.cut = {canary.id: cut[canary.text] for canary in canaries if cut[canary.text]}
    return report


@dataclass(frozen=True)
class Looking:
    """A file to look through, for which canaries, the length of a chunk that may cut them, if turns may be shared."""

    planted: Path
    wanted: Columns
    canaries: Sequence[Canary]
    chunk: int | None
    tokenizer: str | None
    shared: bool = False


@dataclass
class Look:
    """What is in one file: occurrences by text, as rows and inside others, beside a wrong source, cut by chunks."""

    rows: int
    sha256: str
    whole: Counter[str]
    inside: Counter[str]
    wrong: Counter[str]
    cut: Counter[str]


def look(task: Looking) -> Look:
    """Read a file through, as often as what is asked for takes."""
    planted, wanted = task.planted, task.wanted
    with unchanged(planted):
        kind = format_of(planted)
        layout = kind.survey(planted, wanted)
        texts, finder = kind.texts(planted, layout, wanted), Finder(canary.text for canary in task.canaries)
        shared = layout.chat and task.shared
        spans = spans_in_blocks(texts, finder) if kind.running else spans_in_rows(texts, finder, shared)
        copies: list[Span] | None = None if task.chunk is None else []
        rows, inside = _count(task.canaries, spans, copies)
        wrong: Counter[str] = Counter()
        if layout.source is not None:
            beside = map(turns_of, kind.values(planted, layout, wanted, layout.source))
            wrong = _wrong_sources(
                zip(kind.texts(planted, layout, wanted), beside, strict=True), _sources(task.canaries)
            )
        cut: list[Span] = []
        if task.chunk is not None and copies is not None:
            if task.tokenizer is None:
                cut = cut_by_characters(copies, task.chunk)
            else:
                texts = kind.texts(planted, layout, wanted)
                cut = cut_by_tokens(texts, kind.running, copies, task.chunk, task.tokenizer)
        return Look(layout.rows, sha256_of(planted), rows, inside, wrong, Counter(span.text for span in cut))


def _columns(record: Sidecar | None, text_column: str | None, source_column: str | None, split: str | None) -> Columns:
    """Those asked for, else as planted, else the usual ones."""
    planted = Columns(record.text_column, None, record.split or Columns.split, record.source_column) if record else None
    usual = planted or Columns()
    return Columns(text_column or usual.text, None, split or usual.split, source_column or usual.source)


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


def _counts(canaries: Sequence[Canary], looks: Sequence[Look], part: Part | None) -> dict[str, CopyCount]:
    rows: Counter[str] = sum((one.whole for one in looks), Counter())
    inside: Counter[str] = sum((one.inside for one in looks), Counter())
    # Canaries with one text (classes of one sentence, say) cannot be told apart, so they are counted together.
    expected: Counter[str] = Counter()
    for canary in canaries:
        expected[canary.text] += repetitions_in(part, canary.repetitions)
    return {each.id: CopyCount(expected[each.text], rows[each.text], inside[each.text]) for each in canaries}


def _against_hash(record: Sidecar | None, planted: Path, sha256: str | None) -> Iterator[str]:
    if record is not None and record.output_sha256 != (sha256 or sha256_of(planted)):
        yield f"{planted}: changed since it was planted (its SHA-256 is not the recorded one)"


def _against_shards(planted: Path, recorded: Mapping[str, Any], found: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(recorded.keys() | found.keys()):
        if name not in found:
            yield f"{planted / name}: is not there, but canaries were planted into it"
        elif name not in recorded:
            yield f"{planted / name}: was not there when canaries were planted"
        elif recorded[name]["output_sha256"] != found[name]:
            yield f"{planted / name}: changed since it was planted (its SHA-256 is not the recorded one)"


def _against_record(record: Sidecar | None, planted: Path, canaries: Sequence[Canary]) -> Iterator[str]:
    if record is not None and record.manifest_sha256 != manifest_hash(canaries):
        yield f"{planted}: planted from another manifest (the recorded hash is not this one's)"


def _against_manifest(canaries: Sequence[Canary], counts: dict[str, CopyCount], part: Part | None) -> Iterator[str]:
    whereto = f" for {part}" if part else ""
    there = sorted({each.text for each in canaries if counts[each.id].rows + counts[each.id].inside})
    for canary in canaries:
        count = counts[canary.id]
        everywhere = count.rows + count.inside
        if not canary.planted:
            if everywhere:
                yield f"{canary.id}: a control, which the model must never see, occurs {everywhere} time(s)"
        elif canary.kind == "natural":
            # Its repetitions count the secret in every context, so this one need not stand there as often. Nor
            # need a validation part have it: it was most likely found in the training data.
            if part != "validation" and not everywhere and not _begins_one_of(there, canary.text):
                yield f"{canary.id}: its text does not occur any more"
        else:
            if count.rows != count.expected:
                yield f"{canary.id}: {count.rows} copies, the manifest says {count.expected}{whereto}"
            if count.inside:
                yield f"{canary.id}: occurs {count.inside} more time(s), inside other rows"


def _begins_one_of(found: Sequence[str], text: str) -> bool:
    """Whether a longer one of the sorted texts begins with ``text``: that is what counts where both stand."""
    # Those that begin with a text come right after it.
    place = bisect_right(found, text)
    return place < len(found) and found[place].startswith(text)


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


def _against_sources(wrong: Counter[str], canaries: Sequence[Canary]) -> Iterator[str]:
    for canary in canaries:
        if wrong[canary.text]:
            yield f"{canary.id}: {wrong[canary.text]} copies stand beside another source sentence than the manifest's"


@dataclass(frozen=True)
class Planting:
    """``data`` is the name of what proves it, ``sha256`` its hash; None where nothing does.

    ``shares`` are of the data's text, by characters, what canaries of so many copies are, all copies together; nothing
    where no record tells. Proven is that the data hold the copies, not that a model was trained on the data.
    """

    state: State
    data: str | None = None
    sha256: str | None = None
    shares: Mapping[int, float] = field(default_factory=dict)


def planting_of(manifest: Path, canaries: Sequence[Canary], planted: Path | None = None) -> Planting:
    """How well it is known that the planted ones of ``canaries``, which are the manifest's, are in some data.

    ``planted`` is searched for every copy. Without it, data beside the manifest prove it that are still what
    ``leakage plant`` wrote from this manifest. Raises OptionError for ``planted`` data that do not hold the canaries.
    """
    if not any(canary.planted for canary in canaries):
        return Planting("none")
    if planted is not None:
        return _search(manifest, canaries, planted)
    records = [record for _, record in records_of(manifest, manifest_hash(canaries)) if record.part != "validation"]
    for record in records:
        data = manifest.parent / record.output
        if data.exists() and sha256_of(data) == record.output_sha256:
            return Planting("proven", data.name, record.output_sha256, _shares(canaries, record))
    return Planting("claimed")


def _search(manifest: Path, canaries: Sequence[Canary], planted: Path) -> Planting:
    report = verify(planted, manifest)
    if not report.ok:
        more = len(report.problems) - 1
        others = f", and {more} more" if more else ""
        raise OptionError(
            f"--metadata planted={planted}: does not hold the canaries of {manifest} ({report.problems[0]}{others}): "
            "give the data that 'leakage plant' wrote from it"
        )
    digest = sha256_of(planted)
    record = read_sidecar(sidecar_path(planted))
    if record is None or record.output_sha256 != digest or record.part == "validation":
        return Planting("proven", planted.name, digest)
    return Planting("proven", planted.name, digest, _shares(canaries, record))


def _shares(canaries: Sequence[Canary], record: Sidecar) -> dict[int, float]:
    """By repetitions, the share of the text that a record's copies of canaries are."""
    lengths: Counter[int] = Counter()
    for canary in canaries:
        if canary.kind not in ("natural", *BESIDE):
            lengths[canary.repetitions] += record.copies.get(canary.id, 0) * len(canary.text)
    return {times: length / record.characters for times, length in lengths.items() if length and record.characters}
