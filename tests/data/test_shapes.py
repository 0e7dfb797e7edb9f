"""Rows of prompts and answers: which shape columns have, and the row that a text becomes in each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.data.layout import Columns, NoColumnError, choose_texts
from leakage_tasks.data.shapes import SHAPES, RowCopy, filled, shape_called
from leakage_tasks.data.turns import Dialect


def turns(*said: tuple[str, str]) -> list[dict[str, str]]:
    return [{"role": role, "content": text} for role, text in said]


@pytest.mark.parametrize(
    ("columns", "wanted", "column", "shape"),
    [
        (("id", "text"), Columns(), "text", None),
        (("messages", "prompt", "completion"), Columns(), "messages", None),
        (("conversations", "system"), Columns(), "conversations", None),
        (("instruction", "input", "output"), Columns(), "output", "Alpaca"),
        (("instruction", "output"), Columns(role="user"), "instruction", "Alpaca"),
        (("instruction", "output", "system"), Columns(role="system"), "system", "Alpaca"),
        (("instruction", "input", "output"), Columns("input"), "input", "Alpaca"),
        (("instruction", "input", "output", "text"), Columns(), "text", None),
        (("instruction", "chosen", "rejected"), Columns(), "chosen", "Alpaca with preferences"),
        (("prompt", "completion"), Columns(), "completion", "prompts and completions"),
        (("prompt", "completion"), Columns(role="user"), "prompt", "prompts and completions"),
        (("prompt", "chosen", "rejected"), Columns("rejected"), "rejected", "prompts and preferences"),
        (("chosen", "rejected"), Columns(role="user"), "chosen", "preferences"),
        (("prompt", "label"), Columns("prompt"), "prompt", None),
    ],
)
def test_columns_say_the_shape(columns: tuple[str, ...], wanted: Columns, column: str, shape: str | None) -> None:
    assert choose_texts(Path("x"), columns, wanted) == (column, shape_called(shape))


def test_columns_of_no_shape_are_declined() -> None:
    with pytest.raises(PlantingError, match=r"x: no column 'text' \(it has prompt, output\): name one with"):
        choose_texts(Path("x"), ("prompt", "output"), Columns())


ANSWERS = ("assistant", "a")
CHATS = {name: Dialect(opened=False) for name in ("prompt", "completion", "chosen", "rejected")}


@pytest.mark.parametrize(
    ("name", "copy", "dialects", "drawn", "row"),
    [
        ("Alpaca", ("output", "assistant"), {}, {}, {"system": "", "instruction": "Q", "input": "", "output": "new"}),
        (
            "Alpaca",
            ("instruction", "user"),
            {},
            {"output": "o"},
            {"system": "", "instruction": "new", "input": "", "output": "o"},
        ),
        (
            "Alpaca",
            ("input", "user"),
            {},
            {"output": "o"},
            {"system": "", "instruction": "Q", "input": "new", "output": "o"},
        ),
        (
            "Alpaca",
            ("system", "system"),
            {},
            {"output": "o"},
            {"system": "new", "instruction": "Q", "input": "", "output": "o"},
        ),
        ("prompts and completions", ("completion", "assistant"), {}, {}, {"prompt": "Q", "completion": "new"}),
        ("prompts and completions", ("prompt", "user"), {}, {"completion": "c"}, {"prompt": "new", "completion": "c"}),
        (
            "prompts and preferences",
            ("rejected", "assistant"),
            {},
            {"chosen": "c"},
            {"prompt": "Q", "chosen": "c", "rejected": "new"},
        ),
        (
            "prompts and completions",
            ("prompt", "system"),
            CHATS,
            {"completion": turns(ANSWERS)},
            {"prompt": turns(("system", "new"), ("user", "Q")), "completion": turns(ANSWERS)},
        ),
        (
            "prompts and preferences",
            ("chosen", "assistant"),
            CHATS,
            {"rejected": turns(ANSWERS)},
            {"prompt": turns(("user", "Q")), "chosen": turns(("assistant", "new")), "rejected": turns(ANSWERS)},
        ),
        (
            "preferences",
            ("chosen", "assistant"),
            {"chosen": Dialect(), "rejected": Dialect()},
            {"rejected": turns(("user", "other"), ANSWERS)},
            {"chosen": turns(("user", "Q"), ("assistant", "new")), "rejected": turns(("user", "Q"), ANSWERS)},
        ),
    ],
)
def test_the_row_of_a_copy(
    name: str, copy: tuple[str, Any], dialects: dict[str, Dialect], drawn: dict[str, Any], row: dict[str, Any]
) -> None:
    shape = shape_called(name)
    assert shape is not None
    parts = shape.parts(row)
    assert list(parts) == list(row)
    assert filled(shape, RowCopy("new", copy[0], copy[1], "Q"), parts, dialects, drawn) == row


def test_every_shape_has_a_name_of_its_own() -> None:
    assert len({shape.name for shape in SHAPES}) == len(SHAPES)


@pytest.mark.parametrize(
    ("first", "listed"),
    [
        ("id,body", True),
        ("prompt id,turn-2", True),
        ("she pays with 5105 1051 0510 5100,b", False),
        ("a,ottoline@example.org", False),
        ("219-09-4321,b", False),
        ("call me after the lunch,b", False),
    ],
)
def test_the_first_row_is_listed_as_columns_only_if_it_looks_like_names(first: str, listed: bool) -> None:
    message = str(NoColumnError(Path("x.csv"), "text", first.split(","), "text_column"))
    assert (first.replace(",", ", ") in message) is listed
    assert message.endswith("name one with --text-column")
