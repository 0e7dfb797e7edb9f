"""The planting record next to planted data: the planted canaries, and hashes to verify them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from leakage_tasks.canaries.context import Context
from leakage_tasks.core.errors import OptionError, PlantingError
from leakage_tasks.core.inputs import check_file, parse_json, read_bytes
from leakage_tasks.core.records import Between, Fits, WrongField, read_record
from leakage_tasks.core.version import __version__
from leakage_tasks.data.chat import Role, Turn
from leakage_tasks.data.shards import WHOLE

SCHEMA = 1
LONGEST_NAME = 255
"""Limit on the bytes of a file name."""
Part = Literal["training", "validation"]
"""The part of the data that a planted file holds, if training and validation data were planted together."""
VALIDATION_TAKES = 10
"""One in this number of repetitions goes into the validation part."""
Before = Literal["line break", "start of a row", "chat turn", "text of a chat turn", "prompt", "template of a row"]
"""The kind of text before a copy in training."""
TRAINED_AFTER: dict[Before, str] = {
    "line break": r"after a line break (context=\n)",
    "start of a row": "at the start of a row: after BOS if the training adds it (context=bos), after a separator "
    "if it joins rows with a separator, else without any text before it (context=none)",
    "chat turn": "in a turn of a new chat (--apply_chat_template, without --system_instruction unless the trainer adds "
    "that message)",
    "text of a chat turn": "at the end of a turn of a chat, after the turn's own text and a line break; an audit does "
    r"not know that text (--apply_chat_template; context=\n adds the line break)",
    "prompt": "after the prompt of its row ({context})",
    "template of a row": "in a row that the trainer renders: in a turn of a chat if it uses the model's chat template "
    "(--apply_chat_template), else after the text that the trainer's template puts before the turn (context=…)",
}
"""For each value of :attr:`Sidecar.before`: the position of a copy in training, and the ``context=`` for an audit at
this position."""
Number = Annotated[int, Between(0, 1 << 53)]
"""A number of copies, rows or characters."""


def _is_name(text: str) -> bool:
    """Return True if a text is a file name without a path."""
    try:
        length = len(os.fsencode(text))
    except UnicodeEncodeError:
        return False
    return text.strip(".") != "" and "\0" not in text and "/" not in text and length <= LONGEST_NAME


def _stay_inside(shards: Mapping[str, Any]) -> bool:
    return all(_is_name(part) for name in shards for part in name.split("/"))


FileName = Annotated[str, Fits("the name of a file", _is_name)]


@dataclass(frozen=True)
class Shard:
    """The record of one of several files."""

    rows: Number
    """The number of rows before planting."""
    input_sha256: str
    output_sha256: str
    unpacked_sha256: str | None


@dataclass(frozen=True)
class Sidecar:
    """A planting record, with hashes of a file's bytes or of all files of a folder."""

    seed: int
    """The seed with which the copies' positions were drawn."""
    format: str
    """The format of the data."""
    input: str
    """The name of the data before planting."""
    input_sha256: str
    """The hash of the data before planting."""
    input_rows: Number
    """The number of rows before planting."""
    manifest: str
    """The name of the manifest."""
    manifest_sha256: str
    """The hash of the manifest's canaries (:func:`~leakage_tasks.canaries.manifest.manifest_hash`)."""
    output: FileName
    """The name of the planted data."""
    output_sha256: str
    """The hash of the planted data."""
    output_rows: int
    """The number of rows of the planted data."""
    text_column: str
    """The column with the canaries' texts."""
    label_column: str | None
    """The column with the canaries' classes."""
    split: str | None
    """The split with the canaries; None if the data have no splits."""
    copies: dict[str, Number]
    """The number of copies of each canary by id."""
    source_column: str | None = None
    """The column with the canaries' source sentences."""
    part: Part | None = None
    """The part of the repetitions in this file, None if it has all; see :func:`repetitions_in`."""
    before: Before | None = None
    """The kind of text before a copy in training; None for utterances of a tagger and in older records."""
    characters: Number | None = None
    """The number of characters of all texts including canaries; None in older records."""
    role: Role | None = None
    """The role whose turn a copy is in a chat; None for other data and in older records."""
    unpacked_sha256: str | None = None
    """The hash of the decompressed input; None if the input is not compressed."""
    heights: dict[str, Number] | None = None
    """The number of rows of a canary's copy by id, if it is not 1."""
    shards: Annotated[dict[str, Shard], Fits("names of files in a folder", _stay_inside)] | None = None
    """For data in several files: the record of each file by name."""
    turn: Turn | None = None
    """The position of the copies in chats; None for other data and in older records."""
    prompt: str | None = None
    """The text that training reads before a copy in its row; None without such a text and in older records."""
    schema: int = SCHEMA
    """The version of the record's format."""
    version: str = __version__
    """The version of the package that wrote the record."""

    @property
    def trained_after(self) -> str | None:
        """A description of the text before a copy in training; None for records without it."""
        if self.before is None:
            return None
        return TRAINED_AFTER[self.before].replace("{context}", f"context={Context(before=self.prompt or '')}")

    def by_shard(self) -> dict[str, Sidecar]:
        """Return a record of each shard alone, by name; for a single file, this record by the name ``WHOLE``."""
        if self.shards is None:
            return {WHOLE: self}
        hashes = ("input_sha256", "output_sha256", "unpacked_sha256")
        return {
            name: replace(self, input_rows=shard.rows, shards=None, **{part: getattr(shard, part) for part in hashes})
            for name, shard in self.shards.items()
        }


