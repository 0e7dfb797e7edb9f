"""Rows of data as the conversations that trainers pass to a chat template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.inputs import parse_json
from leakage_tasks.data.base import Format
from leakage_tasks.data.chat import Role
from leakage_tasks.data.layout import Columns, Layout
from leakage_tasks.data.shapes import RowShape
from leakage_tasks.data.turns import KEYS, ROLES, keys_of

TOOLS = "tools"
"""Column of the tools that a template describes at the start of a conversation, as TRL reads it."""
ARGUMENTS = "chat_template_kwargs"
"""Column of further arguments of the template, as TRL reads it."""
NOT_OF_THE_TEMPLATE = frozenset(
    {
        "add_generation_prompt",
        "continue_final_message",
        "conversation",
        "max_length",
        "padding",
        "return_assistant_tokens_mask",
        "return_dict",
        "return_tensors",
        "sanitize_control_tokens",
        "tokenize",
        "tokenizer_kwargs",
        "truncation",
    }
)
"""Arguments of ``apply_chat_template`` that the trainer sets."""


class ChatRow(NamedTuple):
    """The turns of a row with ``role`` and ``content``, its tools, and its arguments of the template; ``origin`` names
    the row in messages."""

    turns: list[dict[str, Any]]
    tools: Any
    origin: str
    arguments: Mapping[str, Any] | None = None


def holds_conversations(layout: Layout) -> bool:
    """Return True if trainers put a chat template around the rows."""
    return layout.chat or (layout.shape is not None and layout.shape.rendered)


def chat_rows(
    reader: Format, path: Path, layout: Layout, wanted: Columns, name: str | None = None
) -> Iterator[ChatRow]:
    """Yield the conversation of each row.

    A row with several answers gives the conversation with the answer in the text column, by default the first one.
    Names of roles are changed only in ShareGPT turns. Fields without a value are left out.

    Args:
        reader: The format of the data.
        path: The data.
        layout: The layout from :meth:`.Format.survey`; its rows hold conversations.
        wanted: The columns that the user requested.
        name: The name of the data in messages; by default the path.

    Raises:
        PlantingError: A turn has no speaker or holds more than text, the tools are not JSON, or the arguments of the
            template are no object.
    """
    columns = _columns(layout)
    named = [*columns, *(name for name in (TOOLS, ARGUMENTS) if name in layout.columns)]
    for number, values in enumerate(reader.several(path, layout, wanted, named)):
        origin = f"{name or path}: row {number} (from 0)"
        row = dict(zip(named, values, strict=True))
        tools, arguments = _tools(row.pop(TOOLS, None), origin), _arguments(row.pop(ARGUMENTS, None), origin)
        yield ChatRow(_turns(row, layout.shape, origin), tools, origin, arguments)


def _columns(layout: Layout) -> Sequence[str]:
    if layout.shape is None:
        return (layout.text,)
    answers = layout.shape.answers
    chosen = layout.text if layout.text in answers else answers[0]
    return [name for name in layout.parts if name not in answers or name == chosen]


def _turns(row: Mapping[str, Any], shape: RowShape | None, origin: str) -> list[dict[str, Any]]:
    """Return the turns in the columns of a row. Texts of one role in neighbouring columns are one turn."""
    turns: list[dict[str, Any]] = []
    is_text = False
    for name, value in row.items():
        if isinstance(value, list):
            spoken = [_turn(turn, f"{origin}: turn {number}") for number, turn in enumerate(value, 1)]
            is_answer = shape is not None and name in shape.answers
            turns = spoken if is_answer and _repeats(spoken, turns) else turns + spoken
            is_text = False
        elif value and shape is not None:
            role = _role(shape, name)
            if is_text and turns[-1]["role"] == role:
                turns[-1]["content"] += f"\n{value}"
            else:
                turns.append({"role": role, "content": value})
            is_text = True
    return turns


def _repeats(answer: list[dict[str, Any]], prompt: list[dict[str, Any]]) -> bool:
    """Return True if an answer begins with the turns of its prompt, perhaps after a turn of the system."""
    first = int(bool(answer) and answer[0]["role"] == "system" and answer[:1] != prompt[:1])
    return answer[first : first + len(prompt)] == prompt


def _role(shape: RowShape, column: str) -> Role:
    if column in shape.answers:
        return "assistant"
    return "user" if column == shape.prompt_column else shape.extra[column]


def _turn(turn: Mapping[str, Any] | None, origin: str) -> dict[str, Any]:
    turn = turn or {}
    speaker, content = keys_of(turn) or KEYS[0]
    role = turn.get(speaker)
    if not isinstance(role, str):
        raise PlantingError(f"{origin}: has no {speaker!r}: name its speaker")
    others = {name: value for name, value in turn.items() if name not in (speaker, content) and value is not None}
    text = _text(turn.get(content), origin)
    said = {} if text is None else {"content": text}
    return {"role": role if speaker == KEYS[0][0] else ROLES.get(role, role), **said, **others}


def _text(content: Any, origin: str) -> str | None:
    """Return the text of a content, which can be a list of parts."""
    if content is None or isinstance(content, str):
        return content
    texts: list[Any] = [part.get("text") if isinstance(part, dict) else part for part in content]
    if not all(isinstance(text, str) for text in texts):
        raise PlantingError(
            f"{origin}: holds more than text, such as an image: leave the row out, or leave --apply_chat_template out"
        )
    return "".join(texts)


def _tools(value: Any, origin: str) -> Any:
    try:
        return parse_json(value) if isinstance(value, str) and value else value or None
    except ValueError:
        raise PlantingError(f"{origin}: its {TOOLS!r} are not JSON: fix the row") from None


def _arguments(value: Any, origin: str) -> Mapping[str, Any] | None:
    try:
        arguments = parse_json(value) if isinstance(value, str) and value else value
    except ValueError:
        arguments = value
    if arguments not in (None, "") and not isinstance(arguments, dict):
        raise PlantingError(f"{origin}: its {ARGUMENTS!r} are no object of names and values: fix the row")
    # Arrow gives each row all names of a struct column, with null for names that the row lacks.
    if wrong := sorted(name for name in NOT_OF_THE_TEMPLATE & set(arguments or ()) if arguments[name] is not None):
        raise PlantingError(
            f"{origin}: its {ARGUMENTS!r} set {', '.join(wrong)}, which the trainer decides, not the template: remove "
            "them from the row"
        )
    return arguments or None
