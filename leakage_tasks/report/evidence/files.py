"""Files of a report's run: hashed when the report is written, and compared with these hashes when it is verified."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from leakage_tasks.core.errors import OptionError, ResultsError
from leakage_tasks.report.evidence.hashes import (
    DATA,
    FROM_HARNESS,
    FROM_RESULTS,
    IDENTITY,
    MANIFEST,
    MODEL,
    PLANTED,
    RESULTS,
    SAMPLES,
    SELFTEST,
    code_hashes,
    content_of,
    digests,
    file_hash,
    model_hashes,
    of_kind,
    parts_hash,
    run_hashes,
)
from leakage_tasks.report.evidence.record import Evidence, Hash
from leakage_tasks.report.load.results import Run

IS_PLANTED = "the planted data of the results"
"""The end of a hash's source: a task recorded the file as its planted data."""


@dataclass(frozen=True)
class Files:
    """Files that the author of a report adds to the results, or that a reader compares with the report."""

    model: Sequence[Path] = ()
    manifest: Path | None = None
    data: Sequence[Path] = ()
    selftest: Path | None = None
    """Only for writing a report."""
    results: Path | None = None
    """Only for verification; a report is written from its results in any case."""

    @property
    def paths(self) -> list[Path]:
        """The files and folders that exist."""
        named = (*self.model, self.manifest, self.selftest, *self.data, self.results)
        return [path for path in named if path is not None]


NO_FILES = Files()


@dataclass(frozen=True)
class Verification:
    """The outcome of one check: ``passed`` is None for a part that this installation cannot check."""

    passed: bool | None
    words: str


def all_hashes(run: Run, given: Files) -> Iterator[Hash]:
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
    source = IS_PLANTED
    if digest not in digests(recorded, PLANTED):
        source = "not compared: the results record no hash of this file"
    return Hash(DATA, path.name, digest, f"computed from the file; {source}")


def results_outcomes(evidence: Evidence, folder: Path) -> Iterator[Verification]:
    """Yield the comparison of each file of results and samples with its hash."""
    for stated in of_kind(evidence.hashes, RESULTS, SAMPLES):
        around = folder.parent.iterdir() if folder.is_file() else folder.rglob("*.json*")
        named = [file for file in around if file.name == stated.name and file.is_file()]
        yield _compared(f"{stated.kind} {stated.name}", {file_hash(file) for file in named}, stated.digest)


def states_recorded(stated: Sequence[Hash], again: Sequence[Hash]) -> bool:
    """Return True if a report's hashes equal the ones in its results.

    The digests of files are compared with the files. Hashes that need other files, such as the model's, are left out.

    Args:
        stated: The hashes of the report.
        again: The hashes that are gathered from the results again, without other files.
    """
    manifests, planted = digests(again, MANIFEST), digests(again, PLANTED)
    files = {(known.kind, known.name) for known in of_kind(stated, RESULTS, SAMPLES)}
    return (
        _recorded(stated) == _recorded(again)
        and {(known.kind, known.name) for known in of_kind(again, RESULTS, SAMPLES)} <= files
        and set(digests(stated, MANIFEST)) <= set(manifests)
        and all(known.digest in planted for known in of_kind(stated, DATA) if known.source.endswith(IS_PLANTED))
    )


def _recorded(hashes: Sequence[Hash]) -> list[Hash]:
    """Return the hashes that the results record."""
    return [
        known
        for known in hashes
        if known.kind in (PLANTED, IDENTITY) or known.source.startswith((FROM_RESULTS, FROM_HARNESS))
    ]


def _compared(what: str, digests: set[str], wanted: str) -> Verification:
    if not digests:
        return Verification(False, f"{what}: not found")
    if wanted in digests:
        return Verification(True, f"{what}: SHA-256 {wanted}")
    return Verification(False, f"{what}: has SHA-256 {min(digests)}, the report states {wanted}")


def model_outcomes(evidence: Evidence, paths: Sequence[Path]) -> Iterator[Verification]:
    """Yield the comparison of each file of a model's parts. Raises ResultsError for a report without such hashes."""
    stated = _by_name(of_kind(evidence.hashes, MODEL))
    if not stated:
        raise ResultsError(f"--model {paths[0]}: the report holds no hashes of model files: write it with --model")
    there = _by_name(file for path in paths for file in model_hashes(path))
    for name, wanted in sorted(stated.items()):
        files = there.get(name, set())
        for digest in sorted(wanted):
            yield _compared(f"model file {name}", files - (wanted - {digest}), digest)
    for name in sorted(there):
        if len(there[name]) > len(stated.get(name, ())):
            yield Verification(False, f"model file {name}: not in the report")


def _by_name(files: Iterable[Hash]) -> dict[str, set[str]]:
    by_name: dict[str, set[str]] = {}
    for file in files:
        by_name.setdefault(file.name, set()).add(file.digest)
    return by_name


def manifest_outcome(evidence: Evidence, path: Path) -> Verification:
    """Compare the canaries of a manifest. Raises LeakageError for a report or a file without canaries."""
    stated = digests(evidence.hashes, MANIFEST)
    if not stated:
        raise ResultsError(f"--manifest {path}: the report names no manifest: leave the option out")
    digest = content_of(path)
    return _compared(f"manifest {path.name}", {digest}, digest if digest in stated else stated[0])


def data_outcome(evidence: Evidence, path: Path) -> Verification:
    """Compare training data. Raises ResultsError for a report without such hashes."""
    stated = of_kind(evidence.hashes, DATA, PLANTED)
    if not stated:
        raise ResultsError(f"--data {path}: the report holds no hash of data files: write it with --data")
    digest = file_hash(path)
    match = next((known for known in stated if known.digest == digest), None)
    if match is None:
        return Verification(False, f"data {path.name}: has SHA-256 {digest}, which the report does not state")
    return Verification(True, f"data {path.name}: SHA-256 {digest} ({match.source})")
