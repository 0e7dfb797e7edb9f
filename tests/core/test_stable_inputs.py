"""Inputs that change while they are read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.stable_inputs import ChangedError, unchanged


def appended(path: Path) -> None:
    with path.open("a") as file:
        file.write("more\n")


def rewritten(path: Path) -> None:
    """As long as before."""
    path.write_text(path.read_text().upper())


def replaced(path: Path) -> None:
    """By a file of the same bytes and time."""
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    other.replace(path)


def cut(path: Path) -> None:
    os.truncate(path, 2)


CHANGES = [appended, rewritten, replaced, cut, Path.unlink]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file that was written long ago."""
    path = tmp_path / "data.txt"
    path.write_text("one\ntwo\n")
    os.utime(path, (0, 0))
    return path


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_told(source: Path, change: Callable[[Path], None]) -> None:
    with pytest.raises(ChangedError, match=r"data\.txt: changed while it was read: run again"), unchanged(source):
        change(source)


@pytest.mark.parametrize("change", CHANGES)
def test_so_is_one_of_a_file_in_a_folder(source: Path, change: Callable[[Path], None]) -> None:
    with pytest.raises(ChangedError, match="changed while it was read"), unchanged(source.parent):
        change(source)


def test_what_a_change_made_fail_is_told_as_the_change(source: Path) -> None:
    def read() -> None:
        with unchanged(source):
            appended(source)
            raise PlantingError("not UTF-8 at byte 3")

    with pytest.raises(ChangedError):
        read()


def test_what_failed_without_a_change_stays_what_it_is(source: Path) -> None:
    with pytest.raises(PlantingError, match="not UTF-8"), unchanged(source):
        raise PlantingError("not UTF-8 at byte 3")


def test_reading_is_no_change(source: Path) -> None:
    with unchanged(source, source.parent):
        source.read_bytes()


def test_new_files_in_a_folder_are_none(source: Path) -> None:
    with unchanged(source.parent):
        source.with_name("new").write_text("x")


def test_caches_of_datasets_are_none(source: Path) -> None:
    cache = source.with_name("cache-12.arrow")
    cache.write_text("x")
    with unchanged(source.parent):
        appended(cache)


def test_what_is_not_there_is_for_others_to_tell(tmp_path: Path) -> None:
    with unchanged(tmp_path / "missing"):
        pass
