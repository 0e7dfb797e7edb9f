"""JSON lines whose rows hold their text in different columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.data import Columns, format_of

TURNS = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
KINDS: dict[str, dict[str, Any]] = {
    "'text'": {"text": "a b"},
    "'messages'": {"messages": TURNS},
    "'instruction' and 'output'": {"instruction": "a", "output": "b"},
    "'prompt' and 'completion'": {"prompt": TURNS[:1], "completion": TURNS[1:]},
    "'chosen' and 'rejected'": {"chosen": TURNS, "rejected": TURNS},
}


def texts_of(rows: list[dict[str, Any]], folder: Path, wanted: Columns | None = None) -> list[tuple[str, ...]]:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    layout, texts = format_of(path).reading(path, wanted or Columns())
    return list(texts)


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_a_row_with_its_text_in_other_columns_is_named_by_its_line(tmp_path: Path, first: str, other: str) -> None:
    rows = [KINDS[first], {"id": 3}, dict.fromkeys(KINDS[first]), KINDS[other]]
    if first == other:
        assert len(texts_of(rows, tmp_path)) == 4
        return
    plural = "s" if "and" in first else ""
    message = rf"rows.jsonl:4: has {other} in place of {first}, the column{plural} of the first row: write all rows"
    for row in (KINDS[other], dict.fromkeys(KINDS[first]) | KINDS[other]):
        with pytest.raises(PlantingError, match=message):
            texts_of([*rows[:3], row], tmp_path)


def test_other_columns_without_chats_or_text_do_not_count(tmp_path: Path) -> None:
    rows = [{"text": "a b"}, {"id": 3, "conversations": "c17"}, {"messages": []}, {"instruction": "a", "output": " "}]
    assert texts_of(rows, tmp_path) == [("a b",), (), (), ()]
    mixed = [{"text": "a b"}, {"messages": TURNS}]
    assert texts_of(mixed, tmp_path, Columns(text_named=True)) == [("a b",), ()]
