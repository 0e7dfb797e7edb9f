"""The chat template of a harness model."""

from __future__ import annotations

from typing import Any

from leakage_tasks.canaries import chat
from leakage_tasks.core.errors import TargetError
from leakage_tasks.harness.api import LM
from leakage_tasks.targets.harness.texts import kinds

MESSAGES_ALONE = frozenset({"LocalChatCompletion"})
"""Models that take messages and no text, by name, since importing one may take a package that is not there."""


def has_template(lm: LM) -> bool:
    """Whether the model's tokenizer brings a chat template."""
    return bool(getattr(getattr(lm, "tokenizer", None), "chat_template", None))


def takes_messages_alone(lm: LM) -> bool:
    """Whether a model of the harness takes messages instead of text."""
    return bool(MESSAGES_ALONE.intersection(kinds(lm)))


def check_takes_text(lm: LM) -> None:
    """Raise TargetError for a model that takes messages alone, which cannot begin in the middle of a text."""
    if takes_messages_alone(lm):
        raise TargetError(
            f"{kinds(lm)[0]} takes messages alone, so nothing can be drawn after a prefix there: serve the model for "
            "--model local-completions, or use --model hf"
        )


def check_endpoint(lm: LM) -> None:
    """Raise TargetError for a model of the harness that takes messages instead of text, with the flag or without."""
    if MESSAGES_ALONE.intersection(kinds(lm)):
        raise TargetError(
            f"{kinds(lm)[0]} takes messages alone and gives no log-likelihoods, so no canary can be asked about there: "
            "serve the model for --model local-completions, or use --model hf"
        )


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
