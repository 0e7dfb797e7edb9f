"""``--model classifier-scorer --model_args pretrained=CLASSIFIER``: a text classifier as a harness model.

The log-likelihood of a label after a text is log P(label | text). Multiple-choice tasks over label names therefore
evaluate a classifier like a language model, and attacks on the classifier run in the same command.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from tqdm import tqdm

from adapters.base import LOADING, MAX_LENGTH, Answer, LocalLM
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.core.log import warn_once
from leakage_tasks.core.option import Option
from leakage_tasks.harness.api import Instance
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.classifier.generators import TEXT, GeneratingTarget, load_generator
from leakage_tasks.targets.classifier.target import ClassifierTarget, load_classifier
from leakage_tasks.targets.classifier.text_generator import PRUNE, TEXTS
from leakage_tasks.targets.label_names import LabelNames, Labels, bare_name
from leakage_tasks.targets.tagger.target import TaggerTarget

LABELS = Option(
    "labels",
    object,
    None,
    "names of the classes: a JSON file (a list in their order, or an object of numbers and names), or names separated "
    "by colons",
    usual="the model's",
)
SEED = Option("seed", int, 0, "random seed of the texts that generator=text:MODEL generates")
SEED_OF_ATTACK = "leave it out, or give the seed of the attack as --metadata seed=…"
"""Remedy in the error for a seed in ``--model_args`` that the model does not use."""


class LabelScorerLM(LocalLM):
    """A model that predicts labels of texts; ``classifier`` is its target."""

    classifier: ClassifierTarget | TaggerTarget
    too_long = "shorten it"
    """The remedy in the error for a text that is too long; ``{}`` is replaced by the maximum number of tokens."""

    no_probability = "computes probabilities of labels, not of texts: leave out tasks that need text probabilities"
    no_text = "it predicts labels"
    PIPELINE = "text-classification"

    @property
    def target(self) -> ClassifierTarget | TaggerTarget:
        """The classifier in the form that attacks use."""
        return self.classifier

    @cached_property
    def _names(self) -> LabelNames:
        return LabelNames(self.classifier.labels)

    # -- answers --------------------------------------------------------------------------------------------

    def loglikelihood(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[Answer]:
        """Return log P(label | text) in nats for each ``(text, label)``, and True if no label is more likely.

        :meth:`place_of` finds the label. Each distinct text is read once. Raises TargetError, before any text is
        scored, for a label that the model does not have or a text that it cannot read.
        """
        classes = [self.place_of(request.args[1]) for request in requests]
        return self._cached("loglikelihood", requests, self._answers(requests, classes, disable_tqdm))

    def classify(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[Answer]:
        """Return the classifier's answers, also in subclasses whose :meth:`loglikelihood` has another meaning.

        The answer for a label that the model does not have is (−inf, False); one warning states their number. Raises
        TargetError if the model has no label of the requests.
        """
        labels = [request.args[1] for request in requests]
        classes = [self._names.find(label) for label in labels]
        if unknown := [label for label, number in zip(labels, classes, strict=True) if number is None]:
            if len(unknown) == len(labels):
                self.place_of(unknown[0])
            warn_once(
                f"{len(unknown)} of {len(labels)} texts have a label that the model does not know, such as "
                f"{bare_name(unknown[0])!r}: they count as wrong and have no label_loss; leave them out of data= to "
                "evaluate only the others"
            )
        return self._answers(requests, classes, disable_tqdm)

    def _answers(self, requests: Sequence[Instance], classes: Sequence[int | None], disable_tqdm: bool) -> list[Answer]:
        """Return the answer for each text and the number of its class; None is a label that the model does not have."""
        texts = list(dict.fromkeys(request.args[0] for request in requests))
        costs = dict(zip(texts, self._label_costs(texts, disable_tqdm), strict=True))
        rows = [costs[request.args[0]] for request in requests]
        return [
            (-math.inf, False) if number is None else (-float(row[number]) * LN2, int(row.argmin()) == number)
            for row, number in zip(rows, classes, strict=True)
        ]

    def place_of(self, continuation: str) -> int:
        """Return the number of the class that a continuation names, see :class:`LabelNames`.

        Raises TargetError if it names no class.
        """
        number = self._names.find(continuation)
        return self.classifier.place_of(bare_name(continuation)) if number is None else number

    def _label_costs(self, texts: Sequence[str], disable_tqdm: bool) -> list[FloatArray]:
        """Return −log2 P(label | text) for each text, an array ``[labels]``."""
        rows = self._encoded(texts)
        order = sorted(range(len(rows)), key=lambda index: -len(rows[index]))
        costs: list[FloatArray] = [np.empty(0)] * len(rows)
        with tqdm(total=len(rows), desc="Classifying texts", disable=disable_tqdm or self.rank != 0) as bar:
            first = 0
            while first < len(order):
                batch = order[first : first + self.classifier.batch(len(rows[order[first]]))]
                for index, row in zip(
                    batch, self.classifier.label_costs([rows[index] for index in batch]), strict=True
                ):
                    costs[index] = row
                first += len(batch)
                bar.update(len(batch))
        return costs

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        room, rows = self.max_length, self._tokens(texts)
        for number, row in enumerate(rows, 1):
            if not row:
                raise TargetError(
                    "a text is empty, and this model cannot classify a text without tokens: leave out empty texts"
                )
            if room is not None and len(row) > room:
                raise TargetError(
                    f"distinct text {number} has {len(row)} tokens and does not fit the classifier's {room}: "
                    f"{self.too_long.format(room)}"
                )
        return rows

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        return self.classifier.encode(texts)

    def get_model_info(self) -> dict[str, Any]:
        """Return information about the model for a results file, with the names of its labels."""
        return {**super().get_model_info(), "model_labels": list(self.classifier.labels)}


class ClassifierScorerLM(LabelScorerLM):
    """Any sequence classifier of `transformers`; ``classifier`` is its target.

    Args:
        pretrained: The classifier's folder or hub name.
        tokenizer: Folder or hub name of another tokenizer.
        labels: Names of the classes: a JSON file (a list in their order, or an object of numbers and names), or names
            separated by colons.
        truncate: Classify texts that are too long by their first ``max_length`` tokens; otherwise they are an error.
        reference: Folder or hub name of another classifier, for scores calibrated by it.
        generator: ``causal:MODEL``, ``text:MODEL`` or ``exhaustive``: proposes candidates for ``mix-and-match``.
        texts: Number of texts that ``text:MODEL`` generates.
        prune: Reduce these texts to the ``candidates`` or to the ``template``.
        seed: Random seed of these texts.
        options: See :data:`~adapters.base.LOADING`, and ``max_length``.

    Raises:
        OptionError: An option is unknown or invalid.
        TargetError: A model cannot be loaded.
    """

    classifier: ClassifierTarget
    too_long = "shorten it, or pass truncate=True in --model_args to classify the first {} tokens of such texts"

    OPTIONS: ClassVar[Sequence[Option]] = (
        *LOADING,
        MAX_LENGTH,
        LABELS,
        Option("truncate", bool, False, "truncate texts that are too long, for tasks that predict labels"),
        Option("reference", object, None, "another classifier, whose class loss signal=calibrated subtracts"),
        Option("generator", str, None, "proposes candidates for mix-and-match: causal:MODEL, text:MODEL or exhaustive"),
        TEXTS,
        PRUNE,
        SEED,
    )

    def __init__(
        self,
        pretrained: Any,
        tokenizer: Any = None,
        labels: Labels | None = None,
        truncate: bool = False,
        reference: Any = None,
        generator: str | None = None,
        texts: int = TEXTS.default,
        prune: str = PRUNE.default,
        seed: int = SEED.default,
        **options: Any,
    ) -> None:
        drawing: dict[str, Any] = {"texts": texts, "prune": prune, "seed": seed}
        self.check({"truncate": truncate, "generator": generator, **drawing})
        _check_drawing(generator, {TEXTS: texts, PRUNE: prune, SEED: seed})
        super().__init__(pretrained, **options)
        common = {name: value for name, value in self._loading.items() if name not in ("revision", "max_length")}
        reference_target = load_classifier(reference, **common) if reference is not None else None
        self.classifier = load_classifier(
            pretrained, tokenizer=tokenizer, labels=labels, reference=reference_target, **self._loading
        )
        if generator is not None:
            made = load_generator(generator, self._device, self._loading["batch_size"], **drawing)
            self.classifier = GeneratingTarget(self.classifier, made)
        self.truncate = truncate is True
        if self.truncate:
            self.tokenizer.truncation_side = "right"

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        if not self.truncate or self.max_length is None or not texts:
            return super()._tokens(texts)
        return self.tokenizer(list(texts), truncation=True, max_length=self.max_length, verbose=False)["input_ids"]


def _check_drawing(generator: str | None, values: Mapping[Option, Any]) -> None:
    """Raise OptionError for options of texts if no generator writes texts."""
    for option, value in values.items():
        if value != option.default and not str(generator).startswith(TEXT):
            use = "leave it out" if option is not SEED else SEED_OF_ATTACK
            raise OptionError(f"{option.name}= goes with generator={TEXT}MODEL: {use}")
