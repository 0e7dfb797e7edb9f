"""Shards on a disk that fills up, with a limit on files, or that vanish: one line, nothing lost, and on with room."""

from __future__ import annotations

import random
import resource
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from leakage_tasks.canaries import plant
from leakage_tasks.canaries.unplant import remove
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.journal import journal_files, open_journal
from leakage_tasks.data import Columns
from leakage_tasks.data.shards import shards_of
from leakage_tasks.defences.sanitize_shards import SanitizeOptions, sanitize_shards
from tests.canaries.test_shards import contents, make, pack, write_table
from tests.conftest import Leakage
from tests.defences.test_sanitize_shards import knows_what_it_saw
from tests.disks import fill, grow, small_disk

ENDINGS = ("txt", "jsonl", "jsonl.gz", "txt.zst", "parquet", "arrow")
SHARDS = 10


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk that holds some of the shards, not all."""
    place = tmp_path / "disk"
    place.mkdir()
    with small_disk(place, "400k"):
        yield place


@cache
def texts(shard: int) -> list[str]:
    """80 kB that no packing makes smaller than 50 kB."""
    stream = random.Random(shard)
    return ["".join(stream.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=80)) for _ in range(1_000)]


def shards(folder: Path, ending: str) -> Path:
    for shard in range(SHARDS):
        rows, place = texts(shard), folder / f"{shard}.{ending}"
        if ending in ("parquet", "arrow"):
            write_table(place, pa.table({"text": rows}), "parquet" if ending == "parquet" else "file")
        elif ending.startswith("jsonl"):
            pack("".join(f'{{"text": "{row}"}}\n' for row in rows).encode(), place)
        else:
            pack("".join(f"{row}\n" for row in rows).encode(), place)
    return folder


def check(outcome: tuple[int, str, str], reason: str) -> None:
    code, out, err = outcome
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert reason in err
    assert "Traceback" not in err


def whole(found: Path, expected: Path) -> int:
    """How many shards are there; all are whole, and nothing else is."""
    there, all_of = contents(found), contents(expected)
    assert {name: content for name, content in all_of.items() if name in there} == there
    assert not list(found.glob(".leakage-*"))
    return len(there)


def goes_on(leakage: Leakage, disk: Path, expected: Path, *words: object) -> None:
    """A command is refused when the disk is full, and takes what was done by then once there is room."""
    output = disk / expected.name
    check(leakage(*words, "-o", output), "No space left on device): free disk space")
    assert not Path(f"{output}.leakage.json").exists()
    done = whole(output, expected)
    assert 1 <= done < SHARDS
    grow(disk, "8m")
    code, out, _ = leakage(*words, "-o", output)
    assert code == 0
    assert f"; {done} of {SHARDS} shards were done by an earlier run" in out
    assert whole(output, expected) == SHARDS


@pytest.mark.parametrize("ending", ENDINGS)
def test_planting_on_a_full_disk(tmp_path: Path, disk: Path, manifest: Path, leakage: Leakage, ending: str) -> None:
    source = shards(tmp_path / "in", ending)
    plant(manifest, source, tmp_path / "planted")
    goes_on(leakage, disk, tmp_path / "planted", "plant", manifest, source)


@pytest.mark.parametrize("ending", ENDINGS)
def test_removing_on_a_full_disk(tmp_path: Path, disk: Path, manifest: Path, leakage: Leakage, ending: str) -> None:
    plant(manifest, shards(tmp_path / "in", ending), tmp_path / "planted")
    remove(tmp_path / "planted", tmp_path / "back")
    goes_on(leakage, disk, tmp_path / "back", "plant", "--remove", tmp_path / "planted")


def test_two_processes_on_a_full_disk(tmp_path: Path, disk: Path, manifest: Path, leakage: Leakage) -> None:
    source = shards(tmp_path / "in", "txt")
    plant(manifest, source, tmp_path / "planted")
    check(leakage("plant", manifest, source, "-o", disk / "planted", "--jobs", 2), "No space left on device")
    whole(disk / "planted", tmp_path / "planted")


def test_sanitizing_on_a_full_disk(tmp_path: Path, disk: Path) -> None:
    found = shards_of(shards(tmp_path / "in", "txt"))
    assert found is not None
    settings = SanitizeOptions(2, Columns(), 1, "sample", 1, 4, 0, knows_what_it_saw)
    sanitize_shards(found, tmp_path / "clean", settings)
    with pytest.raises(LeakageError, match=r"No space left on device\): free disk space"):
        sanitize_shards(found, disk / "clean", settings)
    done = whole(disk / "clean", tmp_path / "clean")
    assert 1 <= done < SHARDS
    grow(disk, "8m")
    report = sanitize_shards(found, disk / "clean", settings)
    assert report.again == (SHARDS, done)
    assert whole(disk / "clean", tmp_path / "clean") == SHARDS


def test_verifying_where_nothing_can_be_kept(tmp_path: Path, disk: Path, manifest: Path, leakage: Leakage) -> None:
    plant(manifest, make(tmp_path / "in", "txt"), tmp_path / "planted")
    here = disk / "canaries.jsonl"
    here.write_bytes(manifest.read_bytes())
    command = ("verify", tmp_path / "planted", here)
    whole_report = leakage(*command)
    filling = fill(disk)
    check(leakage(*command), "No space left on device): free disk space")
    filling.unlink()
    assert leakage(*command) == whole_report


def test_appending_findings_on_a_full_disk(disk: Path) -> None:
    journal = open_journal(disk / "resume")
    journal.append({"n": 1})
    filling = fill(disk)
    with pytest.raises(LeakageError, match=r"No space left on device\): free disk space, then run again"):
        journal.append({"n": 2, "long": "x" * 10_000})
    filling.unlink()
    journal.append({"n": 3})
    files = list(journal_files(disk / "resume"))
    assert [record["n"] for file in files for record in file.records] == [1, 3]
    assert [file.torn for file in files] == [0]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_limit_on_the_size_of_files(tmp_path: Path, manifest: Path, leakage: Leakage, ending: str) -> None:
    source = shards(tmp_path / "in", ending)
    plant(manifest, source, tmp_path / "planted")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        outcomes = [
            leakage("plant", manifest, source, "-o", tmp_path / "out"),
            leakage("plant", "--remove", tmp_path / "planted", "-o", tmp_path / "back"),
        ]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    for outcome in outcomes:
        check(outcome, "File too large): raise the limit (ulimit -f)")
    assert contents(tmp_path / "out") == contents(tmp_path / "back") == {}


def vanishing(monkeypatch: pytest.MonkeyPatch, name: str, shard: str) -> None:
    """Have a shard vanish just before a function is called for it."""
    module, _, own = name.rpartition(".")
    usual = getattr(__import__(module, fromlist=[own]), own)

    def lose(task: Any) -> Any:
        place = getattr(task, "paths", task)
        path = next(getattr(place, name) for name in ("planted", "source") if hasattr(place, name))
        if path.name == shard:
            path.unlink()
        return usual(task)

    monkeypatch.setattr(name, lose)


GONE, CHANGED = "cannot be read (No such file or directory): check the path", "changed while it was read: run again"
BEFORE = (
    ("plant", "leakage_tasks.canaries.plant_shards.count_shard", GONE),
    ("plant", "leakage_tasks.canaries.plant_shards.plant_shard", "no such file: check the path"),
    ("remove", "leakage_tasks.canaries.unplant.remove_one", GONE),
    ("verify", "leakage_tasks.canaries.scanning.scan", CHANGED),
)


def commands(tmp_path: Path, manifest: Path) -> dict[str, tuple[Any, ...]]:
    source, planted = tmp_path / "in", tmp_path / "planted"
    return {
        "plant": ("plant", manifest, source, "-o", tmp_path / "out"),
        "remove": ("plant", "--remove", planted, "-o", tmp_path / "out"),
        "verify": ("verify", planted, manifest),
    }


@pytest.mark.parametrize(("what", "name", "told"), BEFORE)
def test_a_shard_that_vanishes_before_it_is_read(
    tmp_path: Path, manifest: Path, leakage: Leakage, monkeypatch: pytest.MonkeyPatch, what: str, name: str, told: str
) -> None:
    plant(manifest, make(tmp_path / "in", "txt"), tmp_path / "planted")
    vanishing(monkeypatch, name, "part-2.txt")
    check(leakage(*commands(tmp_path, manifest)[what]), f"part-2.txt: {told}")
    assert not {name for name in contents(tmp_path / "out") if name not in ("part-0.txt", "part-1.txt")}


@pytest.mark.parametrize("what", ["plant", "remove", "verify"])
def test_a_shard_that_vanishes_while_it_is_read(
    tmp_path: Path, manifest: Path, leakage: Leakage, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    plant(manifest, make(tmp_path / "in", "txt"), tmp_path / "planted")
    from leakage_tasks.data import lines

    usual = lines.open_source

    def open_and_lose(path: Path) -> Any:
        stream = usual(path)
        if path.name == "part-2.txt" and not any(part.startswith(".") for part in path.parts):
            path.unlink()
        return stream

    monkeypatch.setattr(lines, "open_source", open_and_lose)
    outcome = leakage(*commands(tmp_path, manifest)[what])
    check(outcome, f"part-2.txt: {CHANGED}")
    assert not {name for name in contents(tmp_path / "out") if name not in ("part-0.txt", "part-1.txt")}
