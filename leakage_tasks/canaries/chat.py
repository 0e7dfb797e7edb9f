"""What a chat template puts around a canary: the same for all fillings, or no rank would be one of the canary alone."""

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

Render = Callable[[Conversation], str]
"""A chat template: turns in, the text that a model is trained on out."""
PLACE = "wx7qk2zv"
"""Stands for a canary where the template is asked what it puts around one."""
PLAIN = Context()
SHOWN = 12
"""Characters shown before and after those in which two texts differ."""
PROBES = 3
"""Random fillings for which a template must put the same around a canary."""


def template_of(tokenizer: Any, given: Mapping[str, Any] | None = None) -> Render:
    """What a tokenizer's chat template makes of a whole conversation, as training reads it, with arguments ``given``.

    Raises TargetError for turns that the template refuses.
    """

    def render(turns: Conversation) -> str:
        try:
            text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=False, **(given or {}))
        except Exception as error:  # a template raises what it likes
            roles = ", ".join(turn["role"] for turn in turns)
            raise TargetError(
                f"the model's chat template refuses turns of {roles} ({first_line(error)}): name another turn with "
                "--metadata role=…, or leave out the --system_instruction if there is one"
            ) from None
        return str(text)

    return render


@dataclass(frozen=True)
class Chat:
    """The turn that canaries are, and what the system says before."""

    role: Role = "assistant"
    """Whose turn it is."""
    system: str | None = None
    """``--system_instruction``."""
    prefill: bool = False
    """Whether an endpoint that takes messages alone is sent the beginning of the turn."""
    prompt: str = USER_TURN
    """The user's turn before the canary, as it was planted."""
    template: str | None = None
    """The name of the chat template, if one is asked for."""

    def __post_init__(self) -> None:
        check_characters("--system_instruction", self.system or "")
        if self.role == "system" and self.system is not None:
            raise OptionError(
                "--system_instruction: the canaries are the system's turn themselves: leave it out, or name the turn "
                "they were planted in with --metadata role=assistant, user or tool"
            )

    def to_json(self) -> dict[str, Any]:
        """The fields by name, without what is not asked for."""
        usual = {"prefill": False, "prompt": USER_TURN}
        left_out = {} if self.template is not None else {"template"}
        fields = asdict(self).items()
        return {name: value for name, value in fields if usual.get(name) != value and name not in left_out}

    def conversation(self, text: str) -> Conversation:
        """Return the conversation in which ``text`` is the canary's turn."""
        return conversation(text, self.role, self.system, self.prompt)

    def before_the_turn(self) -> Conversation:
        """What is said before an assistant's turn that is a canary."""
        return self.conversation(PLACE)[:-1]

    def context(self, render: Render, within: Context = PLAIN) -> Context:
        """What stands around every canary: ``within``, which is part of the turn, and what the template puts there.

        After it come the template's own characters up to the next turn's text. Raises OptionError for a start token
        besides, TargetError for a template that drops, repeats or changes the turn, or writes another text each time.
        """
        if within.start != "auto":
            raise OptionError(
                f"--metadata context={within}: under --apply_chat_template the template says what a text begins with: "
                "leave the start out"
            )
        turns = self.conversation(within.before + PLACE + within.after)
        whole = render(turns)
        _check_repeats(whole, render(turns))
        parts = whole.split(PLACE)
        if len(parts) != 2:
            how = "drops" if len(parts) == 1 else "repeats"
            raise TargetError(
                f"the model's chat template {how} the text of the {self.role}'s turn, so no canary can be scored in "
                "it: audit without --apply_chat_template, or name another turn with --metadata role=…"
            )
        before, after = parts
        if not (before.endswith(within.before) and after.startswith(within.after)):
            raise TargetError(
                f"--metadata context={within}: the model's chat template changes it: take white space from its ends"
            )
        end = len(within.after)
        following = [place for turn in (self.prompt, ASSISTANT_TURN) if (place := after.find(turn, end)) >= 0]
        return Context("none", before, after[: min(following, default=len(after))], chat=True)

    def around(
        self, render: Render, canaries: Sequence[Canary], within: Context = PLAIN
    ) -> tuple[Context, list[Canary]]:
        """What stands around every canary, and the canaries as the template writes them; raises as both do."""
        found = self.context(render, within)
        return found, [self.as_rendered(render, canary, within, found) for canary in canaries]

    def as_rendered(self, render: Render, canary: Canary, within: Context, around: Context) -> Canary:
        """The canary as the template really writes it: without white space at its ends where the template trims.

        Raises TargetError if the template changes its text in another way, for some fillings alone, or with the time.
        """
        text, space = canary.known or canary.template, canary.attack_space
        fillings = (canary.secret, *space.sample(PROBES, f"chat:{canary.id}"))
        turns = [within.before + space.fill(filling) + within.after for filling in fillings]
        written = [render(self.conversation(turn)) for turn in turns]
        for kept in dict.fromkeys((text, text.strip(), text.lstrip(), text.rstrip())):
            found = canary if kept == text else replace(canary, known=kept)
            expected = [around.before + found.attack_space.fill(filling) + around.after for filling in fillings]
            if all(whole.startswith(part) for whole, part in zip(written, expected, strict=True)):
                return found
        again = self.context(render, within)
        _check_repeats(around.before + PLACE + around.after, again.before + PLACE + again.after)
        raise TargetError(
            f"canary {canary.id!r}: the model's chat template changes its text in the {self.role}'s turn: take what "
            "the template changes from the canary's template, or audit without --apply_chat_template"
        )


def _check_repeats(first: str, second: str) -> None:
    """Raise TargetError if a template writes ``first`` and then ``second`` for the same conversation."""
    if first == second:
        return
    start, end = len(os.path.commonprefix([first, second])), len(os.path.commonprefix([first[::-1], second[::-1]]))
    one, other = (text[max(0, start - SHOWN) : len(text) - end + SHOWN] for text in (first, second))
    raise TargetError(
        f"the model's chat template writes {one!r} and, asked again, {other!r}: it prints the time (strftime_now) or "
        "draws at random, so two texts of it cannot be compared: pass what it prints with --model_args "
        "chat_template_args={…}, if the template takes it as an argument, or give the tokenizer a template that prints "
        "neither"
    )


def protocol_of(chat: Chat | None) -> dict[str, str]:
    """What two runs must share of a chat for their figures to be comparable; nothing of a run without one."""
    if chat is None:
        return {}
    system = {} if chat.system is None else {"system_instruction": chat.system}
    template = {} if chat.template is None else {"chat_template": chat.template}
    prompt = {} if chat.prompt == USER_TURN else {"prompt": chat.prompt}
    return {"chat": chat.role} | template | system | prompt | ({"prefill": "true"} if chat.prefill else {})
