"""The task ``untargeted_extraction``: does a model write its training text without being given its beginning?

A document is the identity of a text to write. Neither document nor request holds a prompt or a token.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.metrics.untargeted import UNTARGETED_EXTRACTION
from leakage_tasks.pairs.index.store import About
from leakage_tasks.tasks.base_task import Document
from leakage_tasks.tasks.text_task import TextTask
from leakage_tasks.tasks.untargeted.handler import answering
from leakage_tasks.tasks.untargeted.options import UNTARGETED_OPTIONS, UntargetedOptions, read_untargeted_options

NO_CONTROLS = "no controls: text that the model never saw shows how much of it anyone would write: pass controls=…"


class UntargetedExtraction(TextTask):
    """Search of texts that the model writes for runs of tokens of a corpus and of controls."""

    OUTPUT_TYPE = "write_texts"
    CORPUS = True
    DOCUMENTS, SOURCE = "texts", "corpora"
    SCORING = UNTARGETED_EXTRACTION
    HANDLER = staticmethod(answering)
    OPTIONS = UNTARGETED_OPTIONS
    READ_OPTIONS = staticmethod(read_untargeted_options)
    NO_PROTOCOL = ("data", "controls", "tokenizer", "text_column", "prompts", "ordinary", "seed")
    options: UntargetedOptions

    def read_documents(self) -> list[Document]:
        """Read corpus and controls, and return a document for each text to write."""
        options = self.options
        named = zip(("data", "controls"), options.checked_corpora(), strict=True)
        self._corpora: dict[str, About] = {name: index.about for name, index in named if index is not None}
        kinds = options.request.chosen if options.rows == "all" else ()
        self.columns = {name: partial(_column, name) for name in (HEADLINE, *kinds)}
        return [{"text": [text.kind, text.prompt, text.sample, text.unseen]} for text in options.text_ids()]

    def usual(self) -> dict[str, Any]:
        """Return the default length of the runs of propensity and capability."""
        return {"propensity_length": self.options.request.run_length}

    def hashes(self) -> dict[str, str]:
        """Return the hashes of the corpora and prompts."""
        return {name: about.corpus[:16] for name, about in self._corpora.items()} | self.options.texts.hashes()

    def tested(self) -> dict[str, Any]:
        """Return the number of texts, and the number of tokens and documents of corpus and controls."""
        sizes = {
            f"{'corpus' if name == 'data' else 'control'}_{unit}": getattr(about, unit)
            for name, about in self._corpora.items()
            for unit in ("tokens", "documents")
        }
        return {**super().tested(), **sizes}

    def lacks(self) -> str:
        """Return the reason why no metric of a run without controls represents the model."""
        return "" if "controls" in self._corpora else NO_CONTROLS


def _column(name: str, answer: str) -> tuple[str, str]:
    return name, answer
