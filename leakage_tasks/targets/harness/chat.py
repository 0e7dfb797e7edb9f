"""The chat template of a harness model."""

from __future__ import annotations

from typing import Any

from leakage_tasks.canaries import chat
from leakage_tasks.core.errors import TargetError
from leakage_tasks.harness.api import LM


def has_template(lm: LM) -> bool:
    """Whether the model's tokenizer brings a chat template."""
    return bool(getattr(getattr(lm, "tokenizer", None), "chat_template", None))


def template_of(lm: LM) -> chat.Render:
    """See :func:`leakage_tasks.canaries.chat.template_of`; with the ``chat_template_args`` of ``--model_args``.

    The harness' own way ends where the assistant's text does, and training goes on to the end of the turn. Raises
    TargetError for a model without a template.
    """
    if not has_template(lm):
        raise TargetError(
            f"--apply_chat_template: the tokenizer of this {type(lm).__name__} has no chat template: leave the flag "
            "out, or give the model the tokenizer that it was trained with"
        )
    tokenizer: Any = lm.tokenizer
    return chat.template_of(tokenizer, getattr(lm, "chat_template_args", None))
