"""``--model classifier-scorer --model_args pretrained=CLASSIFIER``: a text classifier as a harness model.

The log-likelihood of a label after a text is log P(label | text), so tasks whose answers are label names measure a
classifier as they measure a language model, and the attacks on classifiers run in the same command.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from lm_eval.api.instance import Instance
from tqdm import tqdm

from adapters.base import Answer, LocalLM
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.log import warn_once
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.batches import texts_at_once
from leakage_tasks.targets.classifier.generators import GeneratingTarget, load_generator
from leakage_tasks.targets.classifier.label_names import LabelNames, Labels, bare_name
from leakage_tasks.targets.classifier.loading import load_classifier
from leakage_tasks.targets.classifier.target import ClassifierTarget
from leakage_tasks.targets.harness.target import as_target
from leakage_tasks.targets.tagger.target import TaggerTarget


class LabelScorerLM(LocalLM):
    """A model that gives texts labels; ``classifier`` is its target."""

    classifier: ClassifierTarget | TaggerTarget
    too_long = "shorten it"
    """What to do about a text that does not fit; ``{}`` stands for the number of tokens that do."""

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

    def loglikelihood_rolling(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[float]:
        """Raises TargetError: a classifier gives a text no probability."""
        raise TargetError(
            f"{type(self).__name__} gives texts no probability, only labels: leave out tasks that need one"
        )

    def generate_until(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[str]:
        """Raises TargetError: a classifier writes no text."""
        raise TargetError(f"{type(self).__name__} writes no text, it labels it: leave out tasks that generate")

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Raises TargetError: a classifier has no chat template."""
        raise TargetError(f"{type(self).__name__} has no chat template: run it without --apply_chat_template")

    # -- what the evaluator asks about ----------------------------------------------------------------------

    @property
    def tokenizer(self) -> Any:
        """The classifier's tokenizer."""
        return self.classifier.tokenizer

    @property
    def max_length(self) -> int | None:
        """Tokens the classifier can read, special ones included; None where it does not say."""
        return self.classifier.max_length

    def get_model_info(self) -> dict[str, Any]:
        """What a results file should say about the model; no network is asked."""
        return {**self._described(self.classifier.model), "model_labels": list(self.classifier.labels)}


class ClassifierScorerLM(LabelScorerLM):
    """Any `transformers` sequence classifier; ``classifier`` is its target.

    Takes the arguments of :func:`~leakage_tasks.targets.classifier.loading.load_classifier`, ``batch_size`` and
    ``device`` as :class:`LabelScorerLM` does; ``reference`` is another classifier's folder or hub name, for scores
    calibrated by it; ``generator`` is ``causal:MODEL`` or ``exhaustive``, which propose candidates for the attack
    ``mix-and-match``; with ``truncate`` texts longer than the encoder are classified by their first ``max_length``
    tokens, else they are an error. Raises OptionError and TargetError.
    """

    classifier: ClassifierTarget
    too_long = "shorten it, or pass truncate=True in --model_args to classify the first {} tokens of such texts"

    def __init__(
        self,
        pretrained: Any,
        tokenizer: Any = None,
        labels: Labels | None = None,
        truncate: bool = False,
        reference: Any = None,
        generator: str | None = None,
        revision: str | None = None,
        trust_remote_code: bool = False,
        dtype: str | torch.dtype = "auto",
        max_length: int | None = None,
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
        device: str | None = None,
    ) -> None:
        super().__init__(pretrained, revision, batch_size, device)
        common: dict[str, Any] = {
            "trust_remote_code": trust_remote_code,
            "dtype": dtype,
            "device": self._device,
            "batch_size": texts_at_once(batch_size),
            "max_batch_size": max_batch_size,
        }
        other = load_classifier(reference, **common) if reference is not None else None
        self.classifier = load_classifier(
            pretrained,
            tokenizer=tokenizer,
            labels=labels,
            revision=revision,
            max_length=max_length,
            reference=other,
            **common,
        )
        if generator is not None:
            proposing = load_generator(generator, self._device, common["batch_size"])
            self.classifier = GeneratingTarget.of(self.classifier, proposing)
        self.truncate = truncate is True
        if self.truncate:
            self.tokenizer.truncation_side = "right"

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        if not self.truncate or self.max_length is None or not texts:
            return super()._tokens(texts)
        return self.tokenizer(list(texts), truncation=True, max_length=self.max_length, verbose=False)["input_ids"]


@as_target.register
def _(lm: LabelScorerLM, texts: Sequence[str] = (), private: bool = False) -> ClassifierTarget | TaggerTarget:
    return lm.classifier
