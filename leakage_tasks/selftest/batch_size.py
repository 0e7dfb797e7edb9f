"""The check that costs and ranks do not change if texts are scored one at a time."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.selftest.precision import compared
from leakage_tasks.selftest.rows import SelfTestRow, skipped
from leakage_tasks.selftest.subject import Subject
from leakage_tasks.targets.harness.target import HarnessScorer, HarnessSeq2Seq
from leakage_tasks.targets.protocols import PredictsNextToken, ReadsSource, ReadsTags, ScoresLabels, ScoresSequences

NAME = "batch size"
REMEDY = "load the model with dtype=float32, or run it with --batch_size 1"


def check(subject: Subject) -> SelfTestRow:
    """Compare costs of texts and ranks in a small space, in batches and one by one."""
    plain = isinstance(subject.target, HarnessScorer | HarnessSeq2Seq)
    if plain and str(getattr(subject.lm, "batch_size", None)) == "1":
        return skipped(NAME, "the model reads one text at a time: pass a larger --batch_size to compare")
    single = one_by_one(subject.target)
    findings = subject.exact(single, "one text at a time")
    alone = subject.all_costs(single, subject.costs(single, subject.canaries[0], subject.probes), findings)
    everything = subject.costs(subject.target, subject.small[0], subject.everything)
    both, between = [findings, subject.small_findings], " between one text at a time and many"
    return compared(NAME, subject, alone, everything, both, REMEDY, between)


def one_by_one(target: Any) -> Any:
    """Return a target with equal capabilities that scores each row in a batch of its own; it shares the model."""
    if isinstance(target, ReadsSource):
        return SimpleNamespace(given=lambda canary: one_by_one(target.given(canary)))
    single = copy.copy(target)
    if isinstance(target, ReadsTags):
        single.tagged = lambda canary: one_by_one(target.tagged(canary))
    if isinstance(target, ScoresLabels):
        single.label_costs = lambda rows: _one_each(target.label_costs, rows)
    if isinstance(target, ScoresSequences):
        single.log_perplexity = lambda texts: _one_each(target.log_perplexity, texts)
    if isinstance(target, PredictsNextToken):
        single.rows = lambda length: 1
    return single


def _one_each(score: Callable[[Any], FloatArray], items: Any) -> FloatArray:
    """Return the result of ``score`` for each item in a call of its own."""
    return (
        np.concatenate([score(items[index : index + 1]) for index in range(len(items))]) if len(items) else score(items)
    )
