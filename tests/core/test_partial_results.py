"""Results of parts of a run, known again by all that they follow from."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from leakage_tasks.core import partial_results as module
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.partial_results import delete_parts, load_part, parts_folder, save_part

KEY = ["count", "ab" * 32, {"text": "text"}, None, 1]


def test_what_is_kept_comes_back_under_its_key_alone(tmp_path: Path) -> None:
    place = parts_folder(tmp_path / "state") / "sub" / "a.json"
    assert load_part(place, KEY) is None
    save_part(place, KEY, {"rows": 3, "names": ["é", None]})
    assert load_part(place, KEY) == {"rows": 3, "names": ["é", None]}
    assert load_part(place, [*KEY, 2]) is None
    save_part(place, [*KEY, 2], {"rows": 4})
    assert load_part(place, KEY) is None


def test_another_version_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_part(tmp_path / "a.json", KEY, {"rows": 3})
    monkeypatch.setattr(module, "__version__", "99")
    assert load_part(tmp_path / "a.json", KEY) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"key": 1, "rows": 3}', b"\xff", b"[" * 10**5])
def test_what_is_damaged_is_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    assert load_part(tmp_path / "a.json", KEY) is None


def test_it_is_for_its_owner_alone_and_forgotten(tmp_path: Path) -> None:
    folder = parts_folder(tmp_path / "state")
    save_part(folder / "sub" / "a.json", KEY, {})
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}
    assert modes == {"state": 0o700, "sub": 0o700, "a.json": 0o600}
    delete_parts(folder)
    assert not folder.exists()


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = parts_folder(tmp_path / "state").stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(LeakageError, match="state: belongs to another user, whose results are not taken"):
        parts_folder(tmp_path / "state")


def test_where_nothing_can_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for make in (
        lambda: parts_folder(tmp_path / "file" / "state"),
        lambda: save_part(tmp_path / "file" / "a", KEY, {}),
    ):
        with pytest.raises(LeakageError, match="cannot be written.*choose another path"):
            make()
