"""Endpoints that take messages and write the assistant's turn: `local-chat-completions` and those like it."""

from __future__ import annotations

import random
from typing import Any, Never

from leakage_tasks.canaries.chat import Chat
from leakage_tasks.canaries.context import Context
from leakage_tasks.canaries.spaces import Space
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.data.chat import Conversation
from leakage_tasks.harness.api import LM
from leakage_tasks.targets.harness.faults import kinds
from leakage_tasks.targets.harness.target import HarnessTarget
from leakage_tasks.targets.harness.texts import check_decoding, generation_settings
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig

ANSWERS = "black box: answers the model writes to messages"
CONTINUED = f"{ANSWERS}, whose beginning the attacker chooses"
MESSAGES_ALONE = frozenset({"LocalChatCompletion"})
"""Models that take messages and no text, by name, since importing one may take a package that is not there."""
NEVER_CONTINUES = frozenset({"OpenAIChatCompletion"})
"""Those of them whose server answers an assistant's message with another one."""
CONTINUE = {"continue_final_message": True, "add_generation_prompt": False}
"""What servers such as vLLM and SGLang must be told to go on from an assistant's message; others do so unasked."""
INSTEAD = "serve the model for --model local-completions, or use --model hf"


def takes_messages_alone(lm: LM) -> bool:
    """Whether a model of the harness takes messages instead of text."""
    return bool(MESSAGES_ALONE.intersection(kinds(lm)))


def check_takes_text(lm: LM) -> None:
    """Raise TargetError for a model that takes messages alone, which cannot begin in the middle of a text."""
    if takes_messages_alone(lm):
        raise TargetError(
            f"{kinds(lm)[0]} takes messages alone, so nothing can be drawn after a prefix there: {INSTEAD}"
        )


class ChatEndpoint(HarnessTarget):
    """A model that takes messages alone; implements ``WritesTexts`` and ``CompletesText``.

    It is sent the conversation up to the canary's turn, as it was planted, and writes the turn. What it writes after a
    text is what follows the text in its answer, and nothing where the answer does not hold the text. Where the ``chat``
    says ``prefill``, the text is sent too, as the beginning of the assistant's turn that the server is to go on from.

    Raises TargetError for a turn that is not the assistant's, and where the server does not go on from a turn.
    """

    def __init__(self, lm: LM, chat: Chat) -> None:
        super().__init__(lm)
        self.max_length, self._chat = None, chat
        self.access = CONTINUED if chat.prefill else ANSWERS
        name = kinds(lm)[0]
        if chat.role != "assistant":
            raise TargetError(
                f"{name} writes the assistant's turn alone, and the canaries are the {chat.role}'s: {INSTEAD}"
            )
        if chat.prefill and NEVER_CONTINUES.intersection(kinds(lm)):
            raise TargetError(f"prefill=true: the server of {name} begins every turn anew: leave it out")

    @property
    def only_writes(self) -> bool:
        """See :class:`~leakage_tasks.targets.protocols.WritesTexts`."""
        return True

    def length(self, text: str) -> None:
        """None: such a model does not say."""

    def log_perplexity(self, texts: Any) -> FloatArray:
        """Raises TargetError."""
        unscored(self._lm)

    def in_context(self, context: Context, space: Space) -> Never:
        """Raises TargetError."""
        raise TargetError(
            f"context={context}: {kinds(self._lm)[0]} takes messages, of which a canary is a whole one: leave it out"
        )

    def complete(self, text: str, characters: int) -> str:
        """See :class:`~leakage_tasks.targets.protocols.CompletesText`."""
        settings = generation_settings(self._lm, DecodingConfig("greedy"), self._tokens(text, characters), 0.0)
        return self._after(text, self._drawn("messages", [(self._asked(text), self._told(settings))])[0])

    def write(self, text: str, characters: int, number: int, scheme: DecodingConfig, seed: str) -> list[str]:
        """See :class:`~leakage_tasks.targets.protocols.WritesTexts`. Raises TargetError for models that do not draw."""
        check_decoding(self._lm, scheme)
        stream, length = random.Random(f"write:{seed}"), self._tokens(text, characters)
        settings = [generation_settings(self._lm, scheme, length, stream.random()) for _ in range(number)]
        answers = self._drawn("messages", [(self._asked(text), self._told(setting)) for setting in settings])
        return [self._after(text, answer) for answer in answers]

    def _tokens(self, text: str, characters: int) -> int:
        return characters if self._chat.prefill else len(text) + characters

    def _told(self, settings: dict[str, Any]) -> dict[str, Any]:
        return {**settings, **CONTINUE} if self._chat.prefill else settings

    def _asked(self, text: str) -> Any:
        """The messages as the harness hands them on."""
        turns: Conversation = self._chat.before_the_turn()
        if self._chat.prefill:
            turns = [*turns, {"role": "assistant", "content": text}]
        lm: Any = self._lm
        asked = lm.apply_chat_template(turns, add_generation_prompt=not self._chat.prefill)
        if isinstance(asked, str):
            raise TargetError(
                f"{kinds(lm)[0]} takes messages and was told to make text of them: leave tokenized_requests out of "
                "--model_args"
            )
        return asked

    def _after(self, text: str, answer: str) -> str:
        """What follows ``text`` in an answer; one that goes on from it need not hold it."""
        _, found, rest = answer.partition(text)
        return rest if found or not self._chat.prefill else answer


def unscored(lm: LM) -> Never:
    """Raise TargetError for what takes log-likelihoods."""
    raise TargetError(
        f"{kinds(lm)[0]} takes messages alone and gives no log-likelihoods: only canary_extraction with "
        f"attack=sample-text or greedy works on it; for the rest {INSTEAD}"
    )