def repetitions_in(part: Part | None, repetitions: int) -> int:
    """Return a canary's number of repetitions in a part: a tenth (rounded down) in validation, the rest in training.

    The ratio of 9 : 1 is from Parikh et al., "Canary extraction in natural language understanding models" (2022),
    appendix A. A canary with fewer than ten repetitions is in training only.
    """
    held = repetitions // VALIDATION_TAKES
    return {None: repetitions, "training": repetitions - held, "validation": held}[part]


def sidecar_path(planted: Path) -> Path:
    """Return the path of the record of a planted file or folder."""
    planted = named(planted)
    return planted.with_name(f"{planted.name}.leakage.json")


def named(path: Path) -> Path:
    """Return ``path`` in a form whose last part is a name, so that ``.`` and ``..`` are replaced."""
    return path if path.name.strip(".") else path.resolve()


def write_sidecar(sidecar: Sidecar, path: Path) -> None:
    """Write the record as JSON."""
    path.write_text(json.dumps(asdict(sidecar), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_sidecar(path: Path) -> Sidecar | None:
    """Return the record at ``path``, or None if the file does not exist. Raises PlantingError if it is damaged."""
    try:
        data: Any = parse_json(read_bytes(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise PlantingError(
            f"{path}: cannot be read as JSON: plant again, or remove the record to continue without it"
        ) from None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise PlantingError(
            f"{path}: not a record of schema {SCHEMA}: plant again, or remove the record to continue without it"
        )
    try:
        return read_record(Sidecar, data)
    except WrongField as error:
        field = error.name.partition(".")[0]
        raise PlantingError(
            f"{path}: a damaged record (field {field!r}): plant again, or remove the record to continue without it"
        ) from None


def records_of(manifest: Path, manifest_sha256: str, planted: Path | None = None) -> list[tuple[str, Sidecar]]:
    """Return the valid records of this manifest, with their file names: the record of the ``planted`` data if there is
    one, or else those in the manifest's folder."""
    of_data = [] if planted is None else _valid_records([sidecar_path(planted)], manifest_sha256)
    return of_data or _valid_records(sorted(manifest.parent.glob("*.leakage.json")), manifest_sha256)


def _valid_records(paths: Iterable[Path], manifest_sha256: str) -> list[tuple[str, Sidecar]]:
    records = []
    for path in paths:
        try:
            record = read_sidecar(path)
        except PlantingError:
            continue
        if record is not None and record.manifest_sha256 == manifest_sha256:
            records.append((path.name, record))
    return records


def planted_role(
    manifest: Path,
    manifest_sha256: str,
    planted: Path | None = None,
    *,
    remedy: str = "choose with --metadata role=…",
) -> Role | None:
    """Return the chat role of the canaries according to their planting records (:func:`records_of`).

    Return None if no record has a role. Raises OptionError, whose message ends with ``remedy``, if the canaries were
    planted in turns of several roles.
    """
    records = records_of(manifest, manifest_sha256, planted)
    roles = {record.role: name for name, record in records if record.role is not None}
    if len(roles) > 1:
        owners = " and ".join(f"the {role}'s ({name})" for role, name in sorted(roles.items()))
        raise OptionError(f"{manifest}: planted as turns of several roles, {owners}: {remedy}")
    return next(iter(roles), None)


def planted_prompt(manifest: Path, manifest_sha256: str, planted: Path | None = None, *, in_chats: bool) -> str | None:
    """Return the prompt before the canaries according to their planting records; None if no record has one.

    Args:
        manifest: The path of the manifest.
        manifest_sha256: The hash of its canaries.
        planted: The planted data, if named; their record takes precedence over those next to the manifest.
        in_chats: True for the user's turn before canaries in chats, False for the text before other canaries.

    Raises:
        OptionError: If they were planted after several prompts.
    """
    records = [item for item in records_of(manifest, manifest_sha256, planted) if item[1].prompt is not None]
    prompts = {record.prompt: name for name, record in records if (record.role is not None) == in_chats}
    if len(prompts) > 1:
        files = " and ".join(sorted(prompts.values()))
        raise OptionError(f"{manifest}: planted after several prompts ({files}): move the other records away")
    return next(iter(prompts), None)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, or of the names and bytes of a saved folder's files without its caches."""
    if not path.is_dir():
        return _sha256_of_file(path)
    files = (file for file in path.rglob("*") if file.is_file() and not file.name.startswith("cache-"))
    return sha256_of_all({file.relative_to(path).as_posix(): _sha256_of_file(file) for file in files})


def sha256_of_all(hashes: Mapping[str, str]) -> str:
    """Return the hash of a folder, computed from its files' hashes by name."""
    lines = (f"{hashes[name]}  {name}\n" for name in sorted(hashes, key=PurePosixPath))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _sha256_of_file(path: Path) -> str:
    try:
        check_file(path)
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise PlantingError(f"{path}: cannot be read ({error.strerror}): check the path") from None
