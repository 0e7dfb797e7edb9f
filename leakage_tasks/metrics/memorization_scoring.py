"""Scoring of the task ``memorization``: its metrics from saved answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from leakage_tasks.attacks.suffix.confidences import FREQUENCY
from leakage_tasks.attacks.suffix.finding import HEADLINE, Selection, suffix_finding_from_json
from leakage_tasks.metrics.clustered import Row
from leakage_tasks.metrics.memorization import memorization_metrics
from leakage_tasks.metrics.scoring import (
    LEFT_OUT,
    OF_GOAL,
    Scoring,
    TaskSettings,
    Values,
    register_scoring,
    values_of_pair,
)
from leakage_tasks.metrics.tiers import Copies
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig

NGRAM = 50
"""Default length n of ``inclusion_rate_n``."""
NULLS = ("memorized_exact", "memorized_approximate")
"""Rows of an unanswered task."""
_GREEDY = DecodingConfig(decoding="greedy")
_rows = lru_cache(memorization_metrics)


def _rows_for(task_settings: TaskSettings) -> Sequence[Row]:
    suffix = task_settings.get("suffix", NGRAM)
    ngrams = tuple(task_settings.get("ngrams", (min(NGRAM, suffix),)))
    return _rows(ngrams, task_settings.get("distance", "tokens"), task_settings.get("controls") is not None)


def _values(answer: str, column: str, task_settings: TaskSettings, copies: Copies) -> Values:
    finding = suffix_finding_from_json(answer)
    kind = "headline" if column == HEADLINE else "length"
    selection = Selection(column, kind, column, finding.chosen_by or FREQUENCY)
    return values_of_pair(finding, selection, _GREEDY, _rows_for(task_settings))


MEMORIZATION = register_scoring(
    Scoring(
        "memorization",
        lambda task_settings, copies: [*_rows_for(task_settings), LEFT_OUT],
        _values,
        lambda: list(NULLS),
        goal="suffixes",
        classes=OF_GOAL["suffixes"],
    )
)
