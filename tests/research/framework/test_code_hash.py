"""A study's code is told apart by what its trials import, and by nothing else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leakage_tasks.research.elmahdy.trials import run as elmahdy_run
from leakage_tasks.research.framework import code_hash
from leakage_tasks.research.secret_sharer.trials import run as secret_sharer_run

FILES = {
    "trials.py": "def run(config, shared):\n    from rooms.victims.lstm import train\n    return train\n",
    "tables.py": "TABLE = 1\n",
    "victims/lstm.py": "from rooms.framework.shared import place\nimport rooms.victims.text\ntrain = 1\n",
    "victims/text.py": "TEXT = 'a'\n",
    "victims/gru.py": "train = 2\n",
    "framework/shared.py": "place = 1\n",
}


@pytest.fixture
def rooms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of rooms in the place of the papers'."""
    for name, text in FILES.items():
        path = tmp_path / "rooms" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for folder in ("", "victims", "framework"):
        (tmp_path / "rooms" / folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(code_hash, "ROOM", "rooms.")
    monkeypatch.setattr(code_hash, "APART", "rooms.framework.")
    yield tmp_path / "rooms"
    for name in [name for name in sys.modules if name.partition(".")[0] == "rooms"]:
        del sys.modules[name]
    code_hash._hash_of.cache_clear()


def hash_now() -> str | None:
    from rooms.trials import run  # type: ignore[import-not-found]

    code_hash._hash_of.cache_clear()
    return code_hash.code_of(run)


@pytest.mark.parametrize("name", ["trials.py", "victims/lstm.py", "victims/text.py"])
def test_an_edit_of_what_trials_import_tells(rooms: Path, name: str) -> None:
    before = hash_now()
    (rooms / name).write_text(FILES[name] + "more = 1\n")
    assert hash_now() != before


@pytest.mark.parametrize("name", ["tables.py", "victims/gru.py", "framework/shared.py"])
def test_an_edit_of_anything_else_does_not(rooms: Path, name: str) -> None:
    before = hash_now()
    (rooms / name).write_text(FILES[name] + "more = 1\n")
    assert hash_now() == before


def test_code_without_a_source_has_no_hash() -> None:
    def run() -> None:
        """Of a notebook's cell."""

    run.__module__ = "nowhere"
    assert code_hash.code_of(run) is None


def test_papers_have_hashes_of_their_own() -> None:
    assert None is not code_hash.code_of(elmahdy_run) != code_hash.code_of(secret_sharer_run) is not None
