"""Texts at the end of turns: the JSON that is changed in place reads as the value that is changed in Python."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.data.additions import json_with_addition, with_addition
from leakage_tasks.data.turns import turns_by, turns_of

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
PARTS = st.fixed_dictionaries({"type": st.sampled_from(["text", "image"])}, optional={"text": TEXTS})
CONTENTS = st.one_of(TEXTS, st.none(), st.lists(st.one_of(PARTS, TEXTS), max_size=3))
TURNS = st.one_of(
    st.fixed_dictionaries({"role": st.just("assistant"), "content": CONTENTS}, optional={"n": st.integers()}),
    st.fixed_dictionaries({"from": st.just("gpt"), "value": CONTENTS}),
)


@given(turns=st.lists(TURNS, min_size=1, max_size=3), text=TEXTS, spaces=st.booleans(), data=st.data())
def test_json_and_python_agree(turns: list[Any], text: str, spaces: bool, data: st.DataObject) -> None:
    able = turns_by(turns, "assistant")
    if not able:
        return
    place, before = data.draw(st.sampled_from(able)), copy.deepcopy(turns)
    changed = with_addition(turns, place, text)
    line = json.dumps({"id": 1, "messages": turns}, indent=1 if spaces else None)
    assert json.loads(json_with_addition(line, "messages", place, text)) == {"id": 1, "messages": changed}
    assert turns == before
    assert len(turns_of(changed)) == len(turns_of(before))


@pytest.mark.parametrize(
    ("content", "after"),
    [
        ("a", "a\nnew"),
        ("", "new"),
        ([{"type": "text", "text": "a"}, {"type": "image", "image": "b"}], None),
        (["a"], ["a\nnew"]),
    ],
)
def test_the_last_text_of_a_turn_is_added_to(content: Any, after: Any) -> None:
    if after is None:
        after = [{"type": "text", "text": "a\nnew"}, {"type": "image", "image": "b"}]
    assert with_addition([{"role": "user", "content": content}], 0, "new") == [{"role": "user", "content": after}]
