"""Local text for the task ``heldout_bits_per_byte``, which measures a model's usefulness without a download."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.core.inputs import read_text
from leakage_tasks.core.jsonl import LineError, read_json_lines
from leakage_tasks.core.option import Option, by_name
from leakage_tasks.core.task_names import HELDOUT as TASK
from leakage_tasks.harness.given import full_metadata
from leakage_tasks.tasks.options import TASKS, typed_options

CHARACTERS = 2000
_TEXT = Option("text", str, None, "the text to be scored: .txt, or .jsonl with a field 'text'", required=True)
HELDOUT_OPTIONS = by_name([_TEXT])


def documents(text: str | None = None, **metadata: Any) -> dict[str, Any]:
    """Return documents from the file ``text``.

    A UTF-8 text is cut at line ends about every 2,000 characters; from a JSONL file, the ``text`` fields are taken. The
    other options of ``--metadata`` are ignored. Without ``text``, the default of the environment is used. Raises
    OptionError for a missing or unreadable file.
    """
    from datasets import Dataset

    given = full_metadata({**metadata, **({} if text is None else {"text": text})})
    _, values = typed_options(given, TASK, HELDOUT_OPTIONS)
    if "text" not in values:
        raise OptionError(f"{TASK} needs a text: pass --metadata text=FILE (.txt, or .jsonl with a 'text' field)")
    path = Path(values["text"])
    try:
        # Line ends only: a JSON string may hold other characters at which Python splits lines.
        lines = re.split(r"(?<=\n)", read_text(path, "utf-8-sig"))
    except UnicodeDecodeError as error:
        raise OptionError(f"{path}: not UTF-8 at byte {error.start}: save the text as UTF-8") from None
    except OSError as error:
        raise OptionError(f"{path}: cannot be read ({error.strerror}): check --metadata text=…") from None
    cut = list(_fields(path, lines) if path.suffix == ".jsonl" else _cut(lines))
    if not cut:
        raise OptionError(f"{path}: holds no text: check --metadata text=…")
    return {"test": Dataset.from_dict({"text": cut})}


TASKS.register(TASK, HELDOUT_OPTIONS, documents)


def bits_of(doc: dict[str, str], results: list[Any]) -> dict[str, tuple[float, int]]:
    """Return the log-likelihood of a text in nats and its number of bytes, of which the harness makes bits per byte.

    Raises TargetError for a log-likelihood of 0: the tokenizer reads no token of the text.
    """
    (answer,) = results
    nats = float(answer[0] if isinstance(answer, tuple | list) else answer)
    if nats == 0:
        raise TargetError(
            f"{TASK}: a text of {len(doc['text']):,} characters has the log-likelihood 0, as if it had no token: save "
            "the tokenizer of the training in the model's folder, or name it with tokenizer=NAME in --model_args"
        )
    return {"bits_per_byte": (nats, len(doc["text"].encode("utf-8")))}


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
