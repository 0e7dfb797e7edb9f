"""Requests of many attacks to a causal model, answered in full batches except for the last."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.targets.batching import Splitter
from leakage_tasks.targets.causal.asked import Start, Step, Texts
from leakage_tasks.targets.causal.beginnings import goes_on, lead_length, shared_tokens, states_after, texts_after
from leakage_tasks.targets.causal.foretold import read_ahead
from leakage_tasks.targets.memory import SMALLER

MORE_TOKENS = 1.5
"""Maximum factor by which the number of tokens may grow so that texts of several requests share passes."""

Reached = tuple[Any, FloatArray]
"""A state, and the costs after each of its rows ``[n, A]``."""


def start_all(requests: Sequence[Start]) -> list[tuple[Any, float, FloatArray]]:
    """Return the state, the cost of the prefix and the costs of the next tokens for each request."""
    engine = requests[0].target
    results: dict[int, tuple[Any, float, FloatArray]] = {}

    def read(indices: Sequence[int]) -> FloatArray:
        batch = [requests[index] for index in indices]
        rows, sources = [request.tokens for request in batch], [request.target.source for request in batch]
        shared = lead_length(engine, rows) if all(source is None for source in sources) else 0
        first = states_after(engine, rows, shared) if shared else None
        if first is None and len(batch) == 1 and sources[0] is None:
            first = read_ahead(engine, rows[0], batch[0].ahead)
        states, costs, logits = first or engine.read_first(rows, sources)
        bits = np.zeros(len(batch))
        for row, (index, request, state) in enumerate(zip(indices, batch, states, strict=True)):
            request.target.weigh(state, logits.shape[-1])
            bits[row] = float(costs[row][request.target.unscored - 1 :].sum())
            results[index] = state, float(bits[row]), request.target.costs(logits[row : row + 1], request.columns)
        return bits

    lengths, indices = [len(request.tokens) for request in requests], range(len(requests))
    engine.limit.by_length(lengths, engine.read_rows, read, indices, most_padding=engine.padding_first)
    return [results[index] for index in indices]


def extend_all(requests: Sequence[Step]) -> list[Reached]:
    """Extend the texts of all requests by one token."""
    engine, at_once = requests[0].target, min(step.target.pass_rows(step.states) for step in requests)
    ends = np.cumsum([len(step.tokens) for step in requests])
    results: list[list[Reached]] = [[] for _ in requests]

    def read(rows: slice) -> None:
        first, last = np.searchsorted(ends, [rows.start + 1, rows.stop])
        chosen = range(int(first), int(last) + 1)
        starts = [int(ends[n]) - len(requests[n].tokens) for n in chosen]
        parts = [
            requests[n].part(slice(max(0, rows.start - start), rows.stop - start))
            for n, start in zip(chosen, starts, strict=True)
        ]
        started = time.perf_counter()
        answers = engine.one_pass(parts)
        engine.pass_size.note(rows.stop - rows.start, time.perf_counter() - started)
        for n, answer in zip(chosen, answers, strict=True):
            results[n].append(answer)

    engine.limit.parts(int(ends[-1]), read, at_once)
    return [_put_together(step, parts) for step, parts in zip(requests, results, strict=True)]


def score_all(requests: Sequence[Texts]) -> list[FloatArray]:
    """Compute costs in bits ``[n]`` of the texts of each request."""
    results: dict[int, FloatArray] = {}
    for indices, shared in _that_begin_alike(requests):
        group = [requests[number] for number in indices]
        costs = texts_after(group[0].target, *_rows_of(group), shared)
        if costs is not None:
            results |= zip(indices, np.split(costs, _ends(group)), strict=True)
    left = [index for index in range(len(requests)) if index not in results]
    if left:
        results |= zip(left, _whole([requests[number] for number in left]), strict=True)
    return [results[index] for index in range(len(requests))]


def _whole(requests: Sequence[Texts]) -> list[FloatArray]:
    """Compute costs of texts read from their first token."""
    engine, (rows, unscored) = requests[0].target, _rows_of(requests)
    sources = [request.target.source for request in requests for _ in request.rows]
    # Texts of one canary have nearly equal lengths.
    padding = engine.most_padding if len(requests) > 1 else math.inf
    arguments, lengths = (rows, unscored, sources), list(map(len, rows))
    costs = engine.whole_texts.by_length(lengths, engine.text_rows, engine.score, *arguments, most_padding=padding)
    return np.split(costs, _ends(requests))


def _that_begin_alike(requests: Sequence[Texts]) -> list[tuple[list[int], int]]:
    """Return the indices of requests whose texts are best read after a common prefix, and its length."""
    if not goes_on(requests[0].target) or any(request.target.source is not None for request in requests):
        return []
    apart = [_shared([request]) for request in requests]
    saved = sum(shared * (len(request.rows) - 1) for shared, request in zip(apart, requests, strict=True))
    if len(requests) == 1:
        return [([0], apart[0])] if apart[0] else []
    together, texts = _shared(requests), sum(len(request.rows) for request in requests)
    tokens = sum(len(row) for request in requests for row in request.rows)
    if together and tokens - together * (texts - 1) <= MORE_TOKENS * (tokens - saved):
        return [([*range(len(requests))], together)]
    return [([index], shared) for index, shared in enumerate(apart) if shared]


def _shared(requests: Sequence[Texts]) -> int:
    rows, unscored = _rows_of(requests)
    shared = shared_tokens(rows)
    return shared if shared >= max(unscored, default=0) else 0


def _rows_of(requests: Sequence[Texts]) -> tuple[list[list[int]], list[int]]:
    """Return all rows, and the number of tokens without a cost at the beginning of each."""
    rows = [row for request in requests for row in request.rows]
    return rows, [request.target.unscored for request in requests for _ in request.rows]


def _ends(requests: Sequence[Texts]) -> IntArray:
    """Return the end of each request's rows among all rows, except for the last request."""
    return np.cumsum([len(request.rows) for request in requests])[:-1]


def _put_together(step: Step, parts: Sequence[Reached]) -> Reached:
    """Join the results of a step's parts."""
    if len(parts) == 1:
        return parts[0]
    counts = [len(costs) for _, costs in parts]
    origin = np.repeat(np.arange(len(parts)), counts)
    rows = np.concatenate([np.arange(count) for count in counts])
    remedy = f"pass --batch_size with a small number from 2, or {SMALLER}"
    with step.target.limit.halving(len(origin), len(origin), remedy):
        state = step.target.gather([state for state, _ in parts], origin, rows)
    return state, np.concatenate([costs for _, costs in parts])


STEP_SPLITTER = Splitter(Step.part, _put_together)
"""Splits a step so that some of its rows can be answered at a time."""
