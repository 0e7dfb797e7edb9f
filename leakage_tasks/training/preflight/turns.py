"""Copies in chats and after prompts: does the training have before them what audits put there?"""

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
    """By id of a canary, the text of its row up to its end."""
    others: tuple[str, ...] = ()
    """The turns before the canary in each conversation. A row without them is no such conversation."""


def planted_rows(manifest: Any, canaries: Sequence[Canary], tokenizer: Any) -> PlantedRows:
    """Return the rows that were planted for the canaries alone, as an audit asks about them.

    In chats that is the planted conversation as the tokenizer's own chat template writes it, else the planted prompt
    and the canary. Empty where no record beside the ``manifest`` says that the canaries are in rows of their own with
    text before them, and where the tokenizer has no template, or one that refuses or changes them.
    """
    record = _record_of_their_own(Path(manifest), canaries) if isinstance(manifest, str | Path) else None
    if record is None:
        return PlantedRows()
    others: list[str] = []
    if record.before == "prompt":
        found = {canary.id: f"{record.prompt}{canary.text}" for canary in canaries}
    else:
        found, others = _in_chat(record, canaries, tokenizer), _turns_before(record)
    if not found:
        return PlantedRows()
    read = _read(tokenizer, list(found.values()))
    return PlantedRows(dict(zip(found, read, strict=True)), _read(tokenizer, others))


def _turns_before(record: Sidecar) -> list[str]:
    """Return the turns before the canary's. Those after it are drawn from the data, so they differ."""
    role = record.role or "assistant"
    turns = conversation("", role, prompt=record.prompt or USER_TURN)
    return [turn["content"] for turn in takewhile(lambda turn: turn["role"] != role, turns)]


def _read(tokenizer: Any, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the texts as those of rows are read: some tokenizers do not give back every space."""
    tokens = [np.asarray(tokenizer(text, add_special_tokens=False)["input_ids"], int) for text in texts]
    return tuple(Detokenizer(tokenizer).texts(tokens)) if tokens else ()


def _in_chat(record: Sidecar, canaries: Sequence[Canary], tokenizer: Any) -> dict[str, str]:
    if record.role is None or not getattr(tokenizer, "chat_template", None):
        return {}
    render, found = template_of(tokenizer), dict[str, str]()
    for canary in canaries:
        text = canary.text.strip()
        turns = conversation(canary.text, record.role, prompt=record.prompt or USER_TURN)
        try:
            before, stands, _ = render(turns).partition(text)
        except TargetError:
            return {}
        if stands:
            found[canary.id] = before + text
    return found


def _record_of_their_own(manifest: Path, canaries: Sequence[Canary]) -> Sidecar | None:
    """Return a record of rows that were planted for the canaries alone; None where records differ."""
    records = [
        record
        for _, record in records_of(manifest, manifest_hash(canaries))
        if record.role is not None or record.before == "prompt"
    ]
    ways = {(record.before, record.role, record.prompt) for record in records}
    alone = len(ways) == 1 and records[0].before in ("chat turn", "prompt")
    return records[0] if alone else None
