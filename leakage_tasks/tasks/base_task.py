"""What our harness tasks share: documents that are there already, one request each, metrics that declare themselves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, Literal

from leakage_tasks.core.errors import MissingOption, OptionError
from leakage_tasks.core.log import log, warn_once
from leakage_tasks.core.null_results import FIELD, reason_of
from leakage_tasks.core.processes import launched
from leakage_tasks.core.version import __version__
from leakage_tasks.harness.api import LM, Instance
from leakage_tasks.harness.generation import HarnessTask, request
from leakage_tasks.metrics.metric import MORE, Metric, limited_words
from leakage_tasks.metrics.scoring import Scoring, inherited
from leakage_tasks.tasks.dispatch import Answer, answer_by_group, let_models_answer
from leakage_tasks.tasks.own_command import own_command
from leakage_tasks.tasks.sharing import ALIKE, SPARE

DECLARED = "leakage"
"""The name under which a task's configuration in a results file holds what the task declares about itself."""
DRAWING = "they write as --metadata says (for suffix_extraction decoding=…,temperature=…,top_p=…,top_k=…)"
"""Why ``--gen_kwargs`` changes nothing, and what does instead."""


Document = dict[str, Any]
"""What the harness hands on for one canary, pair or text: JSON-able, the task's own fields."""


