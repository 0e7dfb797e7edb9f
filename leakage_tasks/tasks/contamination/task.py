"""The task ``contamination_test``: has a model seen the items of a benchmark?

A document is the number of a shard of consecutive items, or of an item with a rewritten twin. Neither document nor
request nor finding holds text.
"""

from __future__ import annotations

from itertools import chain, zip_longest
from typing import Any

from leakage_tasks.attacks.contamination.request import SHUFFLES, usual_shards
from leakage_tasks.metrics.contamination import CONTAMINATION_TEST
from leakage_tasks.tasks.base_task import Document
from leakage_tasks.tasks.contamination.handler import DIGEST, ORDER, TWINS, answering
from leakage_tasks.tasks.contamination.items import remember
from leakage_tasks.tasks.contamination.options import (
    CONTAMINATION_OPTIONS,
    ContaminationOptions,
    read_contamination_options,
)
from leakage_tasks.tasks.text_task import TextTask


class ContaminationTest(TextTask):
    """A benchmark's items in their canonical order next to shuffles, and next to rewritten twins."""

    OUTPUT_TYPE = "test_contamination"
    DOCUMENTS, SOURCE = "shards and twins", "benchmarks"
    SCORING = CONTAMINATION_TEST
    HANDLER = staticmethod(answering)
    OPTIONS = CONTAMINATION_OPTIONS
    READ_OPTIONS = staticmethod(read_contamination_options)
    NO_PROTOCOL = ("items", "twins", "seed")
    options: ContaminationOptions

    def read_documents(self) -> list[Document]:
        """Read the items, and return a document for each shard and each twin."""
        self._items = items = self.options.read()
        self._digest = remember(items)
        parts = self.options.request.parts(len(items.items))
        shards = [{"kind": ORDER, "number": shard} for shard in range(len(parts))]
        twins = [{"kind": TWINS, "number": number} for number, _ in items.twins]
        # A part of the documents has both kinds.
        return [doc for doc in chain.from_iterable(zip_longest(shards, twins)) if doc is not None]

    def usual(self) -> dict[str, Any]:
        """Return the default numbers of shards and shuffles."""
        return {
            "shards": usual_shards(len(self._items.items)),
            "permutations": SHUFFLES[self.options.request.form],
        }

    def request_argument(self, doc: Document) -> dict[str, Any]:
        """Return the settings of the test, with the digest of the items."""
        return {**super().request_argument(doc), DIGEST: self._digest}

    def hashes(self) -> dict[str, str]:
        """Return the hash of the items."""
        return {"data": self._digest[:16]}

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
