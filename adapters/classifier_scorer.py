"""``--model classifier-scorer --model_args pretrained=CLASSIFIER``: a text classifier as a harness model.

The log-likelihood of a label after a text is log P(label | text), so tasks whose answers are label names measure a
classifier as they measure a language model, and the attacks on classifiers run in the same command.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from tqdm import tqdm

from adapters.base import LOADING, ROOM, Answer, LocalLM
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.log import warn_once
from leakage_tasks.core.option import Option
from leakage_tasks.harness.api import Instance
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.classifier.generators import GeneratingTarget, load_generator
from leakage_tasks.targets.classifier.target import ClassifierTarget, load_classifier
from leakage_tasks.targets.classifier.text_generator import PRUNE, TEXTS
from leakage_tasks.targets.label_names import LabelNames, Labels, bare_name
from leakage_tasks.targets.protocols import ProposesValues
from leakage_tasks.targets.tagger.target import TaggerTarget


class LabelScorerLM(LocalLM):
    """A model that gives texts labels; ``classifier`` is its target."""

    classifier: ClassifierTarget | TaggerTarget
    too_long = "shorten it"
    """What to do about a text that does not fit; ``{}`` stands for the number of tokens that do."""

    no_probability = "gives texts no probability, only labels: leave out tasks that need one"
    no_text = "it labels it"
    PIPELINE = "text-classification"

    @property
    def target(self) -> ClassifierTarget | TaggerTarget:
        """See :class:`~adapters.base.LocalLM`."""
        return self.classifier

    @cached_property
    def _names(self) -> LabelNames:
        return LabelNames(self.classifier.labels)

    # -- answers --------------------------------------------------------------------------------------------

    def loglikelihood(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[Answer]:
        """For each ``(text, label)``: log P(label | text) in nats, and whether the label is the first of the likeliest.

        The label is found by :meth:`place_of`. A text is read once, whatever the number of its labels. Raises
        TargetError for a label the model does not know and a text that it cannot read, before it scores any.
        """
        places = [self.place_of(request.args[1]) for request in requests]
        return self._remembered("loglikelihood", requests, self._answers(requests, places, disable_tqdm))

    def classify(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[Answer]:
        """The answers of the classifier itself, also in subclasses that give texts another log-likelihood.

        A label that the model does not know is impossible and never the likeliest: (−inf, False), with one warning of
        how many there are. Raises TargetError where it knows none of them.
        """
        labels = [request.args[1] for request in requests]
        places = [self._names.find(label) for label in labels]
        if unknown := [label for label, place in zip(labels, places, strict=True) if place is None]:
            if len(unknown) == len(labels):
                self.place_of(unknown[0])
            warn_once(
                f"{len(unknown)} of {len(labels)} texts have a label that the model does not know, such as "
                f"{bare_name(unknown[0])!r}: they count as wrong and have no label_loss; leave them out of data= to "
                "ask about the others alone"
            )
        return self._answers(requests, places, disable_tqdm)

    def _answers(self, requests: Sequence[Instance], places: Sequence[int | None], disable_tqdm: bool) -> list[Answer]:
        """For each text what its label costs, by the label's place, None for one that cannot be."""
        texts = list(dict.fromkeys(request.args[0] for request in requests))
        costs = dict(zip(texts, self._label_costs(texts, disable_tqdm), strict=True))
        found = [costs[request.args[0]] for request in requests]
        return [
            (-math.inf, False) if place is None else (-float(row[place]) * LN2, int(row.argmin()) == place)
            for row, place in zip(found, places, strict=True)
        ]

    def place_of(self, continuation: str) -> int:
        """Number of the class a continuation names, see :class:`LabelNames`. Raises TargetError where it names none."""
        place = self._names.find(continuation)
        return self.classifier.place_of(bare_name(continuation)) if place is None else place

    def _label_costs(self, texts: Sequence[str], disable_tqdm: bool) -> list[FloatArray]:
        """−log2 P(label | text) for each text and all labels, shape ``[labels]`` each."""
        rows = self._encoded(texts)
        order = sorted(range(len(rows)), key=lambda place: -len(rows[place]))
        costs: list[FloatArray] = [np.empty(0)] * len(rows)
        with tqdm(total=len(rows), desc="Classifying texts", disable=disable_tqdm or self.rank != 0) as bar:
            first = 0
            while first < len(order):
                batch = order[first : first + self.classifier.batch(len(rows[order[first]]))]
                for place, row in zip(
                    batch, self.classifier.label_costs([rows[place] for place in batch]), strict=True
                ):
                    costs[place] = row
                first += len(batch)
                bar.update(len(batch))
        return costs

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        room, rows = self.max_length, self._tokens(texts)
        for number, row in enumerate(rows, 1):
            if not row:
                raise TargetError("a text is empty, and this model reads nothing around it: leave such texts out")
            if room is not None and len(row) > room:
                raise TargetError(
                    f"distinct text {number} has {len(row)} tokens and does not fit the classifier's {room}: "
                    f"{self.too_long.format(room)}"
                )
        return rows

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        return self.classifier.encode(texts)

    def get_model_info(self) -> dict[str, Any]:
        """What a results file should say about the model; no network is asked."""
        return {**super().get_model_info(), "model_labels": list(self.classifier.labels)}


