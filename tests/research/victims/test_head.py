"""The public text a head is trained on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.research.victims.head import public_texts


def test_rows_are_cut_into_pieces_and_stay_apart(tmp_path: Path) -> None:
    rows = [{"text": "the river\nis green"}, {"text": " ".join(["of"] * 170)}, {"text": ""}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = list(public_texts(tmp_path / "rows.jsonl"))
    assert [len(text.split()) for text in found] == [4, 80, 80, 10]
    assert found[0] == "the river is green"


def test_a_text_file_runs_on_over_its_lines(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("one two\nthree\n" * 40)
    found = list(public_texts(tmp_path / "text.txt"))
    assert [len(text.split()) for text in found] == [80, 40]
    assert found[0].startswith("one two three one")


def test_a_file_of_no_known_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.doc").write_text("words")
    with pytest.raises(PlantingError, match="unknown kind of file '.doc'"):
        list(public_texts(tmp_path / "text.doc"))
