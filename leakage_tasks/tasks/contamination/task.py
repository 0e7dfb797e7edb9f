"""The task ``contamination_test``: has a model seen the items of a benchmark?

A document is the number of a shard of consecutive items, or of an item with a rewritten twin. Neither document nor
request nor finding holds text.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, zip_longest
from typing import Any

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.canaries.canary import MASK
from leakage_tasks.canaries.chat import Chat, protocol_of
from leakage_tasks.harness.api import LM
from leakage_tasks.harness.chat_templates import template_name
from leakage_tasks.metrics.contamination import CONTAMINATION_TEST, contamination_rows
from leakage_tasks.metrics.scoring import inherited
from leakage_tasks.metrics.verdict import verdict_of
from leakage_tasks.tasks.base_task import Document, LocalTask
from leakage_tasks.tasks.contamination.handler import DIGEST, ORDER, TWINS, answering
from leakage_tasks.tasks.contamination.items import remember
from leakage_tasks.tasks.contamination.options import (
    CONTAMINATION_OPTIONS,
    ContaminationOptions,
    read_contamination_options,
)
from leakage_tasks.tasks.dispatch import Answer

_NO_PROTOCOL = {"items", "twins", "seed", "rows", "resume", "model_id"}


class ContaminationTest(LocalTask):
    """A benchmark's items in their canonical order next to shuffles, and next to rewritten twins."""

    OUTPUT_TYPE = "test_contamination"
    CHATS = True
    DOCUMENTS, SOURCE = "shards and twins", "benchmarks"
    SCORING = CONTAMINATION_TEST

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self._chat: Chat | None = None
        self.METRICS = list(contamination_rows(False))
        with self.may_lack_options():
            self._take(read_contamination_options(self.metadata))

    def _take(self, options: ContaminationOptions) -> None:
        items = options.read()
        self.options, self._items = options, items
        self._digest = remember(items)
        self.METRICS = list(contamination_rows(options.twins is not None, bool(options.near)))
        shards = [{"kind": ORDER, "number": shard} for shard in range(len(options.request.parts(len(items.items))))]
        twins = [{"kind": TWINS, "number": number} for number, _ in items.twins]
        # A part of the documents has both kinds.
        self._docs = [doc for doc in chain.from_iterable(zip_longest(shards, twins)) if doc is not None]

    def build_all_requests(self, **given: Any) -> None:
        """Build the requests; with a chat template, an item is a question of the user and an answer."""
        system = given.get("system_instruction")
        self._chat = Chat(system=system, template=template_name()) if given.get("apply_chat_template") else None
        super().build_all_requests(**given)

    @classmethod
    def answering(cls, lm: LM) -> Answer:
        """Return the function that scores the shards and twins of a group of requests."""
        return answering(lm)

    def doc_to_text(self, doc: Mapping[str, Any]) -> str:
        """Return a mask instead of the items."""
        return MASK

    def doc_to_target(self, doc: Mapping[str, Any]) -> str:
        """Return a mask: no answer is expected."""
        return MASK

    def request_argument(self, doc: Document) -> dict[str, Any]:
        """Return the settings of the test, with the digest of the items."""
        chat = {} if self._chat is None else {"chat": self._chat.to_json()}
        named = inherited(self.SCORING, self.task_name)
        return {**self.options.given, DIGEST: self._digest, "optional": self.optional, **chat, **named}

    def values_of(self, doc: Document, answer: str) -> dict[str, Any]:
        """Return the value of every metric for one shard or twin."""
        self.note_attack(answer)
        values = self.SCORING.values(self.SCORING.read(answer), HEADLINE, self.options.given, {})
        return values if self.options.rows == "all" else self.in_rows(values)

    def protocol(self) -> dict[str, Any]:
        """Return the benchmark, the hash of its items, and the options that two comparable runs must share."""
        given, usual = self.options.given, {name: option.default for name, option in CONTAMINATION_OPTIONS.items()}
        chosen = {name: given[name] for name in given if name not in _NO_PROTOCOL and given[name] != usual.get(name)}
        return {**chosen, "data": self._digest[:16], **protocol_of(self._chat)}

    def tested(self) -> dict[str, Any]:
        """Return the benchmark and the numbers of its items, shards, shuffles and twins."""
        kinds = [doc["kind"] for doc in self.used]
        return {
            "benchmark": self._items.benchmark,
            "items": len(self._items.items),
            "items_available": self._items.available,
            "shards": kinds.count(ORDER),
            "shuffles": self.options.request.shuffles,
            **({"twins": kinds.count(TWINS)} if TWINS in kinds else {}),
        }

    def table_note(self) -> str:
        """Return the verdict without its reason, or the reason for a missing verdict."""
        verdict = verdict_of(self.found, self.tested()) if self.found and not self.is_null else None
        return super().table_note() or ("" if verdict is None else verdict.label)

    def nulls(self) -> dict[str, None]:
        """Return None for the most important metrics."""
        return dict.fromkeys(self.SCORING.nulls())
