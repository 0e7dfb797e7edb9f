"""Copies in chats and after prompts: does the training have before them what audits put there?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from leakage_tasks.canaries import Canary, manifest_hash
from leakage_tasks.canaries.chat import template_of
from leakage_tasks.canaries.sidecar import Sidecar, records_of
from leakage_tasks.core.errors import TargetError
from leakage_tasks.data.chat import USER_TURN, conversation
from leakage_tasks.training.preflight.rows import Detokenizer


def beginnings(manifest: Any, canaries: Sequence[Canary], tokenizer: Any) -> dict[str, str]:
    """Return by id the text of a row up to the end of a canary, as an audit asks about it.

    In chats that is the planted conversation as the tokenizer's own chat template writes it, else the planted prompt
    and the canary. Empty where no record beside the ``manifest`` says that the canaries are in rows of their own with
    text before them, and where the tokenizer has no template, or one that refuses or changes them.
    """
    record = _record_of_their_own(Path(manifest), canaries) if isinstance(manifest, str | Path) else None
    if record is None:
        return {}
    if record.before == "prompt":
        found = {canary.id: f"{record.prompt}{canary.text}" for canary in canaries}
    else:
        found = _in_chat(record, canaries, tokenizer)
    if not found:
        return {}
    tokens = [np.asarray(tokenizer(text, add_special_tokens=False)["input_ids"], int) for text in found.values()]
    # As the rows' texts will be: some tokenizers do not give back every space.
    return dict(zip(found, Detokenizer(tokenizer).texts(tokens), strict=True))


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
