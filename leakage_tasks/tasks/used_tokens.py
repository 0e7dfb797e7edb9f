"""A check that the model has an embedding for every token of a run, before its first forward pass."""

from __future__ import annotations

from collections.abc import Sequence

from leakage_tasks.attacks.redact import NamingCanary
from leakage_tasks.canaries import Canary
from leakage_tasks.canaries.context import Context
from leakage_tasks.harness.api import LM
from leakage_tasks.targets.embedded_tokens import embedded_tokens

TEMPLATE = "the chat template"


def check_used_tokens(lm: LM, canaries: Sequence[Canary], context: Context) -> None:
    """Raise TargetError for a token of the canaries or of their context that has no embedding in the model."""
    known = embedded_tokens(lm)
    if known.complete:
        return
    first = getattr(lm, "prefix_token_id", None)
    if isinstance(first, int):
        known.check([[first]], "the token before each text")
    around = [text for text in (context.before, context.after) if text]
    known.check_texts(around, TEMPLATE if context.chat else f"context={context}")
    for canary in canaries:
        with NamingCanary(canary):
            texts = [canary.attack_space.fill(canary.secret)]
            known.check_texts(texts, f"canary {canary.id!r}")
            known.check_texts([canary.source_text] if canary.source_text else [], f"canary {canary.id!r}", special=True)
