"""The chat template of a harness model."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from leakage_tasks.canaries import chat
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.harness.api import LM
from leakage_tasks.pairs.rendering import Rendering


def has_template(lm: LM) -> bool:
    """Return True if the model's tokenizer has a chat template."""
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


def rendering_of(lm: LM, of_run: chat.Chat) -> Rendering:
    """Return the chat template of a model as the rendering of rows. Raises the errors of :func:`template_of`, and
    TargetError for a template that renders another text each time."""
    render = template_of(lm, of_run.template)
    probe = chat.Chat().conversation(chat.PLACE)
    chat.check_repeats(render(probe), render(probe))
    tokenizer: Any = lm.tokenizer
    # The rendered probe has what a template takes from elsewhere, such as the date.
    parts = [
        tokenizer.chat_template,
        getattr(lm, "chat_template_args", None),
        tokenizer.special_tokens_map,
        render(probe),
        of_run.template,
        of_run.system,
    ]
    key = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
    return Rendering(render, key, of_run.system)


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
    # Without a name, transformers chooses between "default" and "tool_use".
    return {} if name is None else {"chat_template": chosen}
