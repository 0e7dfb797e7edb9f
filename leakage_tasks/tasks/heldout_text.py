"""Local text for the task ``heldout_bits_per_byte``: usefulness beside leakage, without a download."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.inputs import read_text
from leakage_tasks.core.jsonl import LineError, read_json_lines

TASK = "heldout_bits_per_byte"
CHARACTERS = 2000


def documents(text: str | None = None, **metadata: Any) -> dict[str, Any]:
    """The file ``text`` as documents: a UTF-8 text cut at line ends every 2,000 characters or so, or the
    ``text`` fields of a JSONL file.

    The other options of ``--metadata`` are accepted and left alone. Raises OptionError.
    """
    from datasets import Dataset

    own = metadata.get(TASK, {})
    if not isinstance(own, dict) or set(own) - {"text"}:
        raise OptionError(
            f"--metadata {TASK}={own!r}: its one option is text, a file: write {{'text': 'FILE'}} as JSON"
        )
    text = own.get("text", text)
    if text is None:
        raise OptionError(f"{TASK} needs a text: pass --metadata text=FILE (.txt, or .jsonl with a 'text' field)")
    path = Path(str(text))
    try:
        # Line ends only: a JSON string may hold other characters that Python splits lines at.
        lines = re.split(r"(?<=\n)", read_text(path, "utf-8-sig"))
    except UnicodeDecodeError as error:
        raise OptionError(f"{path}: not UTF-8 at byte {error.start}: save the text as UTF-8") from None
    except OSError as error:
        raise OptionError(f"{path}: cannot be read ({error.strerror}): check --metadata text=…") from None
    cut = list(_fields(path, lines) if path.suffix == ".jsonl" else _cut(lines))
    if not cut:
        raise OptionError(f"{path}: holds no text: check --metadata text=…")
    return {"test": Dataset.from_dict({"text": cut})}


def _cut(lines: list[str]) -> Iterator[str]:
    held = ""
    for line in lines:
        held += line
        if len(held) >= CHARACTERS:
            yield held
            held = ""
    if held.strip():
        yield held


def _fields(path: Path, lines: list[str]) -> Iterator[str]:
    last = 0
    try:
        for number, value in read_json_lines(lines):
            last = number
            if field := value["text"]:
                yield str(field)
    except (LineError, KeyError, TypeError) as error:
        where = error.number if isinstance(error, LineError) else last
        raise OptionError(f"{path}:{where}: expected a JSON object with a field 'text'") from None
