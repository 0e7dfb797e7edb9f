"""Requests that attacks submit to a causal model, answered together for all attacks in full batches."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.targets.causal.beginnings import begin, begin_after, costs_after, shared_context, shared_tokens
from leakage_tasks.targets.causal.text_rows import TextRows
from leakage_tasks.targets.devices import HostCopy, in_bits

MORE_TOKENS = 1.5
"""Maximum factor by which the number of tokens may grow so that texts of several requests share passes."""

ALL = slice(None)
"""All columns of the costs of a pass."""
Reached = tuple[TextRows, FloatArray]
"""n texts, and costs in bits of the tokens that may follow after each of the k tokens read, ``[n, k, A]``."""


@dataclass(frozen=True)
class Start:
    """A prefix to read with ``target``; ``columns`` are the tokens whose costs after it are needed."""

    target: Any
    tokens: Sequence[int]
    columns: IntArray


@dataclass(frozen=True)
class Step:
    """Texts ``rows`` to extend by tokens ``[n, k]``, of which the first ``lengths`` ``[n]`` count.

    ``columns`` are the tokens whose costs after each of them are needed.
    """

    target: Any
    rows: TextRows
    tokens: IntArray
    lengths: IntArray
    columns: IntArray

    @classmethod
    def of_one(cls, target: Any, rows: TextRows, tokens: IntArray, columns: IntArray) -> Step:
        """Return the step by one token ``[n]`` of each text."""
        return cls(target, rows, tokens[:, None], np.ones_like(tokens), columns)

    def part(self, rows: slice) -> Step:
        """Return the step for some of its rows."""
        return replace(self, rows=self.rows[rows], tokens=self.tokens[rows], lengths=self.lengths[rows])

    def join(self, answers: Sequence[Reached]) -> Reached:
        """Join the answers to parts of the step."""
        return TextRows.joined([texts for texts, _ in answers]), np.concatenate([costs for _, costs in answers])


@dataclass(frozen=True)
class Texts:
    """Whole token sequences to score with ``target``, with everything that is read before each text."""

    target: Any
    rows: Sequence[list[int]]


def start_all(requests: Sequence[Start]) -> list[tuple[TextRows, float, FloatArray]]:
    """Return the text, the cost of the prefix and the costs of the next tokens for each request."""
    reader = requests[0].target
    results: dict[int, tuple[TextRows, float, FloatArray]] = {}
    tokens = [request.tokens for request in requests]
    # A batch that fits in memory may be too small to show that all texts share a context.
    limit = reader.pass_rows.whole_texts
    with limit.halving(1):
        known = shared_context(reader, tokens, [request.target.source for request in requests])
    shared = 0 if known is None else 1 + len(known.costs[0])
    copied = 0 if known is None else reader.engine.copied_tokens(known.rows.numbers)

    def fit(length: int) -> int:
        return int(reader.text_rows(length, length - shared, copied))

    def read(indices: Sequence[int]) -> FloatArray:
        batch = [requests[index] for index in indices]
        texts, sources = [request.tokens for request in batch], [request.target.source for request in batch]
        # A part of the texts may share a context that not all have; one text of several is none.
        finds = known is None and (1 < len(texts) < len(requests) or len(requests) == 1)
        begun = begin(reader, texts, sources) if finds else begin_after(reader, known, texts, sources)
        columns, each = _all_columns(batch)
        following, bits = reader.costs(begun.logits, columns), np.zeros(len(batch))
        for row, (index, request) in enumerate(zip(indices, batch, strict=True)):
            bits[row] = float(begun.costs[row][request.target.unscored - 1 :].sum())
            text = reader.engine.held(begun.rows.numbers[row : row + 1])
            results[index] = text, float(bits[row]), following[row : row + 1, each[row]]
        return bits

    lengths, indices = list(map(len, tokens)), range(len(requests))
    padding = 0.0 if reader.engine.pads is False or not reader.engine.cached else reader.most_padding
    limit.by_length(lengths, fit, read, indices, most_padding=padding)
    return [results[index] for index in indices]


def extend_all(requests: Sequence[Step]) -> list[Reached] | Callable[[], list[Reached]]:
    """Extend the texts of all requests, or launch this and return a function that waits for the answers.

    A device that computes while the host works takes the latter.
    """
    reader, engine = requests[0].target, requests[0].target.engine
    # The requests hold these rows.
    before = TextRows(np.concatenate([step.rows.numbers for step in requests]), ())
    lengths, width = np.concatenate([step.lengths for step in requests]), max(step.tokens.shape[1] for step in requests)
    tokens = np.concatenate([np.pad(step.tokens, ((0, 0), (0, width - step.tokens.shape[1]))) for step in requests])
    columns, each = _all_columns(requests)

    overlaps = reader.pass_rows.overlaps

    def read(part: slice) -> tuple[TextRows, HostCopy]:
        started = time.perf_counter()
        logits, texts = engine.go_on(before.numbers[part], tokens[part], lengths[part])
        log_p = reader.log_p(logits.flatten(0, 1), columns)
        if not overlaps:
            log_p.wait()
            if width == 1:
                reader.pass_rows.tuned.note(part.stop - part.start, time.perf_counter() - started)
        return texts, log_p

    limit = reader.pass_rows.limit if width == 1 else reader.pass_rows.whole_texts
    parts = limit.parts(len(before), read, reader.step_rows(before, width))

    def answers() -> list[Reached]:
        costs = np.concatenate([in_bits(log_p) for _, log_p in parts]).reshape(len(tokens), width, -1)
        return _apart(requests, TextRows.joined([texts for texts, _ in parts]), costs, each)

    return answers if overlaps else answers()


def _apart(requests: Sequence[Step], texts: TextRows, costs: FloatArray, each: Sequence[Any]) -> list[Reached]:
    """Return the texts of each request, and the costs of its own tokens, whose indices are in ``each``."""
    if len(requests) == 1:
        return [(texts, costs)]
    ends = np.cumsum([len(step.tokens) for step in requests])
    slices = [slice(int(end) - len(step.tokens), int(end)) for end, step in zip(ends, requests, strict=True)]
    apart = [costs[part, : step.tokens.shape[1]] for part, step in zip(slices, requests, strict=True)]
    # A view of the costs would keep those of all requests in memory.
    apart = [part.copy() if chosen is ALL else part[..., chosen] for part, chosen in zip(apart, each, strict=True)]
    engine = requests[0].target.engine
    return [(engine.held(texts.numbers[part]), costs) for part, costs in zip(slices, apart, strict=True)]


def _all_columns(requests: Sequence[Any]) -> tuple[IntArray, list[Any]]:
    """Return all tokens whose costs any request needs, and the index of each request's own tokens among them."""
    first = requests[0].columns
    if all(request.columns is first or np.array_equal(request.columns, first) for request in requests):
        return first, [ALL] * len(requests)
    columns = np.unique(np.concatenate([request.columns for request in requests]))
    return columns, [np.searchsorted(columns, request.columns) for request in requests]


