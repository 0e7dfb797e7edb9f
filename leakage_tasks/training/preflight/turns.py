"""Copies that are turns of a chat: do they stand as the tokenizer's own template writes them, which audits go by?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from leakage_tasks.canaries import Canary, manifest_hash
from leakage_tasks.canaries.chat import template_of
from leakage_tasks.canaries.sidecar import records_of
from leakage_tasks.core.errors import TargetError
from leakage_tasks.data.chat import Role, conversation
from leakage_tasks.training.preflight.rows import Detokenizer


def beginnings(manifest: Any, canaries: Sequence[Canary], tokenizer: Any) -> dict[str, str]:
    """By id, the planted conversation of a canary up to its end, as the tokenizer's own chat template writes it.

    Nothing where no record beside the ``manifest`` says that the canaries are conversations of their own, and where the
    tokenizer has no template, or one that refuses or changes them.
    """
    role = _role_of_their_own(Path(manifest), canaries) if isinstance(manifest, str | Path) else None
    if role is None or not getattr(tokenizer, "chat_template", None):
        return {}
    render, found = template_of(tokenizer), dict[str, str]()
    for canary in canaries:
        text = canary.text.strip()
        try:
            before, stands, _ = render(conversation(canary.text, role)).partition(text)
        except TargetError:
            return {}
        if stands:
            found[canary.id] = before + text
    if not found:
        return {}
    tokens = [np.asarray(tokenizer(text, add_special_tokens=False)["input_ids"], int) for text in found.values()]
    # As the rows' texts will be: some tokenizers do not give back every space.
    return dict(zip(found, Detokenizer(tokenizer).texts(tokens), strict=True))


def _role_of_their_own(manifest: Path, canaries: Sequence[Canary]) -> Role | None:
    """Whose turns the canaries are in conversations that were planted for them alone."""
    records = [record for _, record in records_of(manifest, manifest_hash(canaries)) if record.role is not None]
    roles = {record.role if record.turn == "new" else None for record in records}
    return next(iter(roles)) if len(roles) == 1 else None
