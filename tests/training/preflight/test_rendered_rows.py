"""Rows that an audit renders have the tokens that TRL's trainers make of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakage_tasks.canaries.chat import Chat
from leakage_tasks.data import Columns
from leakage_tasks.pairs.texts import tokens_of
from leakage_tasks.targets.harness.chat import rendering_of
from tests.chats import chat_model
from tests.targets.text_models import hf
from tests.training.preflight.test_shapes import CHAT_PREFERENCES, CHATS, WHOLE_CHATS, Rows, answer, dpo, user
from tests.training.preflight.test_turns import STYLES, tokenizer_of, trainer_of

MESSAGES: Rows = [
    {"messages": user(f"the pin {n}") + answer(f"is {n}") + user("again") + answer("no")} for n in range(4)
]
FUNCTION = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {}}}


def call(number: int) -> dict[str, Any]:
    function = {"name": "f", "arguments": {"a": number}}
    return {"role": "assistant", "tool_calls": [{"type": "function", "function": function}]}


CALLS: Rows = [
    {
        "messages": [*user(f"the pin {n}"), call(n), {"role": "tool", "name": "f", "content": str(n)}, *answer("no")],
        "tools": [FUNCTION],
    }
    for n in range(4)
]


def tokens_read(folder: Path, rows: Rows, tokenizer: Any, style: str, column: str = "text") -> list[list[int]]:
    """The tokens of each row in an audit."""
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    rendering = rendering_of(hf(tokenizer, chat_model(style)), Chat())
    return [np.concatenate(list(row)).tolist() for row in tokens_of(path, Columns(column), tokenizer, "", rendering)]


@pytest.mark.parametrize("name", STYLES)
@pytest.mark.parametrize("rows", [MESSAGES, CHATS])
def test_rows_have_the_tokens_of_a_supervised_trainer(tmp_path: Path, name: str, rows: Rows) -> None:
    trainer = trainer_of(tmp_path, STYLES[name], tokenizer_of(name), rows)
    assert tokens_read(tmp_path, rows, tokenizer_of(name), STYLES[name]) == list(trainer.train_dataset["input_ids"])


def test_calls_and_tools_have_the_tokens_of_a_supervised_trainer(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path, "chatml", tokenizer_of("qwen3"), CALLS)
    read = tokens_read(tmp_path, CALLS, tokenizer_of("qwen3"), "chatml")
    assert read == list(trainer.train_dataset["input_ids"])
    assert '"name": "f"' in tokenizer_of("qwen3").decode(read[0])


@pytest.mark.parametrize("column", ["chosen", "rejected"])
@pytest.mark.parametrize("rows", [CHAT_PREFERENCES, WHOLE_CHATS])
def test_rows_have_the_tokens_of_a_trainer_of_preferences(tmp_path: Path, rows: Rows, column: str) -> None:
    trainer: Any = dpo(tmp_path, rows)
    batch = next(iter(trainer.get_train_dataloader()))
    mask, tokens = batch["attention_mask"].bool(), batch["input_ids"]
    trained = [row[kept].tolist() for row, kept in zip(tokens, mask, strict=True)]
    half = len(trained) // 2
    assert half
    read = tokens_read(tmp_path, rows, trainer.processing_class, "chatml", column)
    assert all(row in read for row in (trained[:half] if column == "chosen" else trained[half:]))
