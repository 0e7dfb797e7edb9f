"""A target that is asked about one text at a time, whatever batches an attack would make."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.targets.protocols import PredictsNextToken, ReadsSource, ReadsTags, ScoresLabels, ScoresSequences


def one_by_one(target: Any) -> Any:
    """The same target, of the same capabilities, with every batch of one row; the model itself is shared."""
    if isinstance(target, ReadsSource):
        return _AfterSource(target)
    single = copy.copy(target)
    if isinstance(target, ReadsTags):
        single.tagged = lambda canary: one_by_one(target.tagged(canary))
    if isinstance(target, ScoresLabels):
        single.label_costs = lambda rows: _each(target.label_costs, rows)
    if isinstance(target, ScoresSequences):
        single.log_perplexity = lambda texts: _each(target.log_perplexity, texts)
    if isinstance(target, PredictsNextToken):
        single.rows = lambda length: 1
    return single


def _each(ask: Callable[[Any], FloatArray], items: Any) -> FloatArray:
    """What ``ask`` answers to each of ``items`` by itself."""
    return np.concatenate([ask(items[place : place + 1]) for place in range(len(items))]) if len(items) else ask(items)


class _AfterSource:
    """A translation model that is asked about one sentence at a time."""

    def __init__(self, inner: ReadsSource) -> None:
        self._inner = inner

    def given(self, canary: Canary) -> Any:
        """See :class:`~leakage_tasks.targets.protocols.ReadsSource`."""
        return one_by_one(self._inner.given(canary))
