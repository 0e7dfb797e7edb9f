"""Writing whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakage_tasks.errors import LeakageError
from leakage_tasks.files import replacing


def test_a_file_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with replacing(target) as beside:
        beside.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    target.mkdir()
    (target / "old").write_text("old")
    with replacing(target) as beside:
        beside.mkdir()
        (beside / "new").write_text("new")
    assert [path.name for path in target.iterdir()] == ["new"]
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("folder", [False, True])
def test_an_error_leaves_what_was_there(tmp_path: Path, folder: bool) -> None:
    target = tmp_path / "target"
    target.write_text("old")

    def fail() -> None:
        with replacing(target) as beside:
            if folder:
                beside.mkdir()
                (beside / "part").write_text("half")
            else:
                beside.write_text("half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_places_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "missing" / "x", tmp_path / "file" / "x"):
        with pytest.raises(LeakageError, match="cannot be written"), replacing(place) as beside:
            beside.write_text("x")


def test_a_file_does_not_replace_a_folder(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(LeakageError, match="cannot be written"), replacing(tmp_path / "folder") as beside:
        beside.write_text("x")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_device_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(LeakageError, match="neither a file nor a folder"), replacing("/dev/null"):
        pass
    assert Path("/dev/null").is_char_device()
