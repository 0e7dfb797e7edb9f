"""Conversations of rows in every notation, as trainers pass them to a chat template."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.signal_cleanup import temporary_folder
from leakage_tasks.data import Columns, format_of
from leakage_tasks.data.conversations import NOT_OF_THE_TEMPLATE, chat_rows, holds_conversations

Turns = list[dict[str, str]]
WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
NAMES = {"user": "human", "assistant": "gpt", "system": "system"}


def alternating(said: list[str], system: str | None) -> Turns:
    first = [] if system is None else [{"role": "system", "content": system}]
    return [*first, *({"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(said))]


CONVERSATIONS = st.builds(
    lambda pairs, system: alternating([text for pair in pairs for text in pair], system),
    st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=3),
    st.none() | WORDS,
)
NOTATIONS: dict[str, Callable[[Turns], dict[str, Any]]] = {
    "messages": lambda turns: {"messages": turns},
    "parts": lambda turns: {
        "messages": [{**turn, "content": [{"type": "text", "text": turn["content"]}]} for turn in turns]
    },
    "ShareGPT": lambda turns: {
        "conversations": [{"from": NAMES[turn["role"]], "value": turn["content"]} for turn in turns]
    },
    "completion": lambda turns: {"prompt": turns[:-1], "completion": turns[-1:]},
    "preferences": lambda turns: {
        "prompt": turns[:-1],
        "chosen": turns[-1:],
        "rejected": [{"role": "assistant", "content": "No."}],
    },
    "whole preferences": lambda turns: {
        "chosen": turns,
        "rejected": [*turns[:-1], {"role": "assistant", "content": "No."}],
    },
    "repeated prompt": lambda turns: {
        "prompt": next(turn["content"] for turn in turns if turn["role"] == "user"),
        "chosen": turns,
        "rejected": [*turns[:-1], {"role": "assistant", "content": "No."}],
    },
}


def conversation_of(row: dict[str, Any], folder: Path, kind: str = "jsonl", **wanted: Any) -> list[dict[str, Any]]:
    """The turns of the only row of a file."""
    path = folder / f"rows.{kind}"
    if kind == "jsonl":
        path.write_text(json.dumps(row) + "\n")
    else:
        pq.write_table(pa.Table.from_pylist([row]), path)
    reader, columns = format_of(path), Columns(**wanted)
    layout = reader.survey(path, columns)
    assert holds_conversations(layout)
    ((turns, _, origin, _),) = chat_rows(reader, path, layout, columns)
    assert origin == f"{path}: row 0 (from 0)"
    return turns


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("notation", NOTATIONS)
@given(turns=CONVERSATIONS)
def test_every_notation_gives_the_turns_that_a_trainer_renders(notation: str, kind: str, turns: Turns) -> None:
    with temporary_folder() as folder:
        assert conversation_of(NOTATIONS[notation](turns), folder, kind) == turns


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@given(turns=CONVERSATIONS, cut=st.integers(1, 6))
def test_an_answer_of_several_turns_follows_its_prompt(kind: str, turns: Turns, cut: int) -> None:
    with temporary_folder() as folder:
        prompt, answer = turns[:cut], turns[cut:]
        if answer and answer[: len(prompt)] != prompt:
            assert conversation_of({"prompt": prompt, "completion": answer}, folder, kind) == turns


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@given(turns=CONVERSATIONS)
def test_the_text_column_chooses_the_answer(kind: str, turns: Turns) -> None:
    with temporary_folder() as folder:
        row = NOTATIONS["preferences"](turns)
        rejected = [*turns[:-1], {"role": "assistant", "content": "No."}]
        assert conversation_of(row, folder, kind, text="rejected") == rejected


@pytest.mark.parametrize(
    ("extra", "first", "asked"),
    [
        ({}, [], "Add."),
        ({"input": ""}, [], "Add."),
        ({"input": "1, 2"}, [], "Add.\n1, 2"),
        ({"system": "Be kind.", "input": "1, 2"}, [{"role": "system", "content": "Be kind."}], "Add.\n1, 2"),
    ],
)
@pytest.mark.parametrize("answer", ["output", "chosen"])
def test_an_alpaca_row_is_a_conversation(
    tmp_path: Path, extra: dict[str, str], first: Turns, asked: str, answer: str
) -> None:
    row = {"instruction": "Add.", **extra, answer: "3", **({} if answer == "output" else {"rejected": "4"})}
    expected = [*first, {"role": "user", "content": asked}, {"role": "assistant", "content": "3"}]
    assert conversation_of(row, tmp_path) == expected


@pytest.mark.parametrize("row", [{"text": "a"}, {"prompt": "a", "completion": "b"}, {"chosen": "a", "rejected": "b"}])
def test_rows_of_text_are_no_conversations(tmp_path: Path, row: dict[str, str]) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    assert not holds_conversations(format_of(tmp_path / "rows.jsonl").survey(tmp_path / "rows.jsonl", Columns()))


def test_calls_and_tools_are_kept_and_empty_fields_left_out(tmp_path: Path) -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f"}}], "name": None}
    turns = [{"role": "user", "content": "Hi."}, call, {"role": "function", "content": "3", "name": "f"}]
    path = tmp_path / "rows.jsonl"
    for tools in ([{"name": "f"}], json.dumps([{"name": "f"}])):
        path.write_text(json.dumps({"messages": turns, "tools": tools}) + "\n")
        layout = format_of(path).survey(path, Columns())
        (row,) = chat_rows(format_of(path), path, layout, Columns())
        assert row.tools == [{"name": "f"}]
        assert row.turns == [
            {"role": "user", "content": "Hi."},
            {"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]},
            {"role": "function", "content": "3", "name": "f"},
        ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"messages": [{"content": "a"}]}, r"row 0 \(from 0\): turn 1: has no 'role': name its speaker"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "url": "x"}]}]},
            r"row 0 \(from 0\): turn 1: holds more than text, such as an image: leave the row out",
        ),
        (
            {"messages": [{"role": "user", "content": "a"}], "tools": "{"},
            r"row 0 \(from 0\): its 'tools' are not JSON: fix",
        ),
        (
            {"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": "thinking"},
            r"row 0 \(from 0\): its 'chat_template_kwargs' are no object of names and values: fix",
        ),
        (
            {"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {"tokenize": True, "padding": 1}},
            r"row 0 \(from 0\): its 'chat_template_kwargs' set padding, tokenize, which the trainer decides, not the",
        ),
    ],
)
def test_a_row_that_no_template_can_render_is_one_line(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    with pytest.raises(PlantingError, match=message):
        conversation_of(row, tmp_path)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_rows_carry_arguments_of_the_template(tmp_path: Path, kind: str) -> None:
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    rows = [{"messages": turns, "chat_template_kwargs": given} for given in ({"thinking": True}, None)]
    path = tmp_path / f"rows.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    layout = format_of(path).survey(path, Columns())
    first, second = chat_rows(format_of(path), path, layout, Columns())
    assert (first.turns, second.turns) == (turns, turns)
    assert (first.arguments, second.arguments) == ({"thinking": True}, None)


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_arguments_of_the_template_may_be_json_text_or_empty(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"rows.{kind}"
    rows = [{"instruction": "a", "output": "b", "chat_template_kwargs": text} for text in ('{"x": 1}', "")]
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        path.write_text('instruction,output,chat_template_kwargs\na,b,"{""x"": 1}"\na,b,\n')
    layout = format_of(path).survey(path, Columns())
    assert [row.arguments for row in chat_rows(format_of(path), path, layout, Columns())] == [{"x": 1}, None]


def test_a_null_turn_of_a_typed_column_is_one_line_and_has_no_text(tmp_path: Path) -> None:
    row = {"messages": [{"role": "user", "content": "a"}, None]}
    with pytest.raises(PlantingError, match=r"row 0 \(from 0\): turn 2: has no 'role': name its speaker"):
        conversation_of(row, tmp_path, "parquet")
    path = tmp_path / "rows.parquet"
    layout = format_of(path).survey(path, Columns())
    assert list(format_of(path).texts(path, layout, Columns())) == [("a",)]


def test_arguments_that_the_trainer_sets_are_those_of_the_tokenizer() -> None:
    parameters = set(inspect.signature(PreTrainedTokenizerBase.apply_chat_template).parameters)
    # A row may have these: TRL passes its chat_template and documents on, and in some versions its tools.
    assert parameters - {"self", "kwargs", "tools", "documents", "chat_template"} <= NOT_OF_THE_TEMPLATE
