"""The task ``memorization``: how much of the user's documents does a finished model write from their beginnings?

It attacks windows of documents as ``suffix_extraction`` attacks pairs, with greedy decoding. A document of the harness
is the id of a window with its place in the user's data, without a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from leakage_tasks.core.log import warn_once
from leakage_tasks.core.task_names import WINDOWS as TASK
from leakage_tasks.metrics.memorization import MEMORIZATION, NGRAM
from leakage_tasks.metrics.metric import Metric
from leakage_tasks.pairs import Pair
from leakage_tasks.tasks.base_task import Document
from leakage_tasks.tasks.memorization.options import (
    LENGTH,
    MEMORIZATION_OPTIONS,
    MemorizationOptions,
    memorization_options,
    read_memorization_options,
)
from leakage_tasks.tasks.suffix.suffix_handler import answering
from leakage_tasks.tasks.suffix.task import SuffixExtraction
from leakage_tasks.tasks.text_task import TextTask

NO_CONTROLS = "no controls show how much of the text can be guessed: give controls=…"


class Memorization(SuffixExtraction):
    """Verbatim and near-verbatim completion of document windows, with the cost of the true text, next to controls."""

    OUTPUT_TYPE = "attack_windows"
    DOCUMENTS, SOURCE = "windows", "documents"
    SCORING = MEMORIZATION
    HANDLER = staticmethod(partial(answering, task=TASK, read_options=memorization_options))
    OPTIONS = MEMORIZATION_OPTIONS
    READ_OPTIONS = staticmethod(read_memorization_options)
    NO_PROTOCOL = ("data", "controls", "tokenizer", "text_column", "split", "documents", "seed", "reveal")
    options: MemorizationOptions

    def metrics_for(self, given: Mapping[str, Any]) -> list[Metric[Any, Any]]:
        """Return the metrics for the options ``given``; the task writes no file of guesses."""
        return TextTask.metrics_for(self, given)

    def document(self, place: int | None, pair: Pair) -> Document:
        """Return the record of a window, with its document and its place in the document."""
        return {**super().document(place, pair), "document": pair.document, "offset": pair.offset}

    def usual(self) -> dict[str, Any]:
        """Return the default lengths; that of ``ngrams`` depends on the suffix."""
        return {"prefix": [LENGTH], "ngrams": [min(NGRAM, self.options.documents.suffix)]}

    def advise(self, tested: int) -> None:
        """Warn if many of the sampled documents are too short."""
        options, sampled = self.options, self.options.sampled()
        if sampled.short * 2 > sampled.sampled:
            warn_once(
                f"{TASK}: {sampled.short:,} of {sampled.sampled:,} sampled documents are shorter than "
                f"{options.documents.width} tokens after offset={options.documents.offset} and are not attacked: lower "
                "prefix= or suffix=, or raise documents="
            )

    def tested(self) -> dict[str, Any]:
        """Return the numbers of windows and documents, of documents left out, and the seed that drew them."""
        sampled, controls = self.options.sampled(), self.options.sampled_controls()
        facts = super().tested()
        return {
            "windows": facts.pop("pairs"),
            **facts,
            "documents": len({doc["document"] for doc in self.used if doc["pair"] >= 0}),
            "documents_available": sampled.available,
            "documents_too_short": sampled.short,
            **({"documents_repeated": sampled.repeated} if sampled.repeated else {}),
            **({} if controls is None else {"controls_too_short": controls.short}),
            "offset": self.options.documents.offset,
            "seed": self.options.documents.seed,
        }

    def lacks(self) -> str:
        """Return the reason why no metric of a run without controls represents the model."""
        return NO_CONTROLS if self.options.controls is None else ""
