"""The task ``membership``: can texts of the training data be distinguished from others by the model's figures?

A document is the number of a text with its class, cluster and part. Neither document nor request holds its characters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from leakage_tasks.attacks.membership.blind.scores import blind_scores
from leakage_tasks.attacks.membership.finding import MembershipFinding
from leakage_tasks.attacks.membership.registry import MEMBERSHIP_ATTACKS
from leakage_tasks.attacks.membership.request import SHOTS, WORDS
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.log import warn_once
from leakage_tasks.core.task_names import MEMBERSHIP as TASK
from leakage_tasks.metrics.membership import MEMBERSHIP
from leakage_tasks.metrics.membership_values import chosen_attack
from leakage_tasks.metrics.metric import Metric
from leakage_tasks.tasks.base_task import Document
from leakage_tasks.tasks.membership.handler import answering
from leakage_tasks.tasks.membership.options import (
    MEMBERSHIP_OPTIONS,
    MembershipOptions,
    read_membership_options,
)
from leakage_tasks.tasks.membership.texts import TestedTexts
from leakage_tasks.tasks.text_task import TextTask

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


class Membership(TextTask):
    """Membership inference on texts: scores of several attacks, and how well each separates the two classes."""

    OUTPUT_TYPE = "score_texts"
    DOCUMENTS, SOURCE = "texts", "texts"
    SCORING = MEMBERSHIP
    HANDLER = staticmethod(answering)
    OPTIONS = MEMBERSHIP_OPTIONS
    READ_OPTIONS = staticmethod(read_membership_options)
    NO_PROTOCOL = _DATA
    options: MembershipOptions
    _chosen: str | None = None

    def read_documents(self) -> list[Document]:
        """Read the texts, and return a document for each."""
        self._not_run: dict[str, str] = {}
        self._texts = self.options.tested()
        return documents(self._texts, self.options.request.tokens)

    def values_of(self, doc: Document, answer: str | tuple[str, str]) -> dict[str, Any]:
        """Return the values of one text; samples show only the values that its finding does not hold."""
        rows = super().values_of(doc, answer)
        return {name: Unlogged(value) if isinstance(value, tuple | dict) else value for name, value in rows.items()}

    def note_attack(self, finding: MembershipFinding) -> None:
        """Record each attack of a text with its access to the model, and the attacks that do not run."""
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

    def verdict(self) -> str:
        """Return the attack of the primary figures, and the verdict without its reason."""
        return ": ".join(words for words in (self._chosen, super().verdict()) if words)

    def lacks(self) -> str:
        """Return the reason why no metric of a run without blind baselines represents the model."""
        return "" if any(doc["blind"] for doc in self._docs) else NO_BLIND

    def usual(self) -> dict[str, Any]:
        """Return the defaults of attacks that their options turn on; the protocol names the attacks that ran."""
        return {"shots": SHOTS, "neighbours": WORDS}

    def hashes(self) -> dict[str, str]:
        """Return the hash of the texts."""
        return {"data": self._texts.digest[:16]}

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
