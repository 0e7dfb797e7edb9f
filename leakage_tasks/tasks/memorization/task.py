"""The task ``memorization``: how much of the user's documents does a finished model write from their beginnings?

It attacks windows of documents as ``suffix_extraction`` attacks pairs, with greedy decoding. A document of the harness
is the id of a window with its place in the user's data, without a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.canaries.chat import protocol_of
from leakage_tasks.core.log import warn_once
from leakage_tasks.harness.api import LM
from leakage_tasks.metrics.memorization_scoring import MEMORIZATION
from leakage_tasks.pairs import Pair
from leakage_tasks.pairs.source import pairs_hash
from leakage_tasks.tasks.base_task import Document
from leakage_tasks.tasks.dispatch import Answer as Answering
from leakage_tasks.tasks.memorization.options import (
    MEMORIZATION_OPTIONS,
    TASK,
    MemorizationOptions,
    memorization_options,
    read_memorization_options,
)
from leakage_tasks.tasks.suffix.suffix_handler import answering
from leakage_tasks.tasks.suffix.task import SuffixExtraction


def _default(name: str) -> Any:
    """Return the default of an option in the form of a value that was read."""
    default = MEMORIZATION_OPTIONS[name].default
    return list(default) if isinstance(default, tuple) else default


NO_CONTROLS = "no controls show how much of the text can be guessed: give controls=…"
_NO_PROTOCOL = {"data", "controls", "tokenizer", "text_column", "split", "documents", "seed", "reveal"}


class Memorization(SuffixExtraction):
    """Verbatim and near-verbatim completion of document windows, with the cost of the true text, next to controls."""

    OUTPUT_TYPE = "attack_windows"
    DOCUMENTS, SOURCE = "windows", "documents"
    SCORING = MEMORIZATION
    READ_OPTIONS = staticmethod(read_memorization_options)
    options: MemorizationOptions

    @classmethod
    def answering(cls, lm: LM) -> Answering:
        """Return the function that attacks the windows of a group of requests."""
        return answering(lm, TASK, memorization_options)

    def own_metrics(self, given: Mapping[str, Any]) -> list[Any]:
        """Return the metrics for the options ``given``."""
        return [*self.SCORING.metrics(given, {})]

    def document(self, place: int | None, pair: Pair, reveal: bool) -> Document:
        """Return the record of a window, with its document and its place in the document."""
        return {**super().document(place, pair, reveal), "document": pair.document, "offset": pair.offset}

    def advise(self, options: MemorizationOptions, tested: int) -> None:  # type: ignore[override]
        """Warn if many of the sampled documents are too short."""
        sampled = options.sampled()
        if sampled.short * 2 > sampled.sampled:
            warn_once(
                f"{TASK}: {sampled.short:,} of {sampled.sampled:,} sampled documents are shorter than "
                f"{options.documents.width} tokens after offset={options.documents.offset} and are not attacked: lower "
                "prefix= or suffix=, or raise documents="
            )

    def values_of(self, doc: Document, answer: tuple[str, str]) -> dict[str, Any]:
        """Return the values of one column for one window; all None if the window was left out."""
        name, finding = answer
        if name == HEADLINE:
            self.note_attack(finding)
        return self.in_column(name, self.SCORING.values(finding, name, self.options.given, {}))

    def protocol(self) -> dict[str, Any]:
        """Return the hash of the windows, and the options that two comparable runs must share."""
        given = self.options.given
        chosen = {
            name: value
            for name, value in given.items()
            if name in MEMORIZATION_OPTIONS
            and MEMORIZATION_OPTIONS[name].affects_results
            and name not in _NO_PROTOCOL
            and value != _default(name)
        }
        unseen = {} if self.options.controls is None else {"controls": pairs_hash(self.options.unseen())}
        return {"data": pairs_hash(self._pairs), **unseen, **chosen, **protocol_of(self._chat)}

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

    def no_headline(self) -> str:
        """Return the reason why no metric represents the model: a limited run, or no controls."""
        return super().no_headline() or (NO_CONTROLS if self.lacking is None and self.options.controls is None else "")
