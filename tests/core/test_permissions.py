"""For whose eyes a copy is."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from leakage_tasks.core.atomic import replacing
from leakage_tasks.core.permissions import copy_permissions


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def made(path: Path, mode: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("x")
    path.chmod(mode)
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder of an open and a private file."""
    made(tmp_path / "source" / "open", 0o644)
    made(tmp_path / "source" / "private", 0o600)
    return tmp_path / "source"


def test_files_in_a_folder_are_as_open_as_those_of_their_names(tmp_path: Path, source: Path) -> None:
    for name in ("open", "private"):
        made(tmp_path / "copy" / name, 0o644)
    copy_permissions(tmp_path / "copy", source)
    assert mode_of(tmp_path / "copy" / "open") == 0o644
    assert mode_of(tmp_path / "copy" / "private") == 0o600


def test_a_file_of_a_new_name_is_as_open_as_the_least_open(tmp_path: Path, source: Path) -> None:
    made(tmp_path / "copy" / "new", 0o644)
    copy_permissions(tmp_path / "copy", source)
    assert mode_of(tmp_path / "copy" / "new") == 0o600


def test_a_file_about_a_folder_is_as_open_as_the_least_open(tmp_path: Path, source: Path) -> None:
    record = made(tmp_path / "record", 0o644)
    copy_permissions(record, source)
    assert mode_of(record) == 0o600


def test_a_file_about_a_closed_folder_of_open_files_is_closed(tmp_path: Path) -> None:
    made(tmp_path / "source" / "open", 0o644)
    (tmp_path / "source").chmod(0o700)
    record = made(tmp_path / "record", 0o644)
    copy_permissions(record, tmp_path / "source")
    assert mode_of(record) == 0o600


def test_a_folder_made_of_a_private_file_holds_private_files(tmp_path: Path) -> None:
    source = made(tmp_path / "source.conll", 0o600)
    with replacing(tmp_path / "model", like=source) as beside:
        beside.mkdir()
        made(beside / "words", 0o644)
    assert mode_of(tmp_path / "model" / "words") == 0o600


def test_what_replaces_a_folder_keeps_the_rights_of_its_files(tmp_path: Path, source: Path) -> None:
    with replacing(source) as beside:
        made(beside / "private", 0o644)
    assert mode_of(source / "private") == 0o600


def test_what_is_not_there_gives_no_rights(tmp_path: Path) -> None:
    with replacing(tmp_path / "file", like=tmp_path / "missing") as beside:
        made(beside, 0o640)
    assert mode_of(tmp_path / "file") == 0o640
