"""The one reader of conversations: every dialect of a turn, its texts, and the dialect of a new one."""

from __future__ import annotations

from typing import Any

import pytest

from leakage_tasks.data.chat import conversation
from leakage_tasks.data.turns import chat_problem, dialect_of, is_chat, role_in, turns_by, turns_of

CALL = {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "look_up"}}]}
IMAGE = {"type": "image", "image": "a.png"}


def part(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        (None, ()),
        ("a text", ("a text",)),
        ([], ()),
        ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], ("a", "b")),
        ([{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}], ("a", "b")),
        ([{"role": "user", "content": "a"}, CALL], ("a",)),
        ([{"role": "user", "content": None}], ()),
        ([{"role": "user", "content": [IMAGE, part("a"), part("b")]}], ("a", "b")),
        ([{"role": "user", "content": ["a", part("b")]}], ("a", "b")),
        ([{"from": "human", "value": [part("a")]}], ("a",)),
        ([{"role": "user", "content": [{"type": "image", "text": None}]}], ()),
    ],
)
def test_texts_of_a_value(value: Any, texts: tuple[str, ...]) -> None:
    assert turns_of(value) == texts
    assert value is None or isinstance(value, str) or is_chat(value)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("text", "holds str, expected chat turns with 'role' and 'content', or 'from' and 'value'"),
        ([CALL, "text"], "holds str as turn 2, expected an object with 'role' and 'content', or 'from' and 'value'"),
        ([{"speaker": "user"}], "has neither 'role' and 'content' nor 'from' and 'value' in turn 1"),
        ([{"role": "user", "content": 3}], "holds int as 'content' of turn 1, expected text or a list of parts"),
        ([{"from": "gpt", "value": {}}], "holds dict as 'value' of turn 1, expected text or a list of parts"),
        ([{"role": "user", "content": [1]}], "holds list as 'content' of turn 1, expected text or a list of parts"),
    ],
)
def test_what_is_no_conversation_is_said(value: Any, problem: str) -> None:
    assert not is_chat(value)
    assert chat_problem(value) == problem


@pytest.mark.parametrize(
    ("turn", "role"),
    [
        ({"role": "assistant"}, "assistant"),
        ({"from": "gpt", "value": ""}, "assistant"),
        ({"from": "human", "value": ""}, "user"),
        ({"from": "observation", "value": ""}, "tool"),
        ({"role": "model", "content": ""}, "assistant"),
        ({"from": "function_call", "value": ""}, None),
        ({"role": ["user"]}, None),
        ({"content": "x"}, None),
        ("user", None),
    ],
)
def test_role_behind_a_name(turn: Any, role: str | None) -> None:
    assert role_in(turn) == role


def test_turns_that_take_a_text() -> None:
    value = [
        {"role": "assistant", "content": "a"},
        CALL,
        {"role": "assistant", "content": [IMAGE]},
        {"role": "assistant", "content": [part("b"), IMAGE]},
        {"role": "user", "content": "c"},
        {"role": "assistant", "content": ""},
    ]
    assert turns_by(value, "assistant") == [0, 3, 5]


@pytest.mark.parametrize("call", [{"tool_calls": CALL["tool_calls"]}, {"function_call": {"name": "look_up"}}])
def test_a_turn_that_calls_tools_takes_no_text(call: dict[str, Any]) -> None:
    turns = [{"role": "assistant", "content": "", **call}, {"role": "assistant", "content": "a", "tool_calls": None}]
    assert turns_by(turns, "assistant") == [1]


@pytest.mark.parametrize(
    ("neighbour", "written"),
    [
        (
            [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
            [{"role": "user", "content": "Please continue."}, {"role": "assistant", "content": "new"}],
        ),
        (
            [{"role": "user", "content": [IMAGE, part("a")]}],
            [{"role": "user", "content": [part("Please continue.")]}, {"role": "assistant", "content": [part("new")]}],
        ),
        (
            [{"role": "user", "content": [IMAGE, part("a")]}, {"role": "assistant", "content": "b"}],
            [{"role": "user", "content": [part("Please continue.")]}, {"role": "assistant", "content": "new"}],
        ),
        (
            [{"role": "system", "content": "s"}, {"role": "user", "content": [IMAGE]}],
            [{"role": "user", "content": [part("Please continue.")]}, {"role": "assistant", "content": "new"}],
        ),
        (
            [{"from": "human", "value": "a"}],
            [{"from": "human", "value": "Please continue."}, {"from": "gpt", "value": "new"}],
        ),
        (
            [{"from": "user", "value": "a"}],
            [{"from": "user", "value": "Please continue."}, {"from": "assistant", "value": "new"}],
        ),
        (
            [{"role": "user", "content": "a"}, {"role": "model", "content": "b"}],
            [{"role": "user", "content": "Please continue."}, {"role": "model", "content": "new"}],
        ),
        (
            [{"from": ["human"], "value": "a"}, {"from": "gpt", "value": "b"}],
            [{"from": "human", "value": "Please continue."}, {"from": "gpt", "value": "new"}],
        ),
    ],
)
def test_a_new_conversation_has_the_dialect_of_its_neighbour(neighbour: Any, written: Any) -> None:
    dialect = dialect_of(neighbour)
    assert dialect is not None
    assert dialect.write(conversation("new")) == written
    assert turns_of(written) == ("Please continue.", "new")


@pytest.mark.parametrize("value", [None, "text", [], [CALL], [{"role": "user", "content": None}], [1]])
def test_values_without_content_have_no_dialect(value: Any) -> None:
    assert dialect_of(value) is None
