"""Files that the author of an evidence report adds to the results, and their hashes next to the recorded ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from leakage_tasks.core.errors import OptionError
from leakage_tasks.report.evidence.hashes import (
    DATA,
    MANIFEST,
    PLANTED,
    SELFTEST,
    code_hashes,
    content_of,
    digests,
    file_hash,
    model_hashes,
    parts_hash,
    run_hashes,
)
from leakage_tasks.report.evidence.record import Hash
from leakage_tasks.report.load.results import Run


@dataclass(frozen=True)
class Given:
    """Files that the author of a report adds to the results: each is hashed, and compared with the results."""

    model: tuple[Path, ...] = ()
    manifest: Path | None = None
    data: tuple[Path, ...] = ()
    selftest: Path | None = None

    @property
    def paths(self) -> list[Path]:
        """The files and folders that exist."""
        named = (*self.model, self.manifest, self.selftest, *self.data)
        return [path for path in named if path is not None]


NOTHING_GIVEN = Given()


def all_hashes(run: Run, given: Given) -> Iterator[Hash]:
    """Yield the recorded hashes, then the hashes of the given files and of the code.

    Raises OptionError for a manifest of other canaries, and ResultsError for a file that cannot be read.
    """
    recorded = list(run_hashes(run))
    yield from recorded
    yield from parts_hash(run, given.model)
    # A base model and its adapter often have equal files of the tokenizer.
    yield from dict.fromkeys(known for path in given.model for known in model_hashes(path))
    if given.manifest is not None:
        yield _checked_manifest(given.manifest, recorded)
    for path in given.data:
        yield _checked_data(path, recorded)
    if given.selftest is not None:
        yield Hash(SELFTEST, given.selftest.name, file_hash(given.selftest), "computed from the file")
    yield from code_hashes()


def _checked_manifest(path: Path, recorded: Sequence[Hash]) -> Hash:
    """Return the hash of a manifest's canaries. Raises OptionError if the run attacked other canaries."""
    digest = content_of(path)
    known = digests(recorded, MANIFEST)
    if not known:
        raise OptionError(f"--manifest {path}: no task of the run attacked canaries: leave the option out")
    if digest not in known:
        raise OptionError(f"--manifest {path}: the run attacked other canaries: give the manifest of canaries=")
    return Hash(MANIFEST, path.name, digest, "computed from the canaries in the file")


def _checked_data(path: Path, recorded: Sequence[Hash]) -> Hash:
    """Return the hash of a data set, and state if a task recorded it as its planted data. Raises ResultsError."""
    digest = file_hash(path)
    source = "the planted data of the results"
    if digest not in digests(recorded, PLANTED):
        source = "not compared: the results record no hash of this file"
    return Hash(DATA, path.name, digest, f"computed from the file; {source}")
