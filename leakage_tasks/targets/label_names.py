"""Class names of a classifier, read from a file, and a search for the class that a task's continuation names."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.inputs import json_fault, parse_json, read_text

Labels = str | Path | Sequence[str] | Mapping[str, Any]
"""Names of the classes: a JSON file, its parsed content, or names separated by colons."""

SHOWN = 8
"""Maximum number of names in a message."""
DELIMITERS = ":;,-–—=>→|"
"""Characters that may separate a text from its label, apart from white space."""


def abbreviate(names: Sequence[str]) -> str:
    """Return the first of ``names`` as text for a message."""
    return ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")


def config_names(config: Any) -> list[str]:
    """Return the names of the classes in a model's config, in order."""
    return [str(config.id2label[index]) for index in range(config.num_labels)]


class LabelNames:
    """An index that finds the class named by a continuation such as ``" positive"`` or ``": Positive"``.

    White space around the continuation and delimiters before it are ignored. A continuation may be the exact name of a
    class, its name in other upper or lower case if only one class matches, or the index of a class if no name is a
    number.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        exact = {name: index for spelt in (labels, _bare(labels)) for name, index in _single(spelt).items()}
        folded = _single([label.casefold() for label in _bare(labels)])
        numbered = not any(label.isdecimal() for label in _bare(labels))
        numbers = {str(index): index for index in range(len(labels))} if numbered else {}
        self._tables = (exact, folded, numbers)

    def find(self, continuation: str) -> int | None:
        """Return the index of the class, or None if the continuation names no class."""
        spellings = list(_spellings(continuation))
        folded = [spelling.casefold() for spelling in spellings]
        for table, wanted in zip(self._tables, (spellings, folded, spellings), strict=True):
            for spelling in wanted:
                if spelling in table:
                    return table[spelling]
        return None


def bare_name(continuation: str) -> str:
    """Return a continuation without white space around it and without delimiters before it."""
    return list(_spellings(continuation))[-1]


def _spellings(continuation: str) -> Iterator[str]:
    """Yield the continuation, then its stripped form, then forms with one leading delimiter less each time."""
    yield continuation
    rest = continuation.strip()
    yield rest
    while rest and rest[0] in DELIMITERS:
        rest = rest[1:].strip()
        yield rest


def _bare(labels: Sequence[str]) -> list[str]:
    return [label.strip() for label in labels]


def _single(names: Sequence[str]) -> dict[str, int]:
    """Return the indices of the names that occur once."""
    seen = Counter(names)
    return {name: index for index, name in enumerate(names) if seen[name] == 1}


def read_labels(labels: Labels, number: int) -> list[str]:
    """Return the names of a model's ``number`` classes in order.

    A text is the name of a JSON file or, if there is no such file, names separated by colons. The content of the file
    is a list of names, an object from class index to name, or an object from name to class index. Raises OptionError.
    """
    where = f"labels={labels}" if isinstance(labels, str | Path) else "labels"
    content = _content(labels) if isinstance(labels, str | Path) else labels
    names = _in_order(content, where) if isinstance(content, Mapping) else content
    if not isinstance(names, Sequence) or isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise OptionError(
            f"{where}: holds no label names: expected a JSON list of names, or an object of numbers and names"
        )
    if len(names) != number:
        raise OptionError(f"{where}: names {len(names)} labels, the model has {number} classes: name each of them")
    bare = [name.strip() for name in names]
    twice = next((name for name in bare if not name or bare.count(name) > 1), None)
    if twice is not None:
        raise OptionError(f"{where}: the name {twice!r} is empty or repeated: give each class a different name")
    return list(names)


def _content(labels: str | Path) -> Any:
    # Path.exists raises an error for a text that is too long for a file name.
    if ":" in str(labels) and not os.path.exists(labels):
        return str(labels).split(":")
    return _json(Path(labels))


def _json(path: Path) -> Any:
    try:
        return parse_json(read_text(path))
    except OSError as error:
        raise OptionError(f"labels={path}: cannot be read ({error.strerror}): check the path") from None
    except ValueError as error:
        raise OptionError(
            f"labels={path}: not JSON in UTF-8 ({_fault(error)}): write the names in the order of the classes as a "
            'JSON list, such as ["good", "bad"]'
        ) from None


def _fault(error: ValueError) -> str:
    """Return the reason why a file is not JSON in UTF-8, without its content."""
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8"
    if not isinstance(error, JSONDecodeError):
        return str(error)
    fault = json_fault(error)
    return f"{fault.reason} at line {fault.line}, column {fault.column}"


def _in_order(content: Mapping[str, Any], where: str) -> list[Any]:
    """Return the names in order. If all values of the object are numbers, it maps names to indices, else indices to
    names."""
    to_number = all(isinstance(value, int) and not isinstance(value, bool) for value in content.values())
    pairs = content.items() if to_number else ((name, number) for number, name in content.items())
    try:
        by_number = {int(number): name for name, number in pairs}
    except ValueError:
        raise OptionError(f"{where}: expected class numbers on one side and names on the other of each pair") from None
    if sorted(by_number) != list(range(len(content))):
        raise OptionError(f"{where}: the class numbers are not 0 to {len(content) - 1}, each once: renumber them")
    return [by_number[number] for number in range(len(by_number))]