def score_all(requests: Sequence[Texts]) -> list[FloatArray]:
    """Compute costs in bits ``[n]`` of the texts of each request."""
    results: dict[int, FloatArray] = {}
    for indices, shared in _that_begin_alike(requests):
        group = [requests[number] for number in indices]
        costs = costs_after(group[0].target, *_rows_of(group), shared)
        if costs is not None:
            results |= zip(indices, np.split(costs, _ends(group)), strict=True)
    left = [index for index in range(len(requests)) if index not in results]
    if left:
        results |= zip(left, _whole([requests[number] for number in left]), strict=True)
    return [results[index] for index in range(len(requests))]


def _whole(requests: Sequence[Texts]) -> list[FloatArray]:
    """Compute costs of texts read from their first token."""
    reader, (rows, unscored) = requests[0].target, _rows_of(requests)
    sources = [request.target.source for request in requests for _ in request.rows]
    # Texts of one canary have nearly equal lengths.
    padding = reader.most_padding if len(requests) > 1 else math.inf
    arguments, lengths, limit = (rows, unscored, sources), list(map(len, rows)), reader.pass_rows.whole_texts
    costs = limit.by_length(lengths, reader.text_rows, reader.score, *arguments, most_padding=padding)
    return np.split(costs, _ends(requests))


def _that_begin_alike(requests: Sequence[Texts]) -> list[tuple[list[int], int]]:
    """Return the indices of requests whose texts are best read after a common prefix, and its length."""
    if not requests[0].target.engine.cached or any(request.target.source is not None for request in requests):
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
