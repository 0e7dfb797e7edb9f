"""The task ``membership``: can texts of the training data be distinguished from others by the model's figures?

A document is the number of a text with its class, cluster and part. Neither document nor request holds its characters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from leakage_tasks.attacks.membership.blind.scores import blind_scores
from leakage_tasks.attacks.membership.finding import membership_finding_from_json
from leakage_tasks.attacks.membership.registry import MEMBERSHIP_ATTACKS
from leakage_tasks.canaries.canary import MASK
from leakage_tasks.canaries.chat import Chat, protocol_of
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.log import warn_once
from leakage_tasks.harness.api import LM
from leakage_tasks.harness.chat_templates import template_name
from leakage_tasks.metrics.membership import membership_metrics
from leakage_tasks.metrics.membership_scoring import MEMBERSHIP
from leakage_tasks.metrics.membership_values import chosen_attack
from leakage_tasks.metrics.metric import Metric
from leakage_tasks.metrics.scoring import inherited
from leakage_tasks.metrics.verdict import verdict_of
from leakage_tasks.tasks.base_task import Document, LocalTask
from leakage_tasks.tasks.dispatch import Answer
from leakage_tasks.tasks.membership.handler import answering
from leakage_tasks.tasks.membership.options import (
    MEMBERSHIP_OPTIONS,
    TASK,
    MembershipOptions,
    read_membership_options,
)
from leakage_tasks.tasks.membership.texts import TestedTexts

_DATA = {
    "members",
    "nonmembers",
    "suspected",
    "canaries",
    "tokenizer",
    "text_column",
    "split",
    "documents",
    "cluster",
    "seed",
}
PRIMARY = "membership_auc"
KINDS = ("members", "nonmembers", "suspected")
"""Kinds of texts, in the order of :attr:`.TestedTexts.available`."""
CHARACTERS = 8
"""Number of characters per token that blind baselines read: more than most tokens have."""
SEE_FINDING = "see resps"
"""Text in samples in place of a row's value."""
NO_BLIND = "no blind baseline shows if the texts differ without the model: give more texts of each class"


class Unlogged(str):
    """A text's value of a row, written to samples as :data:`SEE_FINDING`: most rows share the scores of the finding."""

    value: Any

    def __new__(cls, value: Any) -> Unlogged:
        written = super().__new__(cls, SEE_FINDING)
        written.value = value
        return written


def value_of(value: Any) -> Any:
    """Return the value of a row."""
    return value.value if isinstance(value, Unlogged) else value


