"""Where things stand in a YAML text, so that parts of it can be exchanged and all others keep their bytes."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import yaml

LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True)
class Node:
    """A part of the text from ``start`` to ``end``, which is where its last character stands, comments aside.

    ``flow`` tells ``{…}`` and ``[…]`` from what is written as lines; the children of a mapping are its keys and values
    by turns. ``line`` and ``column`` count from 0, ``dash`` is where an item's dash stands.
    """

    kind: Literal["mapping", "sequence", "scalar", "alias"]
    start: int
    end: int
    line: int
    column: int
    flow: bool = False
    value: str = ""
    children: tuple[Node, ...] = ()
    dash: int = -1

    def pairs(self) -> Iterator[tuple[Node, Node]]:
        """A mapping's keys and values."""
        return zip(self.children[::2], self.children[1::2], strict=True)


def read_yaml(text: str) -> tuple[Node | None, int]:
    """The one document in ``text`` (None if there is none), and where more lines may be added to it.

    Raises yaml.YAMLError.
    """
    dashes = [
        token.start_mark.index for token in yaml.scan(text, yaml.SafeLoader) if isinstance(token, yaml.BlockEntryToken)
    ]
    events = iter(list(yaml.parse(text, yaml.SafeLoader)))
    next(events)
    if isinstance(next(events), yaml.StreamEndEvent):
        return None, len(text)
    root = _node(next(events), events, dashes)
    return root, next(events).start_mark.index


def edited(text: str, edits: Sequence[tuple[int, int, str]]) -> str:
    """``text`` with the part from ``start`` to ``end`` of each edit exchanged; edits may not overlap."""
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def line_start(text: str, index: int) -> int:
    """Where the line begins that ``index`` is in."""
    return max(text.rfind(end, 0, index) for end in "\r\n") + 1


def next_line(text: str, index: int) -> int:
    """Where the line after that of ``index`` begins; ``index`` itself if a line begins there, as after a literal."""
    if index and text[index - 1] in "\r\n":
        return index
    end = LINE_END.search(text, index)
    return end.end() if end else len(text)


def _node(event: Any, events: Iterator[Any], dashes: Sequence[int]) -> Node:
    start, end = event.start_mark, event.end_mark.index
    kind: Literal["mapping", "sequence", "scalar", "alias"] = "scalar"
    flow, value, children, last = False, "", [], None
    if isinstance(event, yaml.CollectionStartEvent):
        kind, flow = "mapping" if isinstance(event, yaml.MappingStartEvent) else "sequence", bool(event.flow_style)
        while not isinstance(last := next(events), yaml.CollectionEndEvent):
            children.append(_node(last, events, dashes))
        end = last.end_mark.index if flow or not children else children[-1].end
    elif isinstance(event, yaml.AliasEvent):
        kind = "alias"
    else:
        value = event.value
    before = bisect_left(dashes, start.index)
    dash = dashes[before - 1] if before else -1
    return Node(kind, start.index, end, start.line, start.column, flow, value, tuple(children), dash)
