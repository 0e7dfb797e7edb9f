"""Runs with ``--apply_chat_template`` on rows that are conversations: the rows are rendered as for training."""

from __future__ import annotations

from typing import TypeVar

from leakage_tasks.canaries.chat import Chat
from leakage_tasks.core.log import warn_once
from leakage_tasks.harness.api import LM
from leakage_tasks.harness.chat_templates import run_arguments
from leakage_tasks.targets.harness.chat import has_template, rendering_of, template_of
from leakage_tasks.tasks.options import RunOptions

AnyOptions = TypeVar("AnyOptions", bound=RunOptions)


def for_run(options: AnyOptions, chat: Chat | None) -> AnyOptions:
    """Return the options of a run on conversations: rendered by the run's model, or joined without a chat.

    Joined turns cause a warning if the model has a chat template. Raises TargetError for a model without one that needs
    it.
    """
    lm = run_arguments().get("lm")
    if chat is not None:
        return options.rendered(rendering_of(lm, chat))
    if lm is not None and has_template(lm):
        warn_once(
            "leakage: the data hold chats, and this run joins their turns by line breaks: if the model was trained on "
            "them in its chat template, it never read this text, so pass --apply_chat_template"
        )
    return options.rendered(None)


def in_chat(lm: LM, options: AnyOptions, chat: Chat | None) -> tuple[AnyOptions, str | None]:
    """Return the options for a model, and the text that its chat template puts before each text.

    This text is None without a chat, and empty if the texts are rendered conversations.
    """
    if chat is None:
        return options, None
    if options.hold_chats():
        return options.rendered(rendering_of(lm, chat)), ""
    return options, chat.context(template_of(lm, chat.template)).before
