"""The task ``label_accuracy``: a classifier's usefulness beside its leakage, on labelled text from a local file.

A document is one ``classify`` request ``(text, " label")``. The answer says how likely the label is and whether it is
the likeliest of all the model knows, so no list of choices is needed. On models that write, the label's text stands
for the label.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.task import Task
from lm_eval.config.task import TaskConfig
from lm_eval.filters import build_filter_ensemble

from leakage_tasks.canaries.formats import Columns, format_of
from leakage_tasks.canaries.formats.labels import labels_of
from leakage_tasks.errors import OptionError, PlantingError
from leakage_tasks.metrics.aggregates import count, mean
from leakage_tasks.metrics.declared import Metric, rate
from leakage_tasks.notices import warn_once

TASK = "label_accuracy"
DEFAULTS = {"data": None, "text_column": "text", "label_column": "label", "split": "test"}
"""Options of ``--metadata``, for all tasks or under this task's name."""
_SPELT = {f"--{name.replace('_', '-')}": f"--metadata {name}=…" for name in ("text_column", "label_column", "split")}


def _right(answer: Any) -> float:
    return float(answer[1])


def _loss(answer: Any) -> float:
    return -float(answer[0]) / math.log(2)


METRICS: list[Metric] = [
    *rate(
        "acc",
        _right,
        "higher",
        "share of texts whose label is the likeliest of all the model knows",
        "share of the commonest label, for a model that always gives that one",
    ),
    Metric("label_loss", _loss, mean, "lower", "cost of the right label, −log2 P(label | text), mean", "bits"),
    Metric("n", lambda _: 1.0, count, None, "labelled texts"),
]


class LabelAccuracy(Task):
    """How often a model gives a text its label, and how dear that label is to it, in bits."""

    OUTPUT_TYPE = "classify"

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        given = {name: value for name, value in (config or {}).items() if name != "class"}
        self._config = TaskConfig(**{**given, "output_type": "classify", "num_fewshot": 0})
        metadata = self._config.metadata or {}
        self.VERSION = metadata.get("version", 0)
        self._docs = documents(metadata)
        self._instances = None
        self._training_docs = self._fewshot_docs = None
        self._filters = [build_filter_ensemble("none", [["take_first", None]])]

    def has_training_docs(self) -> bool:
        """The texts are for testing only."""
        return False

    def has_validation_docs(self) -> bool:
        """The texts are for testing only."""
        return False

    def has_test_docs(self) -> bool:
        """Every row is a test document."""
        return True

    def test_docs(self) -> list[dict[str, str]]:
        """The rows, each with ``text`` and ``label``."""
        return self._docs

    def doc_to_text(self, doc: Mapping[str, str]) -> str:
        """The text as it stands in the file."""
        return doc["text"]

    def doc_to_target(self, doc: Mapping[str, str]) -> str:
        """The label after a space, as the harness puts an answer after a question."""
        return f" {doc['label']}"

    def fewshot_context(self, doc: Any, num_fewshot: int = 0, **settings: Any) -> str:
        """The text; a classifier takes no examples and no chat template."""
        if settings.get("apply_chat_template"):
            warn_once(f"{TASK} classifies plain texts; the chat template is not applied to them")
        return self.doc_to_text(doc)

    def build_all_requests(self, *, limit: int | None = None, rank: int = 0, world_size: int = 1, **rest: Any) -> None:
        """See the harness. Every process needs a document; raises OptionError on all of them if there are too few."""
        number = len(rest.get("samples") or self._docs[:limit])
        if number < world_size:
            raise OptionError(f"{TASK}: {number} texts for {world_size} processes, each needs one: use fewer processes")
        if rest.pop("cache_requests", False):
            warn_once(f"{TASK}: requests are not cached, since the harness' cache does not tell files apart")
        super().build_all_requests(limit=limit, rank=rank, world_size=world_size, **rest)

    def construct_requests(self, doc: dict[str, str], ctx: str, **kwargs: Any) -> Instance:
        """One ``classify`` request: the text and its label."""
        arguments = (ctx, self.doc_to_target(doc))
        return Instance("classify", doc=doc, arguments=arguments, idx=0, metadata=kwargs["metadata"])

    def process_results(self, doc: dict[str, str], results: Sequence[tuple[float, bool]]) -> dict[str, float | None]:
        """Every metric's value for one text."""
        answer: Any = results[0]
        return {metric.name: metric.value(answer) for metric in METRICS}

    def aggregation(self) -> dict[str, Any]:
        """Aggregations by metric."""
        return {metric.name: metric.aggregate for metric in METRICS}

    def higher_is_better(self) -> dict[str, Any]:
        """Directions by metric: those of usefulness."""
        return {metric.name: metric.higher_is_better for metric in METRICS}


def documents(metadata: Mapping[str, Any]) -> list[dict[str, str]]:
    """Rows with ``text`` and ``label`` of the file or saved folder that ``--metadata data=…`` names.

    Chat turns become one text, parted by line ends. Raises OptionError naming file, row and column.
    """
    options = _options(metadata)
    path, wanted = Path(options["data"]), Columns(options["text_column"], options["label_column"], options["split"])
    if path.suffix.lower() == ".txt" and path.is_file():
        raise OptionError(f"{path}: a text file holds no labels: pass data= with .jsonl, .csv, .tsv or .parquet")
    try:
        reader = format_of(path)
        layout = reader.survey(path, wanted)
        texts = ["\n".join(turns) for turns in reader.texts(path, layout, wanted)]
        labels = list(labels_of(path, layout, wanted))
    except PlantingError as error:
        message = str(error)
        for planting, here in _SPELT.items():
            message = message.replace(planting, here)
        raise OptionError(message) from None
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
            f"{TASK} needs labelled text: pass --metadata data=FILE (.jsonl, .csv, .tsv, .parquet or a folder saved by "
            "'datasets'), and text_column=, label_column= where they are not 'text' and 'label'"
        )
    return {name: str(value) for name, value in found.items()}


def classify(lm: LM, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
    """Answer ``classify`` requests by log-likelihood, as models do that have no better way of their own."""
    return lm.loglikelihood(requests)


LM.classify = classify
