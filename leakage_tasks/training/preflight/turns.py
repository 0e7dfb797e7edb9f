"""Text before copies in chats and after prompts, as an audit uses it, for comparison with the training data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from leakage_tasks.canaries import Canary, manifest_hash
from leakage_tasks.canaries.chat import template_of
from leakage_tasks.canaries.sidecar import Sidecar, records_of
from leakage_tasks.core.errors import TargetError
from leakage_tasks.data.chat import USER_TURN, conversation
from leakage_tasks.training.preflight.rows import Detokenizer


@dataclass(frozen=True)
class PlantedRows:
    """Planted rows as training reads them, with the text before each canary."""

    beginnings: Mapping[str, str] = field(default_factory=dict)
    """The text of each canary's row up to its end, by the canary's id."""
    others: tuple[str, ...] = ()
    """The turns before the canary in each planted conversation. A row without them was not planted."""


def planted_rows(manifest: Any, canaries: Sequence[Canary], tokenizer: Any) -> PlantedRows:
    """Return the rows that were planted for the canaries, with the text that an audit puts before them.

    For chats this is the planted conversation in the tokenizer's own chat template, otherwise the planted prompt and
    the canary. The result is empty if no record next to the ``manifest`` has canaries in separate rows with text before
    them, or if the tokenizer has no template or its template rejects or changes the canaries.
    """
    record = _record_of_separate_rows(Path(manifest), canaries) if isinstance(manifest, str | Path) else None
    if record is None:
        return PlantedRows()
    others: list[str] = []
    if record.before == "prompt":
        beginnings = {canary.id: f"{record.prompt}{canary.text}" for canary in canaries}
    else:
        beginnings, others = _in_chat(record, canaries, tokenizer), _turns_before(record)
    if not beginnings:
        return PlantedRows()
    read = _read(tokenizer, list(beginnings.values()))
    return PlantedRows(dict(zip(beginnings, read, strict=True)), _read(tokenizer, others))


def _turns_before(record: Sidecar) -> list[str]:
    """Return the turns before the canary's turn. Later turns are drawn from the data and differ between rows."""
    role = record.role or "assistant"
    turns = conversation("", role, prompt=record.prompt or USER_TURN)
    return [turn["content"] for turn in takewhile(lambda turn: turn["role"] != role, turns)]


def _read(tokenizer: Any, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the texts after encoding and decoding, like texts of rows: some tokenizers change spaces."""
    tokens = [np.asarray(tokenizer(text, add_special_tokens=False)["input_ids"], int) for text in texts]
    return tuple(Detokenizer(tokenizer).texts(tokens)) if tokens else ()


def _in_chat(record: Sidecar, canaries: Sequence[Canary], tokenizer: Any) -> dict[str, str]:
    if record.role is None or not getattr(tokenizer, "chat_template", None):
        return {}
    render, beginnings = template_of(tokenizer), dict[str, str]()
    for canary in canaries:
        text = canary.text.strip()
        turns = conversation(canary.text, record.role, prompt=record.prompt or USER_TURN)
        try:
            before, match, _ = render(turns).partition(text)
        except TargetError:
            return {}
        if match:
            beginnings[canary.id] = before + text
    return beginnings


def _record_of_separate_rows(manifest: Path, canaries: Sequence[Canary]) -> Sidecar | None:
    """Return the record of rows that were planted for the canaries; None if records differ."""
    records = [
        record
        for _, record in records_of(manifest, manifest_hash(canaries))
        if record.role is not None or record.before == "prompt"
    ]
    layouts = {(record.before, record.role, record.prompt) for record in records}
    separate = len(layouts) == 1 and records[0].before in ("chat turn", "prompt")
    return records[0] if separate else None
