"""Folders that a command may fill anew, and folders that it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.output_folder import MARKER, claim_output_folder

NAMES = ("model", "corpus.txt")


def take(folder: Path, command: str = "leakage demo") -> None:
    claim_output_folder(folder, command, NAMES)


@pytest.mark.parametrize("made", [False, True])
def test_a_new_or_empty_folder_becomes_its_own(tmp_path: Path, made: bool) -> None:
    folder = tmp_path / "a" / "b"
    if made:
        folder.mkdir(parents=True)
    take(folder)
    assert (folder / MARKER).read_text() == "leakage demo\n"


def test_its_own_is_taken_again_with_whatever_was_added(tmp_path: Path) -> None:
    take(tmp_path / "x")
    (tmp_path / "x" / "notes.txt").write_text("mine")
    take(tmp_path / "x")
    assert (tmp_path / "x" / "notes.txt").read_text() == "mine"


def test_one_of_before_there_were_markers_is_known_by_its_files(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).write_text("")
    take(tmp_path)
    assert (tmp_path / MARKER).is_file()


@pytest.mark.parametrize("names", [("corpus.txt",), ("model",), (*NAMES, "thesis.tex"), (".git",), (MARKER,)])
def test_a_folder_with_anything_else_is_left_alone(tmp_path: Path, names: tuple[str, ...]) -> None:
    for name in names:
        (tmp_path / name).write_text("mine")
    with pytest.raises(LeakageError, match="no sign that 'leakage demo' wrote it: choose another --output"):
        take(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(names)
    assert {each.read_text() for each in tmp_path.iterdir()} == {"mine"}


def test_another_commands_folder_is_not_its_own(tmp_path: Path) -> None:
    take(tmp_path, "leakage showcase")
    with pytest.raises(LeakageError, match="no sign that 'leakage demo' wrote it"):
        take(tmp_path)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LeakageError, match="cannot be made"):
        take(tmp_path / "file")