class Membership(LocalTask):
    """Membership inference on texts: scores of several attacks, and how well each separates the two classes."""

    OUTPUT_TYPE = "score_texts"
    CHATS = True
    DOCUMENTS, SOURCE = "texts", "texts"
    SCORING = MEMBERSHIP

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self._chat: Chat | None = None
        self._chosen: str | None = None
        self._not_run: dict[str, str] = {}
        self.METRICS = list(membership_metrics())
        with self.may_lack_options():
            self._take(read_membership_options(self.metadata))

    def _take(self, options: MembershipOptions) -> None:
        self.options = options
        self._texts = options.tested()
        self._docs = documents(self._texts, options.request.tokens)

    def build_all_requests(self, **given: Any) -> None:
        """Build the requests; with a chat template, a text is the assistant's turn."""
        system = given.get("system_instruction")
        self._chat = Chat(system=system, template=template_name()) if given.get("apply_chat_template") else None
        super().build_all_requests(**given)

    @classmethod
    def answering(cls, lm: LM) -> Answer:
        """Return the function that scores the texts of a group of requests."""
        return answering(lm)

    def doc_to_text(self, doc: Mapping[str, Any]) -> str:
        """Return a mask: the texts may be private."""
        return MASK

    def doc_to_target(self, doc: Mapping[str, Any]) -> str:
        """Return a mask: no answer is expected."""
        return MASK

    def request_argument(self, doc: Document) -> dict[str, Any]:
        """Return the settings of the attacks; the document is the text's number."""
        chat = {} if self._chat is None else {"chat": self._chat.to_json()}
        return {**self.options.given, "optional": self.optional, **chat, **inherited(self.SCORING, self.task_name)}

    def values_of(self, doc: Document, answer: str) -> dict[str, Any]:
        """Return the values of one text."""
        self.note_attack(answer)
        values = self.SCORING.values(self.SCORING.read(answer), "none", self.options.given, {})
        rows = values if self.options.rows == "all" else self.in_rows(values)
        return {name: Unlogged(value) if isinstance(value, tuple | dict) else value for name, value in rows.items()}

    def note_attack(self, answer: str) -> None:
        """Record each attack of an answer with its access to the model, and the attacks that do not run."""
        finding = membership_finding_from_json(answer)
        self._attacks |= {(name, MEMBERSHIP_ATTACKS[name].access) for name in finding.scores}
        self._not_run |= finding.not_run

    def _aggregated(self, metric: Metric, values: Sequence[Any]) -> float | None:
        values = [value_of(value) for value in values]
        if metric.name == PRIMARY:
            scored = [value for value in values if value is not None]
            self._chosen = chosen_attack(scored)
            if self._chosen is None and self.limited is None:
                raise TargetError(
                    f"{self.task_name}: every attack gives all {len(scored)} texts one score, so nothing is measured: "
                    "check the model with canary_exposure or leakage doctor"
                )
        return super()._aggregated(metric, values)

    def _aggregate_more(self, rows: Sequence[Any]) -> int:
        return super()._aggregate_more([value_of(row) for row in rows])

    def table_note(self) -> str:
        """Return the attack of the primary figures and the verdict without its reason, or the reason for neither."""
        if super().table_note() or not self.found or self.is_null:
            return super().table_note()
        verdict = verdict_of(self.found, {})
        return ": ".join(words for words in (self._chosen, verdict and verdict.label) if words)

    def no_headline(self) -> str:
        """Return the reason why no metric of the run represents the model; without blind baselines none does."""
        lacks = self.lacking is None and not any(doc["blind"] for doc in self._docs)
        return super().no_headline() or (NO_BLIND if lacks else "")

    def protocol(self) -> dict[str, Any]:
        """Return the hash of the texts, and the options that two comparable runs must share."""
        given, usual = self.options.given, {name: option.default for name, option in MEMBERSHIP_OPTIONS.items()}
        chosen = {
            name: value
            for name, value in given.items()
            if MEMBERSHIP_OPTIONS[name].affects_results and name not in _DATA and value != usual.get(name)
        }
        return {"data": self._texts.digest[:16], **chosen, **protocol_of(self._chat)}

    def tested(self) -> dict[str, Any]:
        """Return the numbers of texts, the part of the data that they are, the attack chosen, and attacks not run."""
        kinds = Counter(_kind(doc) for doc in self.used)
        return {
            **{kind: kinds[kind] for kind, _ in zip(KINDS, self._texts.available, strict=False)},
            **{f"{kind}_available": number for kind, number in zip(KINDS, self._texts.available, strict=False)},
            **({"clusters": self._texts.clusters} if self._texts.clusters < len(self._texts.texts) else {}),
            "seed": self.options.request.seed,
            **({"chosen_attack": self._chosen} if self._chosen else {}),
            **({"not_run": self._not_run} if self._not_run else {}),
        }

    def nulls(self) -> dict[str, None]:
        """Return None for the most important metrics."""
        return dict.fromkeys(self.SCORING.nulls())


def _kind(doc: Document) -> str:
    return "suspected" if doc.get("suspected") else "members" if doc["member"] else "nonmembers"


def documents(tested: TestedTexts, tokens: int) -> list[Document]:
    """Return the record of each text, without its characters.

    ``blind`` are scores of baselines that need the characters but not the model. ``tokens`` is the number of tokens
    that the model reads of a text.
    """
    unknown = any(text.suspected for text in tested.texts)
    return [
        {
            "text": text.number,
            "member": text.member,
            "cluster": text.cluster,
            "chooses": text.chooses,
            "digest": tested.digest[:16],
            "blind": blind,
            **({"suspected": text.suspected} if unknown else {}),
        }
        for text, blind in zip(tested.texts, _blind(tested, tokens), strict=True)
    ]


@lru_cache(maxsize=2)
def _blind(tested: TestedTexts, tokens: int) -> tuple[dict[str, float], ...]:
    """Return the blind scores of each text by baseline; empty if the texts are too few for a cross-validation, and for
    suspected texts, which come last."""
    known = [text for text in tested.texts if not text.suspected]
    texts, members, clusters = zip(*((text.text, text.member, text.cluster) for text in known), strict=True)
    nothing: tuple[dict[str, float], ...] = ({},) * (len(tested.texts) - len(known))
    read = [text[: tokens * CHARACTERS] for text in texts]
    try:
        scores = blind_scores(read, members, clusters)
    except ValueError as error:
        warn_once(f"{TASK}: no blind baselines, so no verdict: {error}; give more texts, or texts of more clusters")
        return ({},) * len(tested.texts)
    return tuple({name: of[index] for name, of in scores.items()} for index in range(len(texts))) + nothing
