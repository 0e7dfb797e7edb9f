"""Comparison of files with the hashes that an evidence report states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from leakage_tasks.core.errors import ResultsError
from leakage_tasks.report.evidence.hashes import (
    DATA,
    MANIFEST,
    MODEL,
    PLANTED,
    RESULTS,
    SAMPLES,
    content_of,
    digests,
    file_hash,
    model_hashes,
    of_kind,
)
from leakage_tasks.report.evidence.record import Evidence, Hash


@dataclass(frozen=True)
class Verification:
    """The outcome of one check: ``passed`` is None for a part that this installation cannot check."""

    passed: bool | None
    words: str


@dataclass(frozen=True)
class Files:
    """The files against which a report is checked."""

    results: Path | None = None
    model: Sequence[Path] = field(default=())
    manifest: Path | None = None
    data: Sequence[Path] = field(default=())


NO_FILES = Files()


def results_outcomes(evidence: Evidence, folder: Path) -> Iterator[Verification]:
    """Yield the comparison of each file of results and samples with its hash."""
    for stated in of_kind(evidence.hashes, RESULTS, SAMPLES):
        around = folder.parent.iterdir() if folder.is_file() else folder.rglob("*.json*")
        named = [file for file in around if file.name == stated.name and file.is_file()]
        yield _compared(f"{stated.kind} {stated.name}", {file_hash(file) for file in named}, stated.digest)


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
    """Return the hashes of all files with a name; a base model and its adapter have some names in common."""
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
