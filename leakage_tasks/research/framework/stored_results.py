"""The store: results of studies as small JSON files, ``<paper>/<scale>/<study>.json``, without trials and models."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from leakage_tasks.core.atomic import replacing
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.inputs import parse_json, read_named
from leakage_tasks.research.framework.report import Claim, Measured, Published

STORE_SCHEMA = 1
SMOKE = "smoke shows that a study runs and prints no claim: run it at --scale small or paper"


class StoreError(LeakageError):
    """A stored result, or a finished run, that cannot be used."""


@dataclass(frozen=True)
class StoredResult:
    """What a finished study showed, and how it came about."""

    study: str
    """``paper/table``."""
    scale: str
    """``small`` or ``paper``."""
    rows: list[dict[str, Any]]
    """The table, cells as JSON values."""
    claims: list[dict[str, Any]]
    """Its claims: words, holds, evidence and p."""
    differences: list[str]
    """How the set-up differs from the paper's."""
    command: str
    """What runs it again."""
    seconds: float
    """What its trials took, one after the other."""
    seeds: int
    """The fewest seeds of a setting."""
    versions: dict[str, str]
    """Of this package and those that figures depend on."""
    code: list[str | None]
    """Hashes of the code that ran its trials; null where none was noted."""
    devices: list[str | None]
    """What they ran on; null where none was noted."""
    schema: int = STORE_SCHEMA
    """Of the file."""

    def tested(self) -> list[Claim]:
        """Its claims."""
        return [Claim(**each) for each in self.claims]

    def cell(self, row: dict[str, Any], column: str) -> Published | Measured | str | float | None:
        """The cell of a column in the first row that has the cells of ``row``, texts that hold its; None if none."""
        found = next((each for each in self.rows if all(_alike(each.get(name), row[name]) for name in row)), {})
        value = found.get(column)
        if isinstance(value, dict):
            return Published(value["published"]) if "published" in value else Measured(**value)
        return value


def _alike(cell: Any, wanted: Any) -> bool:
    return wanted in cell if isinstance(cell, str) and isinstance(wanted, str) else bool(cell == wanted)


def read_store(folder: Path) -> list[StoredResult]:
    """Every stored result, sorted by study and scale. Raises StoreError for a folder or file that is no such thing."""
    if not folder.is_dir():
        raise StoreError(f"{folder}: no such folder: give --results, or run this in a checkout of the repository")
    found = [_read(path) for path in sorted(folder.rglob("*.json"))]
    return sorted(found, key=lambda each: (each.study, each.scale))


def _read(path: Path) -> StoredResult:
    data = _json(path)
    try:
        result = StoredResult(**data)
        result.tested()
        usable = result.schema == STORE_SCHEMA and bool(result.code) and bool(result.devices)
    except (TypeError, AttributeError):
        usable = False
    if not usable:
        raise StoreError(f"{path}: no stored result of a study: expected what 'leakage study report --store' writes")
    if result.scale == "smoke":
        raise StoreError(f"{path}: {SMOKE}")
    return result


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
            beside.write_text(json.dumps(asdict(result), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return [path for path, _ in taken]


def _path(store: Path, result: StoredResult) -> Path:
    paper, _, table = result.study.partition("/")
    return store / paper / result.scale / f"{table}.json"


def _finished(runs: Path) -> Iterator[StoredResult]:
    for path in sorted(runs.glob("*/*/*/report.json")):
        report, how = _json(path), _json(path.with_name("how.json"))
        try:
            words = shlex.split(how["command"])
            yield StoredResult(
                **{name: report[name] for name in ("study", "scale", "rows", "claims", "differences")},
                command=shlex.join(words[: words.index("-o")]),
                seconds=how["trials"]["seconds"],
                **{name: how[name] for name in ("seeds", "versions", "code", "devices")},
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            again = "run the study again: trials that are saved are kept"
            raise StoreError(f"{path.parent}: its files lack what the store keeps: {again}") from None


def _json(path: Path) -> Any:
    try:
        return parse_json(read_named(path, "study's result", StoreError))
    except ValueError as error:
        raise StoreError(f"{path}: no JSON ({error}): restore it, or run the study again") from None