class ClassifierScorerLM(LabelScorerLM):
    """Any `transformers` sequence classifier; ``classifier`` is its target.

    Takes the arguments of :func:`~leakage_tasks.targets.classifier.target.load_classifier`, ``batch_size`` and
    ``device`` as :class:`LabelScorerLM` does; ``reference`` is another classifier's folder or hub name, for scores
    calibrated by it; ``generator`` is ``causal:MODEL``, ``text:MODEL`` or ``exhaustive``, which propose candidates for
    the attack ``mix-and-match`` (``text:`` writes ``texts`` texts of ``seed``, which are pruned to the ``candidates``
    or to the ``template``); with ``truncate`` texts longer than the encoder are classified by their first
    ``max_length`` tokens, else they are an error. Raises OptionError and TargetError.
    """

    classifier: ClassifierTarget
    too_long = "shorten it, or pass truncate=True in --model_args to classify the first {} tokens of such texts"

    OPTIONS: ClassVar[Sequence[Option]] = (
        *LOADING,
        ROOM,
        Option("labels", object, None, "names of the classes: a file, or names by colons", usual="the model's"),
        Option("truncate", bool, False, "whether texts that are too long are cut where a task asks for labels"),
        Option("reference", object, None, "another classifier, whose class loss signal=calibrated takes off"),
        Option("generator", str, None, "what proposes to mix-and-match: causal:MODEL, text:MODEL or exhaustive"),
        TEXTS,
        PRUNE,
        Option("seed", int, 0, "the seed of the texts that generator=text:MODEL writes"),
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
        seed: int = 0,
        **options: Any,
    ) -> None:
        self._drawing: dict[str, Any] = {"texts": texts, "prune": prune, "seed": seed}
        self.check({"truncate": truncate, "generator": generator, **self._drawing})
        super().__init__(pretrained, **options)
        common = {name: value for name, value in self._loading.items() if name not in ("revision", "max_length")}
        other = load_classifier(reference, **common) if reference is not None else None
        self.classifier = load_classifier(
            pretrained, tokenizer=tokenizer, labels=labels, reference=other, **self._loading
        )
        if generator is not None:
            self.classifier = GeneratingTarget(self.classifier, self._loaded_generator(generator))
        self.truncate = truncate is True
        if self.truncate:
            self.tokenizer.truncation_side = "right"

    def _loaded_generator(self, spec: str) -> ProposesValues:
        return load_generator(spec, self._device, self._loading["batch_size"], **self._drawing)

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        if not self.truncate or self.max_length is None or not texts:
            return super()._tokens(texts)
        return self.tokenizer(list(texts), truncation=True, max_length=self.max_length, verbose=False)["input_ids"]
