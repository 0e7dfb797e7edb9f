"""The task ``label_accuracy``: the usefulness of a classifier, on labelled text from a local file.

A document is one ``classify`` request ``(text, " label")``. The answer is the log-likelihood of the label, and True if
it is the likeliest of all labels, so no list of choices is needed. For models that write text, a label is its text.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import OptionError, PlantingError, in_metadata
from leakage_tasks.core.option import Option, by_name
from leakage_tasks.core.task_names import LABELS as TASK
from leakage_tasks.data import Columns, format_of
from leakage_tasks.harness.api import LM, Instance
from leakage_tasks.metrics.aggregates import count, mean
from leakage_tasks.metrics.metric import Metric, MetricSpec, one
from leakage_tasks.tasks.base_task import Document, LocalTask
from leakage_tasks.tasks.dispatch import uncached
from leakage_tasks.tasks.options import TASKS, typed_options

LABEL_OPTIONS = by_name(
    [
        Option("data", str, None, "the labelled text", required=True),
        Option("text_column", str, "text", "the column of the text"),
        Option("label_column", str, "label", "the column of the label"),
        Option("split", str, "test", "set of the data to score"),
    ]
)


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
        direction="higher",
        title="Label accuracy",
        headline=True,
        count="n",
    ).rate(_right),
    MetricSpec("label_loss", "cost of the right label, −log2 P(label | text), mean", "bits", direction="lower").row(
        _loss, mean
    ),
    MetricSpec("n", "labelled texts").row(one, count),
]


class LabelAccuracy(LocalTask):
    """The share of texts with a correct label, and the cost of the true label in bits."""

    OUTPUT_TYPE = "classify"
    METRICS = METRICS
    DOCUMENTS, SOURCE = "texts", "files"
    MEASURES = "usefulness"

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self._docs = documents(self.metadata)

    @classmethod
    def answers(cls, lm: LM, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        """Return log-likelihoods of labels, for models without a method of their own for such requests."""
        with uncached(lm):
            return lm.loglikelihood(requests)

    def doc_to_text(self, doc: Mapping[str, str]) -> str:
        """Return the text, as it is in the file."""
        return doc["text"]

    def doc_to_target(self, doc: Mapping[str, str]) -> str:
        """Return the label after a space, because the harness puts an answer after a question."""
        return f" {doc['label']}"

    def request_argument(self, doc: Document) -> str:
        """Return the label."""
        return self.doc_to_target(doc)

    def protocol(self) -> dict[str, Any]:
        """Return the hash of the labelled texts."""
        content = json.dumps(self._docs, sort_keys=True, ensure_ascii=False).encode()
        return {"data": hashlib.sha256(content).hexdigest()}

    def values_of(self, doc: Document, answer: tuple[float, bool]) -> dict[str, Any]:
        """Return the value of every metric for one text."""
        return {metric.name: metric.value(answer) for metric in METRICS}


def documents(metadata: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return rows with ``text`` and ``label`` of the file or folder given as ``--metadata data=…``.

    Turns of a chat become one text, separated by line ends. Raises OptionError naming file, row and column.
    """
    options = _options(metadata)
    path, wanted = Path(options["data"]), Columns(options["text_column"], options["label_column"], options["split"])
    try:
        reader = format_of(path)
        if not reader.labelled:
            raise OptionError(
                f"{path}: a {reader.name} file holds no labels: pass data= with .jsonl, .csv, .tsv, .parquet or .conll"
            )
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
    _, given = typed_options(metadata, TASK, LABEL_OPTIONS)
    if "data" not in given:
        raise OptionError(
            f"{TASK} needs labelled text: pass --metadata data=FILE (.jsonl, .csv, .tsv, .parquet, .conll, a folder "
            "saved by 'datasets' or one with seq.in, seq.out and label), and text_column=, label_column= where they "
            "are not 'text' and 'label'"
        )
    return {name: given.get(name, option.default) for name, option in LABEL_OPTIONS.items()}


TASKS.register(TASK, LABEL_OPTIONS, documents)
