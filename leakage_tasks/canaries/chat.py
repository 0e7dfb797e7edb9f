"""The text that a chat template puts around a canary.

It must be equal for all fillings of a canary, because a rank compares them.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.context import Context
from leakage_tasks.core.encoding import check_characters
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.core.log import first_line
from leakage_tasks.data.chat import ASSISTANT_TURN, USER_TURN, Conversation, Role, conversation
from leakage_tasks.data.turns import ROLES

Render = Callable[..., str]
"""A chat template: maps turns, and optionally ``tools``, to the text that a model is trained on."""
PLACE = "wx7qk2zv"
"""Placeholder for the canary when the text around it is computed."""
PLAIN = Context()
SHOWN = 12
"""Number of characters shown before and after the difference between two texts."""
PROBES = 3
"""Number of random fillings for which the template must put equal text around a canary."""


def template_of(tokenizer: Any, arguments: Mapping[str, Any] | None = None) -> Render:
    """Return a function that renders a whole conversation with a tokenizer's chat template, as in training.

    ``arguments`` are keyword arguments of the template. The function raises TargetError for turns that the template
    refuses.
    """

    def render(turns: Sequence[Mapping[str, Any]], /, **more: Any) -> str:
        try:
            text = tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=False, **{**(arguments or {}), **more}
            )
        except Exception as error:  # a template can raise any exception
            roles = ", ".join(turn["role"] if turn["role"] in ROLES else "another role" for turn in turns)
            raise TargetError(
                problem=f"the model's chat template refuses turns of {roles} ({_reason(error, tokenizer, arguments)})",
                remedy="name another turn with --metadata role=…, or leave out the --system_instruction if there is "
                "one",
            ) from None
        return str(text)

    return render


def _reason(error: Exception, tokenizer: Any, arguments: Mapping[str, Any] | None) -> str:
    """Return the words of an error if the template contains them, else its class: a template may quote a turn."""
    named = getattr(tokenizer, "chat_template", None) or ""
    sources = [*(named.values() if isinstance(named, dict) else [named]), (arguments or {}).get("chat_template", "")]
    words = first_line(error)
    return words if any(words in str(source) for source in sources) else type(error).__name__


@dataclass(frozen=True)
class Chat:
    """The chat turn in which canaries are planted, and the turns before it."""

    role: Role = "assistant"
    """The role that speaks the turn."""
    system: str | None = None
    """The system message, as given with ``--system_instruction``."""
    prefill: bool = False
    """True if the beginning of the turn is sent to an endpoint that accepts only messages."""
    prompt: str = USER_TURN
    """The user's turn before the canary, as it was planted."""
    template: str | None = None
    """The name of the chat template, if one was selected."""

    def __post_init__(self) -> None:
        check_characters("--system_instruction", self.system or "")
        if self.role == "system" and self.system is not None:
            raise OptionError(
                "--system_instruction: the canaries are the system's turn themselves: leave it out, or name the turn "
                "they were planted in with --metadata role=assistant, user or tool"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the fields by name, without unused options."""
        usual = {"prefill": False, "prompt": USER_TURN}
        left_out = {} if self.template is not None else {"template"}
        fields = asdict(self).items()
        return {name: value for name, value in fields if usual.get(name) != value and name not in left_out}

    def conversation(self, text: str) -> Conversation:
        """Return the conversation in which ``text`` is the canary's turn."""
        return conversation(text, self.role, self.system, self.prompt)

    def before_the_turn(self) -> Conversation:
        """Return the turns before an assistant turn that holds a canary."""
        return self.conversation(PLACE)[:-1]

    def context(self, render: Render, within: Context = PLAIN) -> Context:
        """Return the text around every canary: ``within``, which is part of the turn, and the template's own text.

        After the canary come the template's characters up to the next turn's text. Raises OptionError if ``within``
        sets a start token; raises TargetError if the template drops, repeats or changes the turn, or renders another
        text each time.
        """
        if within.start != "auto":
            raise OptionError(
                f"--metadata context={within}: under --apply_chat_template the template sets the start of a text: "
                "leave the start out"
            )
        turns = self.conversation(within.before + PLACE + within.after)
        whole = render(turns)
        check_repeats(whole, render(turns))
        parts = whole.split(PLACE)
        if len(parts) != 2:
            fault = "drops" if len(parts) == 1 else "repeats"
            raise TargetError(
                f"the model's chat template {fault} the text of the {self.role}'s turn, so no canary can be scored in "
                "it: audit without --apply_chat_template, or name another turn with --metadata role=…"
            )
        before, after = parts
        if not (before.endswith(within.before) and after.startswith(within.after)):
            raise TargetError(
                f"--metadata context={within}: the model's chat template changes it: take white space from its ends"
            )
        end = len(within.after)
        following = [offset for turn in (self.prompt, ASSISTANT_TURN) if (offset := after.find(turn, end)) >= 0]
        return Context("none", before, after[: min(following, default=len(after))], chat=True)

    def around(
        self, render: Render, canaries: Sequence[Canary], within: Context = PLAIN
    ) -> tuple[Context, list[Canary]]:
        """Return the text around every canary, and the canaries as the template writes them.

        Raises the errors of :meth:`context` and :meth:`as_rendered`.
        """
        around = self.context(render, within)
        return around, [self.as_rendered(render, canary, within, around) for canary in canaries]

    def as_rendered(self, render: Render, canary: Canary, within: Context, around: Context) -> Canary:
        """Return the canary as the template renders it: without white space at its ends if the template strips it.

        Args:
            render: The chat template.
            canary: The canary.
            within: The context inside the canary's turn.
            around: The text around every canary, from :meth:`context`.

        Raises:
            TargetError: If the template changes the text in another way, only for some fillings, or with time.
        """
        text, space = canary.known or canary.template, canary.attack_space
        fillings = (canary.secret, *space.sample(PROBES, f"chat:{canary.id}"))
        turns = [within.before + space.fill(filling) + within.after for filling in fillings]
        written = [render(self.conversation(turn)) for turn in turns]
        for stripped in dict.fromkeys((text, text.strip(), text.lstrip(), text.rstrip())):
            rendered = canary if stripped == text else replace(canary, known=stripped)
            expected = [around.before + rendered.attack_space.fill(filling) + around.after for filling in fillings]
            if all(whole.startswith(part) for whole, part in zip(written, expected, strict=True)):
                return rendered
        again = self.context(render, within)
        check_repeats(around.before + PLACE + around.after, again.before + PLACE + again.after)
        raise TargetError(
            f"canary {canary.id!r}: the model's chat template changes its text in the {self.role}'s turn: remove the "
            "changed characters from the canary's template, or audit without --apply_chat_template"
        )


def check_repeats(first: str, second: str) -> None:
    """Raise TargetError if two renderings of one conversation, ``first`` and ``second``, differ."""
    if first == second:
        return
    start, end = len(os.path.commonprefix([first, second])), len(os.path.commonprefix([first[::-1], second[::-1]]))
    one, other = (text[max(0, start - SHOWN) : len(text) - end + SHOWN] for text in (first, second))
    raise TargetError(
        f"the model's chat template writes {one!r} and, rendered again, {other!r}: it prints the time (strftime_now) "
        "or draws at random, so two texts of it cannot be compared: pass the printed value with --model_args "
        "chat_template_args={…}, if the template takes it as an argument, or give the tokenizer a template that prints "
        "neither"
    )


def chat_in(task_settings: Mapping[str, Any]) -> Chat | None:
    """Return the chat in a task's settings for the model; None without a chat."""
    chat = task_settings.get("chat")
    return None if chat is None else Chat(**chat)


def protocol_of(chat: Chat | None) -> dict[str, str]:
    """Return the chat settings that two runs must share for comparable results; empty without a chat."""
    if chat is None:
        return {}
    system = {} if chat.system is None else {"system_instruction": chat.system}
    template = {} if chat.template is None else {"chat_template": chat.template}
    prompt = {} if chat.prompt == USER_TURN else {"prompt": chat.prompt}
    return {"chat": chat.role} | template | system | prompt | ({"prefill": "true"} if chat.prefill else {})
