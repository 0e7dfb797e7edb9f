"""The task ``untargeted_extraction``: does a model write its training text without being given its beginning?

A document is the identity of a text to write. Neither document nor request holds a prompt or a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.canaries.canary import MASK
from leakage_tasks.canaries.chat import Chat, protocol_of
from leakage_tasks.harness.api import LM
from leakage_tasks.harness.chat_templates import template_name
from leakage_tasks.metrics.scoring import UNTARGETED_EXTRACTION, inherited, untargeted_rows
from leakage_tasks.pairs.index.store import About
from leakage_tasks.tasks.base_task import Document, LocalTask
from leakage_tasks.tasks.dispatch import Answer
from leakage_tasks.tasks.untargeted.handler import answering
from leakage_tasks.tasks.untargeted.options import (
    UNTARGETED_OPTIONS,
    UntargetedOptions,
    read_untargeted_options,
)

_NO_PROTOCOL = {
    "data",
    "controls",
    "tokenizer",
    "prompts",
    "ordinary",
    "seed",
    "reveal",
    "resume",
    "model_id",
    "memory",
    "rows",
}
NO_CONTROLS = "no controls: text that the model never saw shows how much of it anyone would write: pass controls=…"


class UntargetedExtraction(LocalTask):
    """Search of texts that the model writes for runs of tokens of a corpus and of controls."""

    OUTPUT_TYPE = "write_texts"
    CORPUS = True
    CHATS = True
    DOCUMENTS, SOURCE = "texts", "corpora"
    SCORING = UNTARGETED_EXTRACTION

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self._chat: Chat | None = None
        self.METRICS = list(untargeted_rows({}))
        with self.may_lack_options():
            self._take(read_untargeted_options(self.metadata))

    def _take(self, options: UntargetedOptions) -> None:
        corpus, unseen = options.checked_corpora()
        self.options = options
        self._corpora: tuple[About, About | None] = corpus.about, None if unseen is None else unseen.about
        self.METRICS = list(untargeted_rows(options.given))
        self._docs = [{"text": [text.kind, text.prompt, text.sample, text.unseen]} for text in options.text_ids()]
        kinds = options.request.chosen if options.rows == "all" else ()
        self.columns = {name: partial(_column, name) for name in (HEADLINE, *kinds)}

    def build_all_requests(self, **given: Any) -> None:
        """Build the requests; with a chat template, a prompt is the user's turn."""
        system = given.get("system_instruction")
        self._chat = Chat(system=system, template=template_name()) if given.get("apply_chat_template") else None
        super().build_all_requests(**given)

    @classmethod
    def answering(cls, lm: LM) -> Answer:
        """Return the function that writes and searches the texts of a group of requests."""
        return answering(lm)

    def doc_to_text(self, doc: Mapping[str, Any]) -> str:
        """Return a mask: prompts may be private."""
        return MASK

    def doc_to_target(self, doc: Mapping[str, Any]) -> str:
        """Return a mask: no answer is expected."""
        return MASK

    def request_argument(self, doc: Document) -> dict[str, Any]:
        """Return the settings of the attack; the document is the text's identity."""
        chat = {} if self._chat is None else {"chat": self._chat.to_json()}
        return {**self.options.given, "optional": self.optional, **chat, **inherited(self.SCORING, self.task_name)}

    def values_of(self, doc: Document, answer: tuple[str, str]) -> dict[str, Any]:
        """Return the values of one column for one text."""
        column, text = answer
        if column == HEADLINE:
            self.note_attack(text)
        values = self.SCORING.values(self.SCORING.read(text), column, self.options.given, {})
        return values if self.options.rows == "all" or column != HEADLINE else self.in_rows(values)

    def protocol(self) -> dict[str, Any]:
        """Return the hashes of the corpora and prompts, and the options that two comparable runs must share."""
        given, usual = self.options.given, {name: option.default for name, option in UNTARGETED_OPTIONS.items()}
        chosen = {name: given[name] for name in given if name not in _NO_PROTOCOL and given[name] != usual.get(name)}
        hashes = {name: about.corpus[:16] for name, about in self._named() if about is not None}
        return {**hashes, **chosen, **self.options.texts.hashes(), **protocol_of(self._chat)}

    def tested(self) -> dict[str, Any]:
        """Return the number of texts, and the number of tokens and documents of corpus and controls."""
        sizes = {
            f"{'corpus' if name == 'data' else 'control'}_{what}": getattr(about, what)
            for name, about in self._named()
            if about is not None
            for what in ("tokens", "documents")
        }
        return {**super().tested(), **sizes}

    def no_headline(self) -> str:
        """Return the reason why no metric of the run represents the model; without controls none does."""
        reason = super().no_headline()
        return reason or ("" if self.lacking is not None or self._corpora[1] is not None else NO_CONTROLS)

    def nulls(self) -> dict[str, None]:
        """Return None for the most important metrics."""
        return dict.fromkeys(self.SCORING.nulls())

    def _named(self) -> tuple[tuple[str, About | None], ...]:
        return ("data", self._corpora[0]), ("controls", self._corpora[1])


def _column(name: str, answer: str) -> tuple[str, str]:
    return name, answer
