"""The chat template of a harness model."""

from __future__ import annotations

from typing import Any

from leakage_tasks.canaries import chat
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.harness.api import LM


def has_template(lm: LM) -> bool:
    """Return whether the model's tokenizer has a chat template."""
    return bool(getattr(getattr(lm, "tokenizer", None), "chat_template", None))


def template_of(lm: LM, name: str | None = None) -> chat.Render:
    """Return the chat template of a model as a function, with the ``chat_template_args`` of ``--model_args``.

    It renders a conversation up to the end of a turn, as training does; the harness' own function stops at the end of
    the assistant's text. ``name`` selects one of several templates. Raises TargetError for a model without a template,
    and OptionError for a name that the tokenizer does not have.
    """
    if not has_template(lm):
        raise TargetError(
            f"--apply_chat_template: the tokenizer of this {type(lm).__name__} has no chat template: leave the flag "
            "out, or give the model the tokenizer that it was trained with"
        )
    tokenizer: Any = lm.tokenizer
    arguments = getattr(lm, "chat_template_args", None) or {}
    chosen = {} if name is None and "chat_template" in arguments else _named(tokenizer, name)
    return chat.template_of(tokenizer, {**arguments, **chosen})


def _named(tokenizer: Any, name: str | None) -> dict[str, str]:
    """Return the keyword argument of ``apply_chat_template`` of transformers that selects the template."""
    templates = tokenizer.chat_template
    if not isinstance(templates, dict):
        if name is None:
            return {}
        raise OptionError(
            f"--apply_chat_template {name}: the tokenizer has one chat template, without a name: leave the name out"
        )
    chosen = "default" if name is None else name
    if chosen not in templates:
        problem = "has several chat templates and no default" if name is None else f"has no chat template {name!r}"
        raise OptionError(
            f"--apply_chat_template: the tokenizer {problem}: name one of {', '.join(map(repr, sorted(templates)))}"
        )
    return {"chat_template": chosen}
