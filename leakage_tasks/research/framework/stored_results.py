"""The store: results of studies as small JSON files, ``<paper>/<scale>/<study>.json``, without trials and models."""

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
SMOKE = "smoke shows that a study runs and prints no claim: run it at --scale small or paper"

REVEAL = "--reveal"
"""The option by which a study shows text that people wrote; what it shows is not for the store."""


class StoreError(LeakageError):
    """A stored result, or a finished run, that cannot be used."""


@dataclass(frozen=True)
class StoredResult:
    """What a finished study showed, and how it came about."""

    study: str
    """``paper/table``."""
    scale: str
    """``small`` or ``paper``."""
    report: Report
    """Its table, claims and differences from the paper."""
    command: str
    """What runs it again."""
    seconds: float
    """What its trials took, one after the other."""
    seeds: int
    """The fewest seeds of a setting."""
    versions: dict[str, str]
    """Of this package and those that figures depend on."""
    code: list[str | None]
    """Hashes of the code that ran its trials; None where none was noted."""
    devices: list[str | None]
    """What they ran on; None where none was noted."""

    def to_json(self) -> dict[str, Any]:
        """Itself as JSON values."""
        own = {name: value for name, value in vars(self).items() if name != "report"}
        return {"schema": STORE_SCHEMA, **own, **self.report.to_json()}

    def cell(self, row: dict[str, Any], column: str) -> Cell:
        """The cell of a column in the row whose cells are those of ``row``; None if there is none.

        Where no row has the very texts, the first one counts whose texts hold them.
        """
        found = (each for each in self.report.rows if all(_alike(each.get(name), row[name]) for name in row))
        return min(found, key=lambda each: any(each[name] != row[name] for name in row), default={}).get(column)


def _alike(cell: Any, wanted: Any) -> bool:
    return wanted in cell if isinstance(cell, str) and isinstance(wanted, str) else bool(cell == wanted)


def read_store(folder: Path) -> list[StoredResult]:
    """Every stored result, sorted by study and scale. Raises StoreError for a folder or file that is no such thing."""
    if not folder.is_dir():
        raise StoreError(f"{folder}: no such folder: give --results, or run this in a checkout of the repository")
    found = [_read(path) for path in _whole(folder, "**/*.json")]
    return sorted(found, key=lambda each: (each.study, each.scale))


def _read(path: Path) -> StoredResult:
    data = _json(path)
    try:
        result = _result(data, data, data["command"], data["seconds"]) if data["schema"] == STORE_SCHEMA else None
    except (KeyError, TypeError, ValueError, AttributeError):
        result = None
    if result is None:
        raise StoreError(f"{path}: no stored result of a study: expected what 'leakage study report --store' writes")
    if result.scale == "smoke":
        raise StoreError(f"{path}: {SMOKE}")
    return result


def _result(report: dict[str, Any], how: dict[str, Any], command: str, seconds: float) -> StoredResult:
    """Raises TypeError, ValueError, KeyError or AttributeError for what was not written as one."""
    code, devices = ([expect(str | None, each) for each in expect(list, how[name])] for name in ("code", "devices"))
    # Both name files of the store.
    named = re.fullmatch(r"[\w-]+/[\w-]+", report["study"]) and report["scale"] in SCALES
    if not code or not devices or not named:
        raise ValueError("of no trial, or no study")
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
    """Take every finished study under ``runs`` into the store, but those of scale smoke; gives the files written.

    Raises StoreError where there is none, and for one that was made before hashes of code were noted.
    """
    finished = list(_finished(runs))
    if not finished:
        raise StoreError(
            f"{runs}: no finished study there: run one with 'leakage study run', at --scale small or paper"
        )
    taken = [(_path(store, result), result) for result in finished if result.scale != "smoke"]
    if not taken:
        raise StoreError(f"{runs}: {SMOKE}")
    for path, result in taken:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as beside:
            beside.write_text(json.dumps(result.to_json(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return [path for path, _ in taken]


def _whole(folder: Path, pattern: str) -> list[Path]:
    """The files of a pattern in order, but those that a killed run left half made."""
    found = sorted(folder.glob(pattern))
    return [path for path in found if not any(map(is_leftover, path.relative_to(folder).parts))]


def _path(store: Path, result: StoredResult) -> Path:
    paper, _, table = result.study.partition("/")
    return store / paper / result.scale / f"{table}.json"


def _finished(runs: Path) -> Iterator[StoredResult]:
    for path in _whole(runs, "*/*/*/report.json"):
        report, how = _json(path), _json(path.with_name("how.json"))
        try:
            words = shlex.split(how["command"])
            result = _result(report, how, shlex.join(words[: words.index("-o")]), how["trials"]["seconds"])
        except (KeyError, TypeError, ValueError, AttributeError):
            again = "run the study again: trials that are saved are kept"
            raise StoreError(f"{path.parent}: its files lack what the store keeps: {again}") from None
        if REVEAL in words:
            raise StoreError(f"{path.parent}: shows text that people wrote: run the study again without {REVEAL}")
        yield result


def _json(path: Path) -> Any:
    try:
        return parse_json(read_named(path, "study's result", StoreError))
    except ValueError as error:
        raise StoreError(f"{path}: no JSON ({error}): restore it, or run the study again") from None
