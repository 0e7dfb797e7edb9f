"""The task ``label_accuracy``: a classifier's usefulness beside its leakage, on labelled text from a local file.

A document is one ``classify`` request ``(text, " label")``. The answer says how likely the label is and whether it is
the likeliest of all the model knows, so no list of choices is needed. On models that write, the label's text stands
for the label.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from leakage_tasks.core.errors import OptionError, PlantingError, in_metadata
from leakage_tasks.data import Columns, format_of
from leakage_tasks.metrics.aggregates import count, mean
from leakage_tasks.metrics.metric import Metric, MetricSpec, one
from leakage_tasks.tasks.base_task import Document, LocalTask, uncached

TASK = "label_accuracy"
DEFAULTS = {"data": None, "text_column": "text", "label_column": "label", "split": "test"}
"""Options of ``--metadata``, for all tasks or under this task's name."""


def _right(answer: Any) -> float:
    return float(answer[1])


def _loss(answer: Any) -> float | None:
    loss = -float(answer[0]) / math.log(2)
    return None if loss == math.inf else loss


METRICS: list[Metric] = [
    *MetricSpec(
        "acc",
        "share of texts whose label is the likeliest of all the model knows",
        chance="share of the commonest label, for a model that always gives that one",
        better="higher",
        title="Label accuracy",
        headline=True,
        count="n",
    ).rate(_right),
    MetricSpec("label_loss", "cost of the right label, −log2 P(label | text), mean", "bits", better="lower").row(
        _loss, mean
    ),
    MetricSpec("n", "labelled texts").row(one, count),
]


class LabelAccuracy(LocalTask):
    """How often a model gives a text its label, and how dear that label is to it, in bits."""

    OUTPUT_TYPE = "classify"
    METRICS = METRICS
    DOCUMENTS, SOURCE = "texts", "files"
    MEASURES = "usefulness"

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self._docs = documents(self.metadata)

    def doc_to_text(self, doc: Mapping[str, str]) -> str:
        """The text as it stands in the file."""
        return doc["text"]

    def doc_to_target(self, doc: Mapping[str, str]) -> str:
        """The label after a space, as the harness puts an answer after a question."""
        return f" {doc['label']}"

    def asked_of(self, doc: Document) -> str:
        """The label."""
        return self.doc_to_target(doc)

    def protocol(self) -> dict[str, Any]:
        """The hash of the labelled texts."""
        content = json.dumps(self._docs, sort_keys=True, ensure_ascii=False).encode()
        return {"data": hashlib.sha256(content).hexdigest()}

    def values_of(self, doc: Document, answer: tuple[float, bool]) -> dict[str, Any]:
        """Every metric's value for one text."""
        return {metric.name: metric.value(answer) for metric in METRICS}


def documents(metadata: Mapping[str, Any]) -> list[dict[str, str]]:
    """Rows with ``text`` and ``label`` of the file or folder that ``--metadata data=…`` names.

    Chat turns become one text, parted by line ends. Raises OptionError naming file, row and column.
    """
    options = _options(metadata)
    path, wanted = Path(options["data"]), Columns(options["text_column"], options["label_column"], options["split"])
    if path.suffix.lower() == ".txt" and path.is_file():
        raise OptionError(
            f"{path}: a text file holds no labels: pass data= with .jsonl, .csv, .tsv, .parquet or .conll"
        )
    try:
        reader = format_of(path)
        layout = reader.survey(path, wanted)
        texts = ["\n".join(turns) for turns in reader.texts(path, layout, wanted)]
        labels = list(reader.labels(path, layout, wanted))
    except PlantingError as error:
        raise error.spelled(in_metadata, OptionError) from None
    if not texts:
        raise OptionError(f"{path}: holds no rows: check --metadata data=…")
    if None in labels:
        row = labels.index(None) + 1
        raise OptionError(f"{path}: row {row} has nothing in column {wanted.label!r}: label it or leave it out")
    return [{"text": text, "label": str(label)} for text, label in zip(texts, labels, strict=True)]


def _options(metadata: Mapping[str, Any]) -> dict[str, str]:
    own = metadata.get(TASK, {})
    if not isinstance(own, Mapping) or set(own) - set(DEFAULTS):
        raise OptionError(f"--metadata {TASK}={own!r}: expected an object of its options: {', '.join(DEFAULTS)}")
    for name in metadata:
        near = [] if name in DEFAULTS else difflib.get_close_matches(name, DEFAULTS, 1, 0.8)
        if near:
            raise OptionError(f"--metadata {name}=…: no such option; did you mean {near[0]!r}?")
    found = {name: own.get(name, metadata.get(name, default)) for name, default in DEFAULTS.items()}
    if found["data"] is None:
        raise OptionError(
            f"{TASK} needs labelled text: pass --metadata data=FILE (.jsonl, .csv, .tsv, .parquet, .conll, a folder "
            "saved by 'datasets' or one with seq.in, seq.out and label), and text_column=, label_column= where they "
            "are not 'text' and 'label'"
        )
    return {name: str(value) for name, value in found.items()}


def classify(lm: LM, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
    """Answer ``classify`` requests by log-likelihood, as models do that have no better way of their own."""
    with uncached(lm):
        return lm.loglikelihood(requests)


LM.classify = classify
