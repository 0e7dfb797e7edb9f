"""The chat template of a harness model."""

from __future__ import annotations

from typing import Any

from leakage_tasks.canaries import chat
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.harness.api import LM


def has_template(lm: LM) -> bool:
    """Whether the model's tokenizer brings a chat template."""
    return bool(getattr(getattr(lm, "tokenizer", None), "chat_template", None))


def template_of(lm: LM, name: str | None = None) -> chat.Render:
    """See :func:`leakage_tasks.canaries.chat.template_of`; with the ``chat_template_args`` of ``--model_args``.

    The harness' own way ends where the assistant's text does, and training goes on to the end of the turn. ``name`` is
    that of the template where the tokenizer has several. Raises TargetError for a model without a template, and
    OptionError for a name that the tokenizer does not have.
    """
    if not has_template(lm):
        raise TargetError(
            f"--apply_chat_template: the tokenizer of this {type(lm).__name__} has no chat template: leave the flag "
            "out, or give the model the tokenizer that it was trained with"
        )
    tokenizer: Any = lm.tokenizer
    given = getattr(lm, "chat_template_args", None) or {}
    chosen = {} if name is None and "chat_template" in given else _named(tokenizer, name)
    return chat.template_of(tokenizer, {**given, **chosen})


def _named(tokenizer: Any, name: str | None) -> dict[str, str]:
    """Return what ``apply_chat_template`` of transformers takes to choose the template."""
    there = tokenizer.chat_template
    if not isinstance(there, dict):
        if name is None:
            return {}
        raise OptionError(
            f"--apply_chat_template {name}: the tokenizer has one chat template, without a name: leave the name out"
        )
    chosen = "default" if name is None else name
    if chosen not in there:
        problem = "has several chat templates and no default" if name is None else f"has no chat template {name!r}"
        raise OptionError(
            f"--apply_chat_template: the tokenizer {problem}: name one of {', '.join(map(repr, sorted(there)))}"
        )
    return {"chat_template": chosen}
