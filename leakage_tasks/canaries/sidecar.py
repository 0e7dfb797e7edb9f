"""The record that stands beside a planted dataset: what went into it, and the hashes to check it by."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path, PurePosixPath
from types import NoneType
from typing import Any, Literal, get_args

from leakage_tasks.canaries.context import Context
from leakage_tasks.core.errors import OptionError, PlantingError
from leakage_tasks.core.inputs import check_file, parse_json, read_bytes
from leakage_tasks.core.version import __version__
from leakage_tasks.data.chat import Role, Turn

SCHEMA = 1
MOST, LONGEST_NAME = 1 << 53, 255
"""What numbers of copies and characters, and the bytes of a file's name, may come to."""
Part = Literal["training", "validation"]
"""Which of two files planted from one manifest a file is."""
VALIDATION_TAKES = 10
"""One repetition in so many."""
Before = Literal["line break", "start of a row", "chat turn", "text of a chat turn", "prompt", "template of a row"]
"""What a training text usually has before a copy."""
TRAINED_AFTER: dict[Before, str] = {
    "line break": r"after a line break (context=\n)",
    "start of a row": "at the start of a row: after BOS where the training adds one (context=bos), after a separator "
    "where it joins rows by one, else after nothing (context=none)",
    "chat turn": "in a turn of a chat (--apply_chat_template)",
    "text of a chat turn": "at the end of a turn of a chat, after the turn's own text and a line break, where an audit "
    r"has nothing (--apply_chat_template), or a line break alone (and context=\n)",
    "prompt": "after the prompt of its row ({context})",
    "template of a row": "in a row that the trainer renders: in a turn of a chat if it uses the model's chat template "
    "(--apply_chat_template), else after the text that its own template puts before the turn (context=…)",
}
"""Where the training meets a copy, and the ``context=`` that asks about it there, by :attr:`Sidecar.before`."""
_TYPES: dict[str, Any] = (
    {"copies": dict, "characters": (int, NoneType), "heights": (dict, NoneType), "shards": (dict, NoneType)}
    | dict.fromkeys(("label_column", "split", "source_column", "part"), (str, NoneType))
    | dict.fromkeys(("before", "role", "turn", "prompt"), (str, NoneType))
    | {"unpacked_sha256": (str, NoneType)}
    | dict.fromkeys(("seed", "input_rows", "output_rows", "schema"), int)
)
"""Types of the fields that are not text."""


@dataclass(frozen=True)
class Sidecar:
    """What was planted into which data, with hashes of the bytes of a file, or of all files of a folder."""

    seed: int
    """What the places of the copies followed from."""
    format: str
    """Of the data."""
    input: str
    """The name of what was copied."""
    input_sha256: str
    """Its hash."""
    input_rows: int
    """Its rows."""
    manifest: str
    """The name of the manifest."""
    manifest_sha256: str
    """:func:`~leakage_tasks.canaries.manifest.manifest_hash`."""
    output: str
    """The name of the copy."""
    output_sha256: str
    """Its hash."""
    output_rows: int
    """Its rows."""
    text_column: str
    """Where the canaries' texts are."""
    label_column: str | None
    """Where their classes are."""
    split: str | None
    """None but for folders of splits."""
    copies: dict[str, int]
    """How often each canary was inserted, by id."""
    source_column: str | None = None
    """Where their source sentences are."""
    part: Part | None = None
    """None for a file that has every repetition; see :func:`repetitions_in`."""
    before: Before | None = None
    """What a training text usually has before a copy; None in records of before it was written down."""
    characters: int | None = None
    """Those of all texts, the canaries among them; None as above."""
    role: Role | None = None
    """Whose turn a copy is in a chat; None for other data, and in records of before it was written down."""
    unpacked_sha256: str | None = None
    """Of packed input, the hash of what it held."""
    heights: dict[str, int] | None = None
    """How many rows a copy takes, by id, where it is not one."""
    shards: dict[str, dict[str, Any]] | None = None
    """Of data in several files, by name: ``rows``, ``input_sha256``, ``output_sha256`` and ``unpacked_sha256`` each."""
    turn: Turn | None = None
    """Where in chats the copies are; None for other data, and in records of before it was written down."""
    prompt: str | None = None
    """The text that the training reads before a copy in its own row; None where there is none, and in older records."""
    schema: int = SCHEMA
    """Of the record."""
    version: str = __version__
    """Of the package that wrote it."""

    @property
    def trained_after(self) -> str | None:
        """Where the training meets a copy, for people; None in records that do not say it."""
        if self.before is None:
            return None
        return TRAINED_AFTER[self.before].replace("{context}", f"context={Context(before=self.prompt or '')}")


def repetitions_in(part: Part | None, repetitions: int) -> int:
    """How many of a canary's repetitions a part has: a tenth in validation, rounded down, the others in training.

    The ratio of 9 : 1 is that of Parikh et al., "Canary extraction in natural language understanding models" (2022),
    appendix A. A canary of fewer than ten repetitions is in training alone.
    """
    held = repetitions // VALIDATION_TAKES
    return {None: repetitions, "training": repetitions - held, "validation": held}[part]


def sidecar_path(planted: Path) -> Path:
    """Where the record of a planted file or folder stands."""
    planted = named(planted)
    return planted.with_name(f"{planted.name}.leakage.json")


def named(path: Path) -> Path:
    """``path`` such that its last part is a name, which that of ``.`` and ``..`` is not."""
    return path if path.name.strip(".") else path.resolve()


