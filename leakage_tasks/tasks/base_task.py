"""Base class of this package's harness tasks: documents in memory, one request per document, and declared metrics."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, Literal

from leakage_tasks.attacks.classes import AttackClass
from leakage_tasks.canaries.chat import Chat
from leakage_tasks.core.errors import LeakageError, MissingOption, OptionError
from leakage_tasks.core.log import log, warn_once
from leakage_tasks.core.nouns import counted
from leakage_tasks.core.null_results import FIELD, reason_of
from leakage_tasks.core.processes import launched
from leakage_tasks.core.version import __version__
from leakage_tasks.harness.api import LM, Instance
from leakage_tasks.harness.chat_templates import template_name
from leakage_tasks.harness.generation import HarnessTask, request
from leakage_tasks.harness.given import full_metadata
from leakage_tasks.harness.table_number import TableNumber
from leakage_tasks.metrics.metric import MORE, Metric, limited_words
from leakage_tasks.metrics.scoring import Scoring, inherited
from leakage_tasks.metrics.verdict import verdict_of
from leakage_tasks.tasks.dispatch import Answer, answer_by_group, let_models_answer
from leakage_tasks.tasks.options import warn_of_unused
from leakage_tasks.tasks.own_command import own_command
from leakage_tasks.tasks.sharing import EVERY_NTH, WITHOUT_DOCUMENT

DECLARED = "leakage"
"""Key of a task's configuration in a results file under which the task declares its metrics and protocol."""
DRAWING = "they write as --metadata says (for suffix_extraction decoding=…,temperature=…,top_p=…,top_k=…)"
"""Reason why ``--gen_kwargs`` has no effect, and the options to use instead."""


Document = dict[str, Any]
"""A JSON-able record of one canary, pair or text, with the task's own fields."""