class LocalTask(HarnessTask):
    """A task over documents of its own. Subclasses set ``_docs`` before they are asked for any.

    ``METRICS`` are its rows; ``DOCUMENTS`` says in messages what its documents are, ``SOURCE`` what they come from;
    ``MEASURES`` whether reports put its figures with leakage or with usefulness.

    With ``optional`` in its config, as a group sets it for its members, what the model or the options at hand cannot
    answer is null instead of an error. For that a subclass puts ``self.optional`` into its requests' settings, results
    that are :meth:`nulls` where it :attr:`is_null`, and its options' reading into :meth:`may_lack_options` if it
    cannot do without some; its ``doc_to_target`` then meets a stand-in document that holds nothing but the reason.

    Where some rows are ``in_table``, the harness' table has them alone, and the number of the others in the row
    :data:`.MORE`; in samples that row holds their values, in the results file the declaration holds what they come to.
    """

    METRICS: list[Metric]
    DOCUMENTS: str
    SOURCE: str
    MEASURES: Literal["leakage", "usefulness"] = "leakage"
    SCORING: Scoring | None = None
    """How saved samples are scored again; None for a task whose samples cannot be. Subclasses inherit it."""
    OUTPUT_TYPE: str
    """The kind of its requests, which :meth:`answers` answers on every model."""
    CHATS = False
    """Whether ``--apply_chat_template`` and ``--system_instruction`` mean something to it."""
    SHARING = ALIKE
    """How several processes share its requests."""
    alone = False
    """Whether the run is known to hold no tasks but ours; the plugin says so once all are loaded."""
    company: Collection[str] = ()
    """The names of our other tasks in the run, which the plugin says, too."""
    _docs: list[Document]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if {"answers", "answering"} & vars(cls).keys():
            let_models_answer(cls.OUTPUT_TYPE, cls.answers, cls)

    @classmethod
    def answers(cls, lm: LM, requests: Sequence[Instance]) -> Sequence[Any]:
        """What a model answers to the task's requests, one answer a request, in their order."""
        return answer_by_group(lm, requests, cls.answering(lm), cls.SHARING)

    @classmethod
    def answering(cls, lm: LM) -> Answer:
        """What answers requests of one group, that is with the same :meth:`asked_of`; made once a run."""
        raise NotImplementedError

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        given = {name: value for name, value in (config or {}).items() if name not in ("class", "optional")}
        self.optional = bool((config or {}).get("optional", False))
        self.lacking: str | None = None
        self._attacks: set[tuple[str, str]] = set()
        self._used: list[Document] | None = None
        self.found: dict[str, float | None] = {}
        self._more: list[str] = []
        super().__init__(given)
        self.metadata: Mapping[str, Any] = self._config.metadata or {}
        self.columns: dict[str, Callable[[Any], Any]] = {"none": _whole}

    def not_taken(self, option: str, value: Any) -> None:
        """Hear of an option of the run that such tasks leave alone: one warning, or an error where they are alone."""
        if option == "num_fewshot":
            refuse_option(f"--num_fewshot {value}", "they take no examples", self.alone)
        else:
            refuse_option("--gen_kwargs", DRAWING, self.alone)

    @contextmanager
    def may_lack_options(self) -> Iterator[None]:
        """Where the task is optional, end the block at a MissingOption and let the task be null for that reason."""
        try:
            yield
        except MissingOption as error:
            if not self.optional:
                raise
            self.lacking = str(error)
            self._docs = [{FIELD: self.lacking}]

    @property
    def is_null(self) -> bool:
        """Whether the task's requests have come back unanswered: on every process, if on one."""
        answers: list[Any] = self._instances[0].resps if self._instances else []
        return bool(answers) and reason_of(answers[0]) is not None

    def dump_config(self) -> dict[str, Any]:
        """The task's configuration for the results file, with what reports go by under :data:`DECLARED`.

        The name in the harness' table says what to make of the rows.
        """
        config = {**super().dump_config(), DECLARED: self._declaration()}
        said = self.said()
        if said:
            config["task_alias"] = f"{config.get('task_alias') or self.task_name} ({said})"
        return config

    def said(self) -> str:
        """What stands beside the task's name in the harness' table: a verdict, or why there is none."""
        if "bypass" in (getattr(self, "_metric_fn_list", None) or ()):
            return "not scored"  # under --predict_only
        if self.built_in:
            return "self-test"
        number = "no headline" if self.limited is None else f"limited to {self.limited[0]} of {self.limited[1]}"
        return number if self.no_headline() else ""

    @property
    def built_in(self) -> bool:
        """Whether the documents are built in, so that the run is a self-test and says nothing of the model."""
        return False

    def no_headline(self) -> str:
        """Why no figure of the run may stand for the model; nothing where they may."""
        if self.limited is None or self.MEASURES != "leakage":
            return ""
        return limited_words(*self.limited, self.DOCUMENTS)

    @property
    def limited(self) -> tuple[int, int] | None:
        """The number of documents of the run, and of all, if ``--limit`` or ``--samples`` left some out."""
        used = len({id(doc) for doc in self.used})
        return (used, len(self._docs)) if used < len(self._docs) else None

    def protocol(self) -> dict[str, Any]:
        """What two runs must share for their figures to be comparable, by name: the data's hash, the attack's options.

        An option left at what it is unless given does not stand there.
        """
        return {}

    @property
    def used(self) -> list[Document]:
        """The documents of the run: all, or as many or those that the user asked for."""
        return self._docs if self._used is None else self._used

    def tested(self) -> dict[str, Any]:
        """What the figures rest on, by name, in words or numbers: for reports to say what was planted."""
        return {self.DOCUMENTS: len(self.used)}

    def note_attack(self, answer: str) -> None:
        """Note which attack an answer came of, and what access to the model it took."""
        found = json.loads(answer)
        self._attacks.add((found.get("attack") or found["scheme"], found["access"]))

    def _declaration(self) -> dict[str, Any]:
        command = own_command()
        # The documents of the run have a hash where they are not all there are.
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
            "rows": {metric.name: metric.declaration() for metric in self.metrics},
            **({MORE: {name: self.found.get(name) for name in self._more}} if self._more else {}),
        }

    @property
    def metrics(self) -> Sequence[Metric]:
        """The rows that there may be."""
        return self.METRICS

    def in_rows(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """A document's values as the harness is to have them: the brief rows, and the others under :data:`.MORE`."""
        brief = self._brief_of(tuple(self.metrics))
        shown = {name: value for name, value in values.items() if name in brief}
        more = {name: value for name, value in values.items() if name not in brief}
        return {**shown, MORE: more} if shown and more else dict(values)

    @staticmethod
    @lru_cache(maxsize=8)
    def _brief_of(metrics: tuple[Metric, ...]) -> frozenset[str]:
        return frozenset(metric.name for metric in metrics if metric.in_table)

    def nulls(self) -> dict[str, None]:
        """The results of a task that stayed unanswered: None for every metric."""
        return {metric.name: None for metric in self.metrics}

    def has_training_docs(self) -> bool:
        """The documents are for testing only."""
        return False

    def has_validation_docs(self) -> bool:
        """The documents are for testing only."""
        return False

    def has_test_docs(self) -> bool:
        """Every document is for testing."""
        return True

    def test_docs(self) -> list[Document]:
        """The documents."""
        return self._docs

    def fewshot_context(self, doc: Any, num_fewshot: int = 0, **settings: Any) -> str:
        """The text; it takes no examples, and what a chat template puts around it is the target's to find out."""
        if settings.get("apply_chat_template"):
            if not self.CHATS:
                warn_once(f"{self.task_name} takes plain text; the chat template is not applied to it")
            if not settings.get("fewshot_as_multiturn", True):
                refuse_option("--fewshot_as_multiturn", "they take no examples", False)
        return self.doc_to_text(doc)

    def build_all_requests(self, *, limit: int | None = None, rank: int = 0, world_size: int = 1, **rest: Any) -> None:
        """See the harness. Of a process without a document of its own the request is the first one's once more.

        Raises OptionError on all processes if there are too few documents and the processes do not know each other.
        """
        if self.lacking is not None:
            self._stand_in(rank)
            return
        chosen = rest.get("samples")
        self._used = [self._docs[place] for place in chosen] if chosen else self._docs[:limit]
        number = len(self._used)
        if number < world_size and not (number and self.is_shared()):
            raise OptionError(
                f"{self.task_name}: {number} {self.DOCUMENTS} for {world_size} processes, each needs one: "
                f"use {number} process(es) or more {self.DOCUMENTS}"
            )
        if rest.get("system_instruction") and not (self.CHATS and rest.get("apply_chat_template")):
            unless = " unless --apply_chat_template is given" if self.CHATS else ""
            refuse_option("--system_instruction", f"they take plain text, with nothing before it{unless}", self.alone)
        if rest.pop("cache_requests", False):
            warn_once(
                f"{self.task_name}: requests are not cached, since the harness' cache does not tell {self.SOURCE} apart"
            )
        spare = number <= rank
        if spare:
            rank, world_size = 0, number
        self.spare = False
        super().build_all_requests(limit=limit, rank=rank, world_size=world_size, **rest)
        self.spare = spare
        (SPARE.add if spare else SPARE.discard)(self.task_name)

    @classmethod
    def is_shared(cls) -> bool:
        """Whether processes share the task's requests here, and learn all answers."""
        own = any("answers" in vars(each) for each in cls.__mro__[: cls.__mro__.index(LocalTask)])
        return not own and launched() is not None

    def _stand_in(self, rank: int) -> None:
        """One request on every process, for the reason to come back as its answer."""
        if rank == 0:
            log.warning("leakage: %s is null: %s", self.task_name, self.lacking)
        task_settings = {"optional": True, FIELD: self.lacking}
        self._instances = [self._request(self._docs[0], "", task_settings, 0)]

    def request_of(self, doc: Document, text: str, doc_id: int) -> Instance:
        """One request: the text, and what is asked of the model."""
        return self._request(doc, text, self.asked_of(doc), doc_id)

    def asked_of(self, doc: Document) -> Any:
        """What the request of a document holds besides its text: an attack's settings, a label."""
        raise NotImplementedError

    def _request(self, doc: Document, text: str, asked: Any, doc_id: int) -> Instance:
        return request(self.OUTPUT_TYPE, doc, (text, asked), doc_id, self.task_name, self.doc_to_target(doc))

    def process_results(self, doc: Document, results: Sequence[Any]) -> dict[str, Any]:
        """The values of every metric for one document; None for those it has none of, and for all where null."""
        return dict(self.nulls()) if self.is_null else self.values_of(doc, results[0])

    def values_of(self, doc: Document, answer: Any) -> dict[str, Any]:
        """What a document's answer comes to, by metric."""
        raise NotImplementedError

    def doc_iterator(self, **settings: Any) -> Iterator[tuple[int, Any]]:
        """See the harness; every process sees the stand-in for documents there are none of."""
        return super().doc_iterator(**settings) if self.lacking is None else iter([(0, self._docs[0])])

    def aggregation(self) -> dict[str, Callable[..., float | None]]:
        """Aggregations by metric; of a null task not even counts are numbers."""
        if self.is_null:
            return {metric.name: lambda values: None for metric in self.metrics}
        return {
            **{metric.name: partial(self._aggregated, metric) for metric in self.metrics},
            MORE: self._aggregate_more,
        }

    def _aggregated(self, metric: Metric, values: Sequence[Any]) -> float | None:
        self.found[metric.name] = metric.aggregate(values)
        return self.found[metric.name]

    def _aggregate_more(self, rows: Sequence[Mapping[str, Any]]) -> int:
        """What the rows come to that the table does without, for the results file; their number."""
        metrics = {metric.name: metric for metric in self.metrics}
        self._more = list(dict.fromkeys(name for row in rows for name in row))
        for name in self._more:
            self._aggregated(metrics[name], [row.get(name) for row in rows])
        return len(self._more)

    def higher_is_better(self) -> dict[str, bool | None]:
        """Directions by metric: the defender's where it leaks, the user's where it is useful; None for counts."""
        return {MORE: None, **{metric.name: metric.higher_is_better for metric in self.metrics}}


def _whole(answer: Any) -> Any:
    return answer


def fingerprint(value: Any) -> str:
    """A SHA-256 of what JSON can hold, whatever the order of its names."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def refuse_option(option: str, why: str, alone: bool) -> None:
    """Warn, once in a process, of an option that may be meant for other tasks of the run.

    Raises OptionError where a task is ``alone``, with none but ours beside it: nobody can have been meant then.
    """
    message = f"{option} changes nothing for leakage tasks: {why}"
    if alone:
        raise OptionError(f"{message}; no other task is in this run, so leave it out")
    warn_once(message)
