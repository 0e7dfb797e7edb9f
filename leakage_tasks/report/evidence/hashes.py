"""Hashes of an evidence report: files of results, model, data and code, and identities that the results record."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any

from leakage_tasks.canaries.canary import attacked
from leakage_tasks.canaries.manifest import manifest_hash, read_manifest
from leakage_tasks.canaries.sidecar import sha256_of
from leakage_tasks.core.errors import PlantingError, ResultsError
from leakage_tasks.core.inputs import parse_json
from leakage_tasks.core.registry import DISTRIBUTION, entries_of, package_of
from leakage_tasks.core.version import __version__
from leakage_tasks.report.evidence.record import Code, Hash
from leakage_tasks.report.load.results import Run
from leakage_tasks.report.load.run import adapter_base
from leakage_tasks.report.load.validate import load_json, printable

RESULTS, SAMPLES, MODEL, MANIFEST, DATA = "results file", "samples", "model file", "manifest", "data"
SELFTEST, HARNESS, PACKAGE, IDENTITY = "self-test", "harness", "package", "model identity"
PLANTED, PARTS = "planted data", "parts of the model"
FROM_RESULTS, FROM_HARNESS = "recorded in the results", "recorded by the harness"
"""Beginnings of the sources of hashes that results record."""
ALL_HASHED = "all have hashes of files"
DIGITS = 64
"""Number of hexadecimal digits of a SHA-256."""
_OF_MODEL = frozenset(
    (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".json", ".model", ".txt", ".jinja", ".py", ".npz", ".msgpack")
)
"""Endings of the files of a model: weights, settings, tokenizer, and code."""
_EXTENDED = ("lm_eval_leakage.attacks", "lm_eval_leakage.scorings")
"""Entry points of the tasks and attacks of other packages, which a report lists."""
_SOURCES = (".py", ".html", ".css", ".js")


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file, or of a folder's files. Raises ResultsError if a file cannot be read."""
    try:
        return sha256_of(path)
    except PlantingError as error:
        raise ResultsError(str(error)) from None


def run_hashes(run: Run) -> Iterator[Hash]:
    """Yield the hashes of the files of results and samples, and the identities that these record."""
    for file in run.files:
        yield Hash(RESULTS, file.name, file_hash(file), "computed from the file")
    for samples in sorted(result.logged for result in run.tasks.values() if result.logged is not None):
        yield Hash(SAMPLES, samples.name, file_hash(samples), "computed from the file")
    yield from _recorded(run)


def _recorded(run: Run) -> Iterator[Hash]:
    for task, result in sorted(run.tasks.items()):
        declared = result.declared
        if declared is None or not result.answered:
            continue
        for name in ("canaries", "data", "controls"):
            value = declared.protocol.get(name)
            if isinstance(value, str):
                kind = MANIFEST if name == "canaries" else DATA
                what = "canaries' content" if name == "canaries" else f"tokens of {name}="
                short = "" if len(value) == DIGITS else f", first {len(value)} digits"
                yield Hash(kind, task, value, f"{FROM_RESULTS}: {what}{short}")
        if isinstance(planted := declared.tested.get("planted_sha256"), str):
            name = str(declared.tested.get("planted_data", ""))
            yield Hash(PLANTED, f"{task}: {name}", planted, f"{FROM_RESULTS}: file of planted=")
    for file in run.files:
        yield from _harness(file)


def _harness(file: Path) -> Iterator[Hash]:
    data = load_json(file, "utf-8-sig")
    config = data.get("config") or {}
    if config.get("model_sha"):
        yield Hash(IDENTITY, file.name, str(config["model_sha"]), f"{FROM_HARNESS}: commit on the hub")
    if data.get("git_hash"):
        source = f"{FROM_HARNESS}: commit of the folder in which it ran"
        yield Hash(HARNESS, file.name, str(data["git_hash"]), source)
    hashes = data.get("task_hashes")
    for task, value in sorted(hashes.items()) if isinstance(hashes, dict) else ():
        yield Hash(HARNESS, f"{task}, {file.name}", str(value), f"{FROM_HARNESS}: requests of the task")


def model_hashes(path: Path) -> list[Hash]:
    """Return the hashes of a model's files: of the file itself, or of the files directly in a folder.

    Raises ResultsError for a path without such files.
    """
    files = [path] if path.is_file() else sorted(path.iterdir()) if path.is_dir() else []
    files = [file for file in files if file.is_file() and (file == path or file.suffix.lower() in _OF_MODEL)]
    if not files:
        raise ResultsError(f"--model {path}: holds no files of a model: give the model's folder or its weights' file")
    return [Hash(MODEL, file.name, file_hash(file), "computed from the file") for file in files]


def parts_hash(run: Run, paths: Sequence[Path]) -> Iterator[Hash]:
    """Yield the names of a model's parts, such as a base model and its adapter, and how many of them ``paths`` hold."""
    parts = run.parts
    if len(parts) == 1:
        # The author may have moved the adapter after the run.
        parts = (*(printable(base) for base in map(adapter_base, paths) if base), *parts)
    if len(parts) > 1:
        # Several files of a folder belong to one part.
        hashed = len({(path if path.is_dir() else path.parent).resolve() for path in paths})
        coverage = ALL_HASHED if hashed >= len(parts) else f"{hashed} of {len(parts)} have hashes of files"
        source = "named by the results and by the adapter's file; --model adds hashes"
        yield Hash(PARTS, " + ".join(parts), coverage, source)


def content_of(manifest: Path) -> str:
    """Return the hash of a manifest's canaries that tasks record. Raises LeakageError for another file."""
    return manifest_hash(attacked(read_manifest(manifest)))


def of_kind(hashes: Sequence[Hash], *kinds: str) -> list[Hash]:
    """Return the hashes of these kinds."""
    return [known for known in hashes if known.kind in kinds]


def digests(hashes: Sequence[Hash], *kinds: str) -> list[str]:
    """Return the digests of these kinds."""
    return [known.digest for known in of_kind(hashes, *kinds)]


def code_hashes() -> list[Hash]:
    """Return the commits of this package and of the harness, as far as their installers recorded them."""
    named = ((PACKAGE, DISTRIBUTION), (HARNESS, "lm_eval"))
    commits = ((kind, name, commit_of(name)) for kind, name in named)
    source = "recorded by the installer: commit of the package that wrote this report"
    return [Hash(kind, name, commit, source) for kind, name, commit in commits if commit]


def commit_of(name: str) -> str | None:
    """Return the commit that a package was installed from, or None if its installer recorded no commit."""
    try:
        text = distribution(name).read_text("direct_url.json")
        data: Any = parse_json(text or "{}")
    except (PackageNotFoundError, OSError, ValueError):
        return None
    info = data.get("vcs_info") if isinstance(data, dict) else None
    commit = info.get("commit_id") if isinstance(info, dict) else None
    return commit if isinstance(commit, str) else None


@cache
def this_code() -> Code:
    """Return the identity of the code that runs now."""
    digest = hashlib.sha256()
    root = resources.files("leakage_tasks")
    with resources.as_file(root) as folder:
        for file in sorted(folder.rglob("*")):
            if file.suffix in _SOURCES and file.is_file():
                digest.update(f"{file.relative_to(folder).as_posix()}\0{file_hash(file)}\n".encode())
    entries = [entry for group in _EXTENDED for entry in entries_of(group)]
    extensions = sorted(
        {f"{package_of(entry)} {entry.dist.version if entry.dist else ''}".strip() for entry in entries}
    )
    return Code(__version__, digest.hexdigest(), f"matplotlib {version('matplotlib')}", tuple(extensions))
