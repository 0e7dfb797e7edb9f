"""Copies that are turns of a chat: do they stand as the tokenizer's own template writes them, which audits go by?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from leakage_tasks.canaries import Canary, manifest_hash
from leakage_tasks.canaries.chat import template_of
from leakage_tasks.canaries.sidecar import records_of
from leakage_tasks.core.errors import TargetError
from leakage_tasks.data.chat import Role, conversation
from leakage_tasks.training.preflight.rows import Detokenizer


@dataclass(frozen=True)
class ChatCopies:
    """Planted conversations as the tokenizer's own chat template writes them."""

    beginnings: Mapping[str, str] = field(default_factory=dict)
    """By id of a canary, its conversation up to its end."""
    others: tuple[str, ...] = ()
    """The other turns of each conversation. A row without them is no such conversation."""


def chat_copies(manifest: Any, canaries: Sequence[Canary], tokenizer: Any) -> ChatCopies:
    """Return the conversations that were planted, as the tokenizer's own chat template writes them.

    There are none where no record beside the ``manifest`` says that the canaries are conversations of their own, and
    where the tokenizer has no template, or one that refuses or changes them.
    """
    role = _role_of_their_own(Path(manifest), canaries) if isinstance(manifest, str | Path) else None
    if role is None or not getattr(tokenizer, "chat_template", None):
        return ChatCopies()
    render, found = template_of(tokenizer), dict[str, str]()
    for canary in canaries:
        text = canary.text.strip()
        try:
            before, stands, _ = render(conversation(canary.text, role)).partition(text)
        except TargetError:
            return ChatCopies()
        if stands:
            found[canary.id] = before + text
    others = tuple(turn["content"] for turn in conversation("", role) if turn["role"] != role)
    return ChatCopies(dict(zip(found, _read(tokenizer, list(found.values())), strict=True)), _read(tokenizer, others))


def _read(tokenizer: Any, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the texts as those of rows are read: some tokenizers do not give back every space."""
    tokens = [np.asarray(tokenizer(text, add_special_tokens=False)["input_ids"], int) for text in texts]
    return tuple(Detokenizer(tokenizer).texts(tokens)) if tokens else ()


def _role_of_their_own(manifest: Path, canaries: Sequence[Canary]) -> Role | None:
    """Whose turns the canaries are in conversations that were planted for them alone."""
    records = [record for _, record in records_of(manifest, manifest_hash(canaries)) if record.role is not None]
    roles = {record.role if record.turn == "new" else None for record in records}
    return next(iter(roles)) if len(roles) == 1 else None
