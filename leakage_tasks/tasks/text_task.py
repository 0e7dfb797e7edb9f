"""Base class of the tasks over texts that the options name: pairs, windows, texts to write, texts of two classes, items
of a benchmark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.canaries.canary import MASK
from leakage_tasks.canaries.chat import protocol_of
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.option import Options
from leakage_tasks.harness.chat_templates import run_arguments
from leakage_tasks.metrics.metric import Metric
from leakage_tasks.metrics.scoring import Scoring, inherited
from leakage_tasks.tasks.base_task import Document, LocalTask
from leakage_tasks.tasks.conversations import for_run

CONVERSATIONS = "conversations"
"""Value of the protocol's ``chat`` if the texts are rendered conversations."""


class TextTask(LocalTask):
    """A task that reads its texts when it is made, or conversations when the run's chat is known; neither document nor
    request holds a text.

    Subclasses set the attributes below, make the documents in :meth:`read_documents`, and state the data in
    :meth:`hashes` and :meth:`tested`.
    """

    CHATS = True
    SCORING: Scoring
    OPTIONS: Options
    """Declarations of the task's options, by name."""
    READ_OPTIONS: Callable[[Mapping[str, Any]], Any]
    """Function that reads the options from the metadata; raises MissingOption without data."""
    NO_PROTOCOL: Collection[str]
    """Options that affect results but not their comparability: data, whose hashes are in the protocol, and seeds."""
    options: Any

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self.METRICS = self.metrics_for({})
        self._chats = False
        with self.may_lack_options():
            self.options = self.READ_OPTIONS(self.metadata)
            self._chats = self.options.hold_chats()
            if not self._chats:
                self._docs = self.read_documents()
            self.METRICS = self.metrics_for(self.options.given)

    def test_docs(self) -> list[Document]:
        """Return the documents; before the requests are built, read conversations as the run's options request."""
        if not hasattr(self, "_docs"):
            self.take_chat(run_arguments())
        return super().test_docs()

    def take_chat(self, given: Mapping[str, Any]) -> None:
        """Set the chat that the harness' options request, and read conversations."""
        super().take_chat(given)
        if not self._chats:
            return
        with self.may_lack_options(TargetError):
            self.options = for_run(self.options, self._chat)
            self._docs = self.read_documents()

    def read_documents(self) -> list[Document]:
        """Read the data that :attr:`options` name, and return the documents. Raises OptionError."""
        raise NotImplementedError

    def metrics_for(self, given: Mapping[str, Any]) -> list[Metric[Any, Any]]:
        """Return the metrics for the options ``given``."""
        return [*self.SCORING.metrics(given, {})]

    def hashes(self) -> dict[str, str]:
        """Return the hashes of the data, by the name of the option."""
        raise NotImplementedError

    def lacks(self) -> str:
        """Return what the run lacks for a metric that represents the model, with the remedy; else an empty string."""
        return ""

    def doc_to_text(self, doc: Mapping[str, Any]) -> str:
        """Return a mask: texts may be private."""
        return MASK

    def doc_to_target(self, doc: Mapping[str, Any]) -> str:
        """Return a mask: texts may be private."""
        return MASK

    def request_argument(self, doc: Document) -> dict[str, Any]:
        """Return the settings of the attack; the text itself is read by the identity in its document."""
        chat = {} if self._chat is None else {"chat": self._chat.to_json()}
        return {**self.options.given, "optional": self.optional, **chat, **inherited(self.SCORING, self.task_name)}

    def values_of(self, doc: Document, answer: str | tuple[str, str]) -> dict[str, Any]:
        """Return the values of one column for one document.

        Without ``rows=all``, the main column has the metrics in the table, and the results file the others. Other
        columns have few metrics and keep all.
        """
        column, text = (HEADLINE, answer) if isinstance(answer, str) else answer
        finding = self.SCORING.read(text)
        if column == HEADLINE:  # Every column is read from equal answers.
            self.note_attack(finding)
        values = self.column_values(doc, column, finding)
        return self.in_rows(values) if column == HEADLINE and self.options.rows != "all" else values

    def column_values(self, doc: Document, column: str, finding: Any) -> dict[str, Any]:
        """Return all values of a document in a column from its finding, as the scoring reads it."""
        return self.SCORING.values(finding, column, self.options.given, {})

    def usual(self) -> dict[str, Any]:
        """Return the default values in this run, by option, that depend on other options or on the data."""
        return {}

    def protocol(self) -> dict[str, Any]:
        """Return the hashes of the data, and the options that two comparable runs must share."""
        usual = {**{name: option.default for name, option in self.OPTIONS.items()}, **self.usual()}
        chosen = {
            name: value
            for name, value in self.options.given.items()
            if self.OPTIONS[name].affects_results and name not in self.NO_PROTOCOL and value != usual[name]
        }
        rendered = {"chat": CONVERSATIONS} if self._chats and self._chat is not None else {}
        return {**self.hashes(), **chosen, **protocol_of(self._chat), **rendered}

    def no_headline(self) -> str:
        """Return the reason why no metric of the run represents the model; empty if the primary metric does."""
        return super().no_headline() or ("" if self.lacking is not None else self.lacks())
