"""Endpoints that receive messages and write the assistant's turn, such as `local-chat-completions`."""

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
from leakage_tasks.targets.harness.faults import class_names
from leakage_tasks.targets.harness.target import HarnessTarget
from leakage_tasks.targets.harness.texts import check_decoding, generation_settings
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig

ANSWERS = "black box: answers the model writes to messages"
CONTINUED = f"{ANSWERS}, whose beginning the attacker chooses"
MESSAGES_ALONE = frozenset({"LocalChatCompletion"})
"""Model classes that receive messages and no text; by name, since importing a class may need a missing package."""
NEVER_CONTINUES = frozenset({"OpenAIChatCompletion"})
"""Model classes among these whose server answers an assistant's message with another message."""
CONTINUE = {"continue_final_message": True, "add_generation_prompt": False}
"""Arguments that make servers such as vLLM and SGLang continue an assistant's message; others do so by default."""
INSTEAD = "serve the model for --model local-completions, or use --model hf"


def takes_messages_alone(lm: LM) -> bool:
    """Return whether a harness model receives messages instead of text."""
    return bool(MESSAGES_ALONE.intersection(class_names(lm)))


def check_takes_text(lm: LM) -> None:
    """Raise TargetError for a model that receives only messages and so cannot continue any given text."""
    if takes_messages_alone(lm):
        raise TargetError(
            f"{class_names(lm)[0]} receives only messages, so nothing can be sampled after a prefix: {INSTEAD}"
        )


class ChatEndpoint(HarnessTarget):
    """A model that receives only messages; implements ``WritesTexts`` and ``CompletesText``.

    The request is the conversation up to the canary's turn, as it was planted; the model writes the turn. The
    continuation of a text is the part of the answer after the text, or empty if the answer does not contain the text.
    If the ``chat`` has ``prefill`` set, the text is sent too, as the beginning of the assistant's turn, which the
    server continues.

    Raises TargetError for a turn that is not the assistant's, and for ``prefill`` if the server cannot continue a turn.
    """

    def __init__(self, lm: LM, chat: Chat) -> None:
        super().__init__(lm)
        self.max_length, self._chat = None, chat
        self.access = CONTINUED if chat.prefill else ANSWERS
        name = class_names(lm)[0]
        if chat.role != "assistant":
            raise TargetError(
                f"{name} writes only the assistant's turn, but the canaries are in the {chat.role}'s turn: {INSTEAD}"
            )
        if chat.prefill and NEVER_CONTINUES.intersection(class_names(lm)):
            raise TargetError(f"prefill=true: the server of {name} cannot continue a turn: leave prefill out")

    @property
    def only_writes(self) -> bool:
        return True

    def length(self, text: str) -> None:
        """Return None, since such a model does not report lengths."""

    def log_perplexity(self, texts: Any) -> FloatArray:
        """Raise TargetError."""
        unscored(self._lm)

    def in_context(self, context: Context, space: Space) -> Never:
        """Raise TargetError."""
        raise TargetError(
            f"context={context}: {class_names(self._lm)[0]} receives messages, and a canary is a whole message: leave "
            "context out"
        )

    def complete(self, text: str, characters: int) -> str:
        settings = generation_settings(self._lm, DecodingConfig("greedy"), self._tokens(text, characters), 0.0)
        return self._after(text, self._drawn("messages", [(self._messages(text), self._extended(settings))])[0])

    def write(self, text: str, characters: int, number: int, scheme: DecodingConfig, seed: str) -> list[str]:
        """Sample ``number`` continuations of ``text``. Raises TargetError for models that do not sample."""
        check_decoding(self._lm, scheme)
        stream, length = random.Random(f"write:{seed}"), self._tokens(text, characters)
        settings = [generation_settings(self._lm, scheme, length, stream.random()) for _ in range(number)]
        answers = self._drawn("messages", [(self._messages(text), self._extended(setting)) for setting in settings])
        return [self._after(text, answer) for answer in answers]

    def _tokens(self, text: str, characters: int) -> int:
        return characters if self._chat.prefill else len(text) + characters

    def _extended(self, settings: dict[str, Any]) -> dict[str, Any]:
        return {**settings, **CONTINUE} if self._chat.prefill else settings

    def _messages(self, text: str) -> Any:
        """Return the messages in the form that the harness passes to the server."""
        turns: Conversation = self._chat.before_the_turn()
        if self._chat.prefill:
            turns = [*turns, {"role": "assistant", "content": text}]
        lm: Any = self._lm
        messages = lm.apply_chat_template(turns, add_generation_prompt=not self._chat.prefill)
        if isinstance(messages, str):
            raise TargetError(
                f"{class_names(lm)[0]} receives messages, but is set to convert them to text: leave tokenized_requests "
                "out of --model_args"
            )
        return messages

    def _after(self, text: str, answer: str) -> str:
        """Return the part of an answer after ``text``; an answer that continues it need not contain it."""
        _, separator, rest = answer.partition(text)
        return rest if separator or not self._chat.prefill else answer


def unscored(lm: LM) -> Never:
    """Raise TargetError, for callers that need log-likelihoods."""
    raise TargetError(
        f"{class_names(lm)[0]} receives only messages and gives no log-likelihoods: it supports only canary_extraction "
        f"with attack=sample-text or greedy; for other tasks {INSTEAD}"
    )