def write_sidecar(sidecar: Sidecar, path: Path) -> None:
    """Write the record as JSON."""
    path.write_text(json.dumps(asdict(sidecar), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_sidecar(path: Path) -> Sidecar | None:
    """The record at ``path``, None if there is none. Raises PlantingError if it is damaged."""
    try:
        data: Any = parse_json(read_bytes(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise PlantingError(f"{path}: cannot be read as JSON: plant anew, or remove it to go without") from None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise PlantingError(f"{path}: not a record of schema {SCHEMA}: plant anew, or remove it to go without")
    data = {field.name: None for field in fields(Sidecar) if field.default is None} | data
    names = [field.name for field in fields(Sidecar)]
    wrong = sorted(set(names) ^ data.keys())
    wrong = wrong or [name for name in names if not isinstance(data[name], _TYPES.get(name, str))]
    wrong = wrong or [name for name, fits in _FITS.items() if not fits(data[name])]
    if wrong:
        raise PlantingError(f"{path}: a damaged record (field {wrong[0]!r}): plant anew, or remove it to go without")
    return Sidecar(**data)


def _is_name(text: str) -> bool:
    """Whether a text names a file beside another, and nothing elsewhere."""
    try:
        length = len(os.fsencode(text))
    except UnicodeEncodeError:
        return False
    return text.strip(".") != "" and "\0" not in text and "/" not in text and length <= LONGEST_NAME


def _are_numbers(values: dict[str, Any]) -> bool:
    return all(type(times) is int and 0 <= times <= MOST for times in values.values())


def _is_shard(name: str, known: Any) -> bool:
    """Whether that says what :class:`Sidecar` tells of a shard, and its name leads nowhere else."""
    if not isinstance(known, dict) or not all(_is_name(part) for part in name.split("/")):
        return False
    hashes = (known.get("input_sha256"), known.get("output_sha256"))
    return (
        known.keys() == {"rows", "input_sha256", "output_sha256", "unpacked_sha256"}
        and _are_numbers({"rows": known["rows"]})
        and all(isinstance(each, str) for each in hashes)
        and isinstance(known["unpacked_sha256"], str | NoneType)
    )


_FITS: dict[str, Callable[[Any], bool]] = {
    "copies": _are_numbers,
    "heights": lambda heights: _are_numbers(heights or {}),
    "shards": lambda shards: all(_is_shard(name, known) for name, known in (shards or {}).items()),
    "input_rows": lambda rows: 0 <= rows <= MOST,
    "characters": lambda number: 0 <= (number or 0) <= MOST,
    "output": _is_name,
    "part": (None, *get_args(Part)).__contains__,
    "before": (None, *get_args(Before)).__contains__,
    "role": (None, *get_args(Role)).__contains__,
    "turn": (None, *get_args(Turn)).__contains__,
}
"""Checks of fields whose type is right."""


def records_of(manifest: Path, manifest_sha256: str) -> list[tuple[str, Sidecar]]:
    """The records of this manifest in its own folder, with their names; one that is damaged is none of them."""
    found = []
    for path in sorted(manifest.parent.glob("*.leakage.json")):
        try:
            record = read_sidecar(path)
        except PlantingError:
            continue
        if record is not None and record.manifest_sha256 == manifest_sha256:
            found.append((path.name, record))
    return found


def planted_role(manifest: Path, manifest_sha256: str, *, remedy: str = "choose with --metadata role=…") -> Role | None:
    """Return whose turn of a chat the canaries are by the records beside their manifest; None if no record says so.

    Raises OptionError, which ends with ``remedy``, if they were planted as turns of several roles.
    """
    roles = {record.role: name for name, record in records_of(manifest, manifest_sha256) if record.role is not None}
    if len(roles) > 1:
        told = " and ".join(f"the {role}'s ({name})" for role, name in sorted(roles.items()))
        raise OptionError(f"{manifest}: planted as turns of several, {told}: {remedy}")
    return next(iter(roles), None)


def planted_prompt(manifest: Path, manifest_sha256: str, *, in_chats: bool) -> str | None:
    """Return the prompt before the canaries by the records beside their manifest; None where none says so.

    Args:
        manifest: The path of the manifest.
        manifest_sha256: The hash of its canaries.
        in_chats: True for the user's turn before canaries in chats, False for a text that stands before them.

    Raises:
        OptionError: If they were planted after several prompts.
    """
    records = [(name, each) for name, each in records_of(manifest, manifest_sha256) if each.prompt is not None]
    prompts = {record.prompt: name for name, record in records if (record.role is not None) == in_chats}
    if len(prompts) > 1:
        files = " and ".join(sorted(prompts.values()))
        raise OptionError(f"{manifest}: planted after several prompts ({files}): move the records of others away")
    return next(iter(prompts), None)


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes, or of the names and bytes of all files of a saved folder but its caches."""
    if not path.is_dir():
        return _sha256_of_file(path)
    files = (file for file in path.rglob("*") if file.is_file() and not file.name.startswith("cache-"))
    return sha256_of_all({file.relative_to(path).as_posix(): _sha256_of_file(file) for file in files})


def sha256_of_all(hashes: Mapping[str, str]) -> str:
    """The hash of a folder from those of its files, by their names in it."""
    lines = (f"{hashes[name]}  {name}\n" for name in sorted(hashes, key=PurePosixPath))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _sha256_of_file(path: Path) -> str:
    try:
        check_file(path)
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise PlantingError(f"{path}: cannot be read ({error.strerror}): check the path") from None
