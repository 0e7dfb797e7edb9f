"""The store of results: a small JSON file per study, ``<paper>/<scale>/<study>.json``, without trials and models."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakage_tasks.core.atomic import is_leftover, replacing
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.inputs import parse_json, read_named
from leakage_tasks.research.framework.registry import SCALES
from leakage_tasks.research.framework.report import Cell, Report
from leakage_tasks.research.framework.report_reading import expect, report_from_json

STORE_SCHEMA = 1
SMOKE = "--scale smoke only checks that a study runs and yields no claims: run it at --scale small or paper"

REVEAL = "--reveal"
"""The option that lets a study show text that people wrote. Such results are never stored."""


class StoreError(LeakageError):
    """A stored result, or a finished run, that cannot be used."""


@dataclass(frozen=True)
class StoredResult:
    """The report of a finished study and how it was made."""

    study: str
    """``paper/table``."""
    scale: str
    """``small`` or ``paper``."""
    report: Report
    """The study's table, claims and differences from the paper."""
    command: str
    """The command that runs it again."""
    seconds: float
    """Total duration of its trials."""
    seeds: int
    """The smallest number of seeds of a setting."""
    versions: dict[str, str]
    """Versions of this package and of packages that results depend on."""
    code: list[str | None]
    """Hashes of the code that ran its trials; None if not recorded."""
    devices: list[str | None]
    """Devices that ran its trials; None if not recorded."""

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        fields = {name: value for name, value in vars(self).items() if name != "report"}
        return {"schema": STORE_SCHEMA, **fields, **self.report.to_json()}

    def cell(self, row: dict[str, Any], column: str) -> Cell:
        """Return the cell of a column in the row with the cells ``row``, or None if there is no such row.

        Texts match if they contain the given text; a row with equal texts comes first.
        """
        matches = (
            candidate for candidate in self.report.rows if all(_alike(candidate.get(name), row[name]) for name in row)
        )
        return min(matches, key=lambda candidate: any(candidate[name] != row[name] for name in row), default={}).get(
            column
        )


def _alike(cell: Any, wanted: Any) -> bool:
    return wanted in cell if isinstance(cell, str) and isinstance(wanted, str) else bool(cell == wanted)


def read_store(folder: Path) -> list[StoredResult]:
    """Return all stored results, sorted by study and scale.

    Raises StoreError if the folder or a file cannot be used.
    """
    if not folder.is_dir():
        raise StoreError(f"{folder}: no such folder: set --results, or run the command in a checkout of the repository")
    results = [_read(path) for path in _complete(folder, "**/*.json")]
    return sorted(results, key=lambda result: (result.study, result.scale))


def _read(path: Path) -> StoredResult:
    data = _json(path)
    try:
        result = _result(data, data, data["command"], data["seconds"]) if data["schema"] == STORE_SCHEMA else None
    except (KeyError, TypeError, ValueError, AttributeError):
        result = None
    if result is None:
        raise StoreError(
            f"{path}: not a stored result of a study: expected a file that 'leakage study report --store' wrote"
        )
    if result.scale == "smoke":
        raise StoreError(f"{path}: {SMOKE}")
    return result


def _result(report: dict[str, Any], how: dict[str, Any], command: str, seconds: float) -> StoredResult:
    """Return the stored result. Raises TypeError, ValueError, KeyError or AttributeError for other data."""
    code, devices = ([expect(str | None, value) for value in expect(list, how[name])] for name in ("code", "devices"))
    # Study and scale become names of files.
    named = re.fullmatch(r"[\w-]+/[\w-]+", report["study"]) and report["scale"] in SCALES
    if not code or not devices or not named:
        raise ValueError("no trial, or no study")
    return StoredResult(
        study=report["study"],
        scale=report["scale"],
        report=report_from_json(report),
        command=expect(str, command),
        seconds=expect(float | int, seconds),
        seeds=expect(int, how["seeds"]),
        versions={name: expect(str, version) for name, version in expect(dict, how["versions"]).items()},
        code=code,
        devices=devices,
    )


def store_runs(runs: Path, store: Path) -> list[Path]:
    """Store all finished studies under ``runs``, without scale smoke; return the files written.

    Raises StoreError if there is no such study, or if a run has no hash of its code.
    """
    finished = list(_finished(runs))
    if not finished:
        raise StoreError(
            f"{runs}: no finished study in this folder: run one with 'leakage study run', at --scale small or paper"
        )
    taken = [(_path(store, result), result) for result in finished if result.scale != "smoke"]
    if not taken:
        raise StoreError(f"{runs}: {SMOKE}")
    for path, result in taken:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(result.to_json(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return [path for path, _ in taken]


def _complete(folder: Path, pattern: str) -> list[Path]:
    """Return the files that match a pattern in order, without incomplete files of a killed run."""
    paths = sorted(folder.glob(pattern))
    return [path for path in paths if not any(map(is_leftover, path.relative_to(folder).parts))]


def _path(store: Path, result: StoredResult) -> Path:
    paper, _, table = result.study.partition("/")
    return store / paper / result.scale / f"{table}.json"


def _finished(runs: Path) -> Iterator[StoredResult]:
    for path in _complete(runs, "*/*/*/report.json"):
        report, how = _json(path), _json(path.with_name("how.json"))
        try:
            words = shlex.split(how["command"])
            result = _result(report, how, shlex.join(words[: words.index("-o")]), how["trials"]["seconds"])
        except (KeyError, TypeError, ValueError, AttributeError):
            again = "run the study again; saved trials are reused"
            raise StoreError(f"{path.parent}: its files lack fields that the store needs: {again}") from None
        if REVEAL in words:
            raise StoreError(f"{path.parent}: contains text that people wrote: run the study again without {REVEAL}")
        yield result


def _json(path: Path) -> Any:
    try:
        return parse_json(read_named(path, "study's result", StoreError))
    except ValueError as error:
        raise StoreError(f"{path}: not valid JSON ({error}): restore the file, or run the study again") from None
