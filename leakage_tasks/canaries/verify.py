"""Checking a planted dataset against its manifest and its record, which proves that canaries were planted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from leakage_tasks.canaries.discrepancies import (
    against_manifest,
    against_record,
    against_sources,
)
from leakage_tasks.canaries.manifest import read_manifest
from leakage_tasks.canaries.occurrences import CopyCount, FileScan, Occurrences, copy_counts
from leakage_tasks.canaries.scanning import scan_all
from leakage_tasks.canaries.sidecar import (
    Sidecar,
    read_sidecar,
    sidecar_path,
)
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.stable_inputs import unchanged
from leakage_tasks.data import Columns
from leakage_tasks.data.shards import of_earlier_run


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
    trained_after: str | None = None
    """Where the training meets a copy, None where no record says it."""
    shards: int = 1
    """How many files were looked through."""
    again: int = 0
    """In how many of them an earlier run, which was ended, had done so."""

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
        again = of_earlier_run(self.again, self.shards)
        yield f"{self.planted}: {state}; {copies} copies in {self.rows:,} rows; {basis}{again}"
        if self.trained_after is not None:
            yield f"the training meets each copy {self.trained_after}"
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

    Of a folder of shards each file is looked through, ``jobs`` at once; chunks begin anew with each. What is found is
    kept beside the manifest until all are done, so a run that was ended goes on where it was.

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
    part, after = (record.part, record.trained_after) if record else (None, None)
    # Without a record nobody knows whether copies stand in turns of others.
    shared = record is None or record.turn in ("last", "random")
    task = FileScan(planted.absolute(), _columns(record, *asked), canaries, *chunks, shared)
    hashes, found = scan_all(planted, manifest, task, jobs, dask)
    joined = Occurrences.joined(found)
    counts = copy_counts(canaries, joined, part)
    problems = [
        *against_record(record, planted, canaries, hashes),
        *against_manifest(canaries, counts, part),
        *against_sources(joined.wrong, canaries),
    ]
    report = VerifyReport(
        planted, joined.rows, record is not None, counts, problems, chunk=chunks[0], trained_after=after
    )
    if chunks[0] is not None:
        report.unit = "characters" if chunks[1] is None else "tokens"
        report.cut = {canary.id: joined.cut[canary.text] for canary in canaries if joined.cut[canary.text]}
    report.again, report.shards = sum(one.again for one in found), len(found)
    return report


def _columns(record: Sidecar | None, text_column: str | None, source_column: str | None, split: str | None) -> Columns:
    """Those asked for, else as planted, else the usual ones."""
    planted = Columns(record.text_column, None, record.split or Columns.split, record.source_column) if record else None
    usual = planted or Columns()
    return Columns(text_column or usual.text, None, split or usual.split, source_column or usual.source)
