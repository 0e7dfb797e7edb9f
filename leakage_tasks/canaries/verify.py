"""Verification of planted data against their manifest and record, as a proof of planting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from leakage_tasks.canaries.discrepancies import (
    against_manifest,
    against_record,
    against_sources,
    natural_occurrence,
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
from leakage_tasks.core.nouns import counted
from leakage_tasks.core.stable_inputs import unchanged
from leakage_tasks.data import Columns
from leakage_tasks.data.shards import check_splits, earlier_run_note


@dataclass(frozen=True)
class VerifyReport:
    """The result of a comparison of planted data with their manifest and record."""

    planted: Path
    """The planted data."""
    rows: int
    """The number of rows."""
    recorded: bool
    """True if there is a record next to the data."""
    counts: dict[str, CopyCount]
    """The number of occurrences of each canary, by id."""
    copies: int | None
    """The number of rows that are a canary; None if all secrets are natural, so that none was planted."""
    natural: Mapping[str, bool]
    """True for each natural secret that occurs, by the id of its canary."""
    problems: list[str] = field(default_factory=list)
    """One line per problem; empty without problems."""
    cut: dict[str, int] | None = None
    """The number of a canary's copies that a boundary between chunks cuts, by id; None without a chunk length."""
    chunk: int | None = None
    """The length of a chunk."""
    unit: str = "characters"
    """The unit of the chunk length."""
    trained_after: str | None = None
    """A description of the text before a copy in training; None if no record states it."""
    shards: int = 1
    """The number of files searched."""
    again: int = 0
    """The number of files whose results an earlier, interrupted run had stored."""

    @property
    def ok(self) -> bool:
        """True if the data match manifest and record. Cut copies are not a problem."""
        return not self.problems

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report, which never contain secrets."""
        yield from self.problems
        basis = "hashes checked" if self.recorded else "no record next to it, so hashes not checked"
        again = earlier_run_note(self.again, self.shards)
        yield f"{self.planted}: {'; '.join(self._state())}; {basis}{again}"
        if self.trained_after is not None:
            yield f"training reads each copy {self.trained_after}"
        if self.cut is None:
            return
        for name, cut in self.cut.items():
            total = counted(self.counts[name].everywhere, "copy")
            yield f"a chunk of {self.chunk} {self.unit} cuts {name}: {cut} of {total}"
        if not self.cut:
            yield f"a chunk of {self.chunk} {self.unit} cuts no copy"

    def _state(self) -> Iterator[str]:
        """Yield the number of problems, of copies that were planted, of rows, and of natural secrets that occur."""
        rows = counted(self.rows, "row")
        if self.problems:
            yield counted(len(self.problems), "problem")
        elif self.copies is not None:
            yield "as planted"
        yield f"{rows} read" if self.copies is None else f"{counted(self.copies, 'copy')} in {rows}"
        if self.natural:
            occur = "occurs" if len(self.natural) == 1 else "occur"
            yield f"{sum(self.natural.values()):,} of {counted(len(self.natural), 'natural secret')} still {occur}"


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
    """Compare hashes with the record, copies with repetitions, and search for controls, which must be absent.

    A copy is a row (a line, a chat turn) equal to the canary's text; it may also be the last line of a turn if the
    record states that copies went into existing turns, or if there is no record. Other occurrences inside rows are
    problems, except inside the row of a longer canary. Data recorded as a training or validation part must have that
    part of the repetitions. Natural canaries must occur, at any position, except in a validation part. If there is a
    source column, each copy must have its canary's source sentence.

    Files of a folder are searched separately; chunks start again in each file. Results are stored next to the manifest
    until all files are finished, so an interrupted run can continue.

    Args:
        planted: The planted data.
        manifest: The path of the manifest.
        chunk: A length in characters, or in tokens of ``tokenizer``. The report counts the copies that chunks of this
            length would cut if all texts are concatenated in order.
        tokenizer: The tokenizer that counts a chunk's tokens.
        text_column: The column with the texts (default: as planted).
        source_column: The column with the source sentences (default: as planted).
        split: The split (default: as planted).
        jobs: The number of files searched in parallel.
        dask: The address of a dask scheduler, or None.

    Returns:
        The report, with all differences.

    Raises:
        LeakageError: If a file cannot be read, or changes during the search.
    """
    planted, manifest = Path(planted), Path(manifest)
    if chunk is not None and chunk < 1:
        raise OptionError(f"--chunk is {chunk}: give a length of 1 or more")
    if tokenizer is not None and chunk is None:
        raise OptionError("--tokenizer sets the unit of --chunk: give --chunk N too")
    with unchanged(planted, manifest, sidecar_path(planted)):
        canaries, record = read_manifest(manifest), read_sidecar(sidecar_path(planted))
        if split is not None and (record is None or split != record.split):
            check_splits(planted, split)
        # Without a record, copies may be in existing turns.
        shared = record is None or record.turn in ("last", "random")
        columns = _columns(record, text_column, source_column, split)
        task = FileScan(planted.absolute(), columns, canaries, chunk, tokenizer, shared)
        return _report(planted, record, task, scan_all(planted, manifest, task, jobs, dask))


def _report(planted: Path, record: Sidecar | None, task: FileScan, files: Mapping[str, Occurrences]) -> VerifyReport:
    """Compare the occurrences in all files with the record and the manifest."""
    part = record.part if record else None
    # A classifier reads a text alone, so that advice on the context of a language model would not apply.
    after = record.trained_after if record and record.label_column is None else None
    canaries, joined = task.canaries, Occurrences.joined(list(files.values()))
    counts = copy_counts(canaries, joined, part)
    ordinary = [counts[canary.id].rows for canary in canaries if canary.kind != "natural"]
    cut = {canary.id: joined.cut[canary.text] for canary in canaries if joined.cut[canary.text]}
    return VerifyReport(
        planted,
        joined.rows,
        record is not None,
        counts,
        sum(ordinary) if ordinary else None,
        natural_occurrence(canaries, counts),
        [
            *against_record(record, planted, canaries, {name: file.sha256 for name, file in files.items()}),
            *against_manifest(canaries, counts, part),
            *against_sources(joined.wrong, canaries),
        ],
        cut=None if task.chunk is None else cut,
        chunk=task.chunk,
        unit="characters" if task.tokenizer is None else "tokens",
        trained_after=after,
        shards=len(files),
        again=sum(file.again for file in files.values()),
    )


def _columns(record: Sidecar | None, text_column: str | None, source_column: str | None, split: str | None) -> Columns:
    """Return the requested columns. Columns that were not requested are as planted, or have their defaults."""
    planted = Columns(record.text_column, None, record.split or Columns.split, record.source_column) if record else None
    usual = planted or Columns()
    return Columns(text_column or usual.text, None, split or usual.split, source_column or usual.source)