class LocalTask(HarnessTask):
    """A task over its own documents. Subclasses set ``_docs`` before the first use.

    ``METRICS`` are its metrics. ``DOCUMENTS`` and ``SOURCE`` name its documents and their origin in messages.
    ``MEASURES`` decides if reports list its metrics under leakage or under usefulness.

    If ``optional`` is set in the configuration, as a group sets it for its members, a request that the model or the
    options cannot serve is null instead of an error. A subclass supports this as follows: it puts ``self.optional``
    into its requests' settings, returns :meth:`nulls` if it :attr:`is_null`, and reads options it needs inside
    :meth:`may_lack_options`. Its ``doc_to_target`` then gets a placeholder document that holds only the reason.

    If some metrics are ``in_table``, the harness' table shows only these, and the number of the others in the row
    :data:`.MORE`. In samples that row holds the values of the other metrics; in the results file the declaration holds
    their aggregates.
    """

    METRICS: list[Metric]
    DOCUMENTS: str
    SOURCE: str
    MEASURES: Literal["leakage", "usefulness"] = "leakage"
    SCORING: Scoring | None = None
    """Scoring of saved samples; None if samples of the task cannot be scored again. Subclasses inherit it."""
    OUTPUT_TYPE: str
    """Type of the requests, which :meth:`answers` serves on every model."""
    CHATS = False
    """True if ``--apply_chat_template`` and ``--system_instruction`` affect the task."""
    HANDLER: Callable[[LM], Answer]
    """Function that returns, once per run, the function that answers a group of requests with equal settings."""
    SHARING = EVERY_NTH
    """Method by which several processes share the requests."""
    alone = False
    """True if the run has only tasks of this package; set by the plugin after all tasks are loaded."""
    other_tasks: Collection[str] = ()
    """Names of all other tasks in the run; set by the plugin."""
    CORPUS = False
    """True if the option ``data`` names training text."""
    _docs: list[Document]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if {"answers", "HANDLER"} & vars(cls).keys():
            let_models_answer(cls.OUTPUT_TYPE, cls.answers, cls)

    @classmethod
    def answers(cls, lm: LM, requests: Sequence[Instance]) -> Sequence[Any]:
        """Return one answer per request, in the order of ``requests``."""
        return answer_by_group(lm, requests, cls.HANDLER(lm), cls.SHARING)

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        values = {name: value for name, value in (config or {}).items() if name not in ("class", "optional")}
        self.optional = bool((config or {}).get("optional", False))
        self._chat: Chat | None = None
        self.lacking: str | None = None
        self._attacks: set[tuple[str, str]] = set()
        self._used: list[Document] | None = None
        self.found: dict[str, float | None] = {}
        self._more: list[str] = []
        super().__init__({**values, "metadata": full_metadata(values.get("metadata") or {})})
        self.metadata: Mapping[str, Any] = self._config.metadata or {}
        self.columns: dict[str, Callable[[Any], Any]] = {"none": _whole}

    def not_taken(self, option: str, value: Any) -> None:
        """Handle an option of the run that tasks of this package ignore: warn, or raise an error if there are no other
        tasks."""
        if option == "num_fewshot":
            refuse_option(f"--num_fewshot {value}", "they take no examples", self.alone)
        else:
            refuse_option("--gen_kwargs", DRAWING, self.alone)

    @contextmanager
    def may_lack_options(self, *errors: type[LeakageError]) -> Iterator[None]:
        """Run the ``with`` block. If an option is missing, or one of ``errors`` is raised, and the task is optional,
        make the task null for that reason."""
        caught: tuple[type[LeakageError], ...] = (MissingOption, *errors)
        try:
            yield
        except caught as error:
            if not self.optional:
                raise
            self.lacking = str(error)
            self._docs = [{FIELD: self.lacking}]

    @property
    def is_null(self) -> bool:
        """True if some process could not answer the requests, so that all results are null."""
        answers: list[Any] = self._instances[0].resps if self._instances else []
        return bool(answers) and reason_of(answers[0]) is not None

    def dump_config(self) -> dict[str, Any]:
        """Return the task's configuration for the results file, with the declarations for reports under
        :data:`DECLARED`.

        The name in the harness' table includes the verdict.
        """
        config = {**super().dump_config(), DECLARED: self._declaration()}
        verdict = self.table_note()
        if verdict:
            config["task_alias"] = f"{config.get('task_alias') or self.task_name} ({verdict})"
        return config

    def table_note(self) -> str:
        """Return the text after the task's name in the harness' table: a verdict, or the reason for a missing
        verdict."""
        if "bypass" in (getattr(self, "_metric_fn_list", None) or ()):
            return "not scored"  # under --predict_only
        if self.built_in:
            return "self-test"
        number = "no primary metric" if self.limited is None else f"limited to {self.limited[0]} of {self.limited[1]}"
        return number if self.no_headline() else self.verdict()

    def verdict(self) -> str:
        """Return the verdict without its reason; empty for a task without a test, and for a null task."""
        tested = self.SCORING is not None and self.found and not self.is_null
        verdict = verdict_of(self.found, self.tested()) if tested else None
        return "" if verdict is None else verdict.label

    @property
    def built_in(self) -> bool:
        """True if the documents are built in: the run is then a self-test and does not measure the model's leakage."""
        return False

    def no_headline(self) -> str:
        """Return the reason why no metric of the run represents the model; empty if the primary metric does."""
        if self.limited is None or self.MEASURES != "leakage":
            return ""
        return limited_words(*self.limited, self.DOCUMENTS)

    @property
    def limited(self) -> tuple[int, int] | None:
        """The number of documents in the run and in total, if ``--limit`` or ``--samples`` left out some documents;
        else None."""
        used = len({id(doc) for doc in self.used})
        return (used, len(self._docs)) if used < len(self._docs) else None

    def protocol(self) -> dict[str, Any]:
        """Return the settings that two comparable runs must share, by name: hash of the data, options of the attack.

        Options with their default value are omitted.
        """
        return {}

    @property
    def used(self) -> list[Document]:
        """The documents of the run: all documents, or the user's selection."""
        return self._docs if self._used is None else self._used

    def tested(self) -> dict[str, Any]:
        """Return the facts on the documents that reports show next to the metrics, by name.

        ``not_run`` maps each attack that the model could not serve to the reason.
        """
        return {self.DOCUMENTS: len(self.used)}

    def note_attack(self, finding: Any) -> None:
        """Record the attack, or scheme of decoding, that produced a finding, and its access to the model.

        ``finding`` is the parsed answer (:attr:`.Scoring.read`).
        """
        self._attacks.add((getattr(finding, "attack", "") or finding.scheme, finding.access))

    def attack_classes(self) -> set[AttackClass]:
        """Return the classes of the attacks that ran, which reports list next to the questions of authorities."""
        return set(() if self.SCORING is None else self.SCORING.classes)

    def _declaration(self) -> dict[str, Any]:
        command = own_command()
        # A limited run needs the hash of its own documents.
        part = {} if self.limited is None else {"part": fingerprint(self.used)}
        return {
            "schema": 2,
            "version": __version__,
            "measures": self.MEASURES,
            "protocol": {} if self.is_null else {**self.protocol(), **part},
            "tested": {} if self.is_null else self.tested(),
            **({"no_headline": self.no_headline()} if self.no_headline() else {}),
            **({"built_in": True} if self.built_in else {}),
            **({"command": command} if command else {}),
            **(inherited(self.SCORING, self.task_name) if self.SCORING else {}),
            "attacks": [{"attack": attack, "access": access} for attack, access in sorted(self._attacks)],
            **({"classes": classes} if (classes := sorted(self.attack_classes())) else {}),
            "rows": {metric.name: metric.declaration() for metric in self.metrics},
            **({MORE: {name: self.found.get(name) for name in self._more}} if self._more else {}),
        }

    @property
    def metrics(self) -> Sequence[Metric]:
        """All metrics that the task may report."""
        return self.METRICS

    def in_rows(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a document for the harness: the metrics in the table, and all others under
        :data:`.MORE`."""
        brief = self._brief_of(tuple(self.metrics))
        shown = {name: value for name, value in values.items() if name in brief}
        more = {name: value for name, value in values.items() if name not in brief}
        return {**shown, MORE: more} if shown and more else dict(values)

    @staticmethod
    @lru_cache(maxsize=8)
    def _brief_of(metrics: tuple[Metric, ...]) -> frozenset[str]:
        return frozenset(metric.name for metric in metrics if metric.in_table)

    def nulls(self) -> dict[str, None]:
        """Return None for each metric that an unanswered task shows."""
        return dict.fromkeys([metric.name for metric in self.metrics] if self.SCORING is None else self.SCORING.nulls())

    def has_training_docs(self) -> bool:
        """Return False, because the documents are only for testing."""
        return False

    def has_validation_docs(self) -> bool:
        """Return False, because the documents are only for testing."""
        return False

    def has_test_docs(self) -> bool:
        """Return True, because all documents are for testing."""
        return True

    def test_docs(self) -> list[Document]:
        """Return the documents."""
        return self._docs

    def fewshot_context(self, doc: Any, num_fewshot: int = 0, **settings: Any) -> str:
        """Return the document's text without few-shot examples; the target applies a chat template, if any."""
        if settings.get("apply_chat_template"):
            if not self.CHATS:
                warn_once(f"{self.task_name} takes plain text; the chat template is not applied to it")
            if not settings.get("fewshot_as_multiturn", True):
                refuse_option("--fewshot_as_multiturn", "they take no examples", False)
        return self.doc_to_text(doc)

    def build_all_requests(self, *, limit: int | None = None, rank: int = 0, world_size: int = 1, **rest: Any) -> None:
        """Build the requests of this process.

        A process without a document of its own gets a copy of the first request. Raises OptionError on all processes if
        there are too few documents and the processes are not connected.
        """
        self.take_chat(rest)
        if self.alone or self.other_tasks:
            warn_of_unused(self.metadata, {self.task_name, *self.other_tasks})
        if self.lacking is not None:
            self._stand_in(rank)
            return
        self.found = {}
        self._used = self._selected(limit, rest.get("samples"))
        number = len(self._used)
        if number < world_size and not (number and self.is_shared()):
            raise OptionError(
                f"{self.task_name}: {number} {self.DOCUMENTS} for {world_size} processes, each needs one: "
                f"use {counted(number, 'process')} or more {self.DOCUMENTS}"
            )
        if rest.get("system_instruction") and not (self.CHATS and rest.get("apply_chat_template")):
            unless = " unless --apply_chat_template is given" if self.CHATS else ""
            refuse_option("--system_instruction", f"they take plain text, with nothing before it{unless}", self.alone)
        if rest.pop("cache_requests", False):
            warn_once(
                f"{self.task_name}: requests are not cached, as the harness' cache does not distinguish {self.SOURCE}"
            )
        spare = number <= rank
        if spare:
            rank, world_size = 0, number
        self.spare = False
        super().build_all_requests(limit=limit, rank=rank, world_size=world_size, **rest)
        self.spare = spare
        (WITHOUT_DOCUMENT.add if spare else WITHOUT_DOCUMENT.discard)(self.task_name)

    def _selected(self, limit: int | None, samples: Sequence[Any] | None) -> list[Document]:
        """Return the documents that ``--limit`` or ``--samples`` select, in their own order.

        Raises OptionError for an index that no document has, and if no document is left.
        """
        number = len(self._docs)
        if samples:
            wrong = [index for index in samples if not isinstance(index, int) or not 0 <= index < number]
            if wrong:
                raise OptionError(
                    f"--samples: {self.task_name} has {number} {self.DOCUMENTS}, so no index {wrong[0]!r}: "
                    f"use whole numbers from 0 to {number - 1}"
                )
            return [self._docs[index] for index in sorted(set(samples))]
        if limit is not None and limit < 1:
            raise OptionError(f"--limit: leaves no {self.DOCUMENTS} for {self.task_name}: use 1 or more")
        return self._docs[:limit]

    def take_chat(self, given: Mapping[str, Any]) -> None:
        """Set the chat that the harness' options request, if any; the target applies it to the turn of a document."""
        self._chat = self.chat_of(given) if self.CHATS and given.get("apply_chat_template") else None

    def chat_of(self, given: Mapping[str, Any]) -> Chat:
        """Return the chat of a run with ``--apply_chat_template``: a document's text is in the assistant's turn."""
        return Chat(system=given.get("system_instruction"), template=template_name())

    @classmethod
    def is_shared(cls) -> bool:
        """Return True if several processes share the task's requests and all of them get all answers."""
        overridden = any("answers" in vars(parent) for parent in cls.__mro__[: cls.__mro__.index(LocalTask)])
        return not overridden and launched() is not None

    def _stand_in(self, rank: int) -> None:
        """Build one placeholder request on every process. Its answer is the reason why the task is null."""
        if rank == 0:
            log.warning("leakage: %s is null: %s", self.task_name, self.lacking)
        task_settings = {"optional": True, FIELD: self.lacking}
        self._instances = [self._request(self._docs[0], "", task_settings, 0)]

    def request_of(self, doc: Document, text: str, doc_id: int) -> Instance:
        """Return the request of a document: its text, and the settings for the model."""
        return self._request(doc, text, self.request_argument(doc), doc_id)

    def request_argument(self, doc: Document) -> Any:
        """Return the second argument of a document's request: the settings of an attack, or a label."""
        raise NotImplementedError

    def _request(self, doc: Document, text: str, settings: Any, doc_id: int) -> Instance:
        return request(self.OUTPUT_TYPE, doc, (text, settings), doc_id, self.task_name, self.doc_to_target(doc))

    def process_results(self, doc: Document, results: Sequence[Any]) -> dict[str, Any]:
        """Return the value of every metric for one document; None if a metric does not apply or the task is null."""
        return dict(self.nulls()) if self.is_null else self.values_of(doc, results[0])

    def values_of(self, doc: Document, answer: Any) -> dict[str, Any]:
        """Return the value of every metric for a document's answer."""
        raise NotImplementedError

    def doc_iterator(self, **settings: Any) -> Iterator[tuple[int, Any]]:
        """Yield the documents of this process; every process yields the placeholder document of a null task."""
        return super().doc_iterator(**settings) if self.lacking is None else iter([(0, self._docs[0])])

    def aggregation(self) -> dict[str, Callable[..., float | None]]:
        """Return the aggregation of each metric; for a null task every aggregate is None."""
        if self.is_null:
            return {metric.name: lambda values: None for metric in self.metrics}
        return {
            **{metric.name: partial(self._aggregated, metric) for metric in self.metrics},
            MORE: self._aggregate_more,
        }

    def _aggregated(self, metric: Metric, values: Sequence[Any]) -> float | None:
        value = metric.aggregate(values)
        # The columns are aggregated one after another, the main one first.
        self.found.setdefault(metric.name, value)
        return TableNumber(value) if isinstance(value, float) else value

    def _aggregate_more(self, rows: Sequence[Mapping[str, Any]]) -> int:
        """Aggregate the metrics outside the table for the results file; return their number."""
        metrics = {metric.name: metric for metric in self.metrics}
        self._more = list(dict.fromkeys(name for row in rows for name in row))
        for name in self._more:
            self._aggregated(metrics[name], [row.get(name) for row in rows])
        return len(self._more)

    def higher_is_better(self) -> dict[str, bool | None]:
        """Return the direction of each metric: lower leakage and higher usefulness are better; None for counts."""
        return {MORE: None, **{metric.name: metric.higher_is_better for metric in self.metrics}}


def _whole(answer: Any) -> Any:
    return answer


def fingerprint(value: Any) -> str:
    """Return the SHA-256 of a JSON-able value, independent of the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def refuse_option(option: str, why: str, alone: bool) -> None:
    """Warn once per process about an option that may be meant for other tasks of the run.

    Raises OptionError if the task is ``alone``, because the option then has no other task.
    """
    message = f"{option} changes nothing for leakage tasks: {why}"
    if alone:
        raise OptionError(f"{message}; no other task is in this run, so leave it out")
    warn_once(message)
