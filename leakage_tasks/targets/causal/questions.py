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


def start_all(asked: Sequence[Start]) -> list[tuple[Any, float, FloatArray]]:
    """Return the state, the cost of the prefix and the costs of the next tokens for each request."""
    engine = asked[0].target
    found: dict[int, tuple[Any, float, FloatArray]] = {}

    def read(places: Sequence[int]) -> FloatArray:
        some = [asked[place] for place in places]
        rows, sources = [each.tokens for each in some], [each.target.source for each in some]
        shared = lead_length(engine, rows) if all(source is None for source in sources) else 0
        first = states_after(engine, rows, shared) if shared else None
        if first is None and len(some) == 1 and sources[0] is None:
            first = read_ahead(engine, rows[0], some[0].ahead)
        states, costs, logits = first or engine.read_first(rows, sources)
        bits = np.zeros(len(some))
        for row, (place, each, state) in enumerate(zip(places, some, states, strict=True)):
            each.target.weigh(state, logits.shape[-1])
            bits[row] = float(costs[row][each.target.unscored - 1 :].sum())
            found[place] = state, float(bits[row]), each.target.costs(logits[row : row + 1], each.columns)
        return bits

    lengths, places = [len(each.tokens) for each in asked], range(len(asked))
    engine.limit.by_length(lengths, engine.read_rows, read, places, most_padding=engine.padding_first)
    return [found[place] for place in places]


def extend_all(asked: Sequence[Step]) -> list[Reached]:
    """Extend the texts of all requests by one token."""
    engine, at_once = asked[0].target, min(step.target.pass_rows(step.states) for step in asked)
    ends = np.cumsum([len(step.tokens) for step in asked])
    found: list[list[Reached]] = [[] for _ in asked]

    def read(rows: slice) -> None:
        first, last = np.searchsorted(ends, [rows.start + 1, rows.stop])
        chosen = range(int(first), int(last) + 1)
        starts = [int(ends[n]) - len(asked[n].tokens) for n in chosen]
        parts = [
            asked[n].part(slice(max(0, rows.start - start), rows.stop - start))
            for n, start in zip(chosen, starts, strict=True)
        ]
        started = time.perf_counter()
        answers = engine.one_pass(parts)
        engine.pass_size.note(rows.stop - rows.start, time.perf_counter() - started)
        for n, answer in zip(chosen, answers, strict=True):
            found[n].append(answer)

    engine.limit.parts(int(ends[-1]), read, at_once)
    return [_put_together(step, parts) for step, parts in zip(asked, found, strict=True)]


def score_all(asked: Sequence[Texts]) -> list[FloatArray]:
    """Compute costs in bits ``[n]`` of the texts of each request."""
    found: dict[int, FloatArray] = {}
    for places, shared in _that_begin_alike(asked):
        some = [asked[place] for place in places]
        costs = texts_after(some[0].target, *_rows_of(some), shared)
        if costs is not None:
            found |= zip(places, np.split(costs, _ends(some)), strict=True)
    left = [index for index in range(len(asked)) if index not in found]
    if left:
        found |= zip(left, _whole([asked[place] for place in left]), strict=True)
    return [found[index] for index in range(len(asked))]


def _whole(asked: Sequence[Texts]) -> list[FloatArray]:
    """Compute costs of texts read from their first token."""
    engine, (rows, unscored) = asked[0].target, _rows_of(asked)
    sources = [each.target.source for each in asked for _ in each.rows]
    # Texts of one canary have nearly equal lengths.
    padding = engine.most_padding if len(asked) > 1 else math.inf
    beside, lengths = (rows, unscored, sources), list(map(len, rows))
    found = engine.whole_texts.by_length(lengths, engine.text_rows, engine.score, *beside, most_padding=padding)
    return np.split(found, _ends(asked))


def _that_begin_alike(asked: Sequence[Texts]) -> list[tuple[list[int], int]]:
    """Return the indices of requests whose texts are best read after a common prefix, and its length."""
    if not goes_on(asked[0].target) or any(each.target.source is not None for each in asked):
        return []
    apart = [_shared([each]) for each in asked]
    saved = sum(shared * (len(each.rows) - 1) for shared, each in zip(apart, asked, strict=True))
    if len(asked) == 1:
        return [([0], apart[0])] if apart[0] else []
    together, texts = _shared(asked), sum(len(each.rows) for each in asked)
    tokens = sum(len(row) for each in asked for row in each.rows)
    if together and tokens - together * (texts - 1) <= MORE_TOKENS * (tokens - saved):
        return [([*range(len(asked))], together)]
    return [([index], shared) for index, shared in enumerate(apart) if shared]


def _shared(asked: Sequence[Texts]) -> int:
    rows, unscored = _rows_of(asked)
    shared = shared_tokens(rows)
    return shared if shared >= max(unscored, default=0) else 0


def _rows_of(asked: Sequence[Texts]) -> tuple[list[list[int]], list[int]]:
    """Return all rows, and the number of tokens without a cost at the beginning of each."""
    rows = [row for each in asked for row in each.rows]
    return rows, [each.target.unscored for each in asked for _ in each.rows]


def _ends(asked: Sequence[Texts]) -> IntArray:
    """Return the end of each request's rows among all rows, except for the last request."""
    return np.cumsum([len(each.rows) for each in asked])[:-1]


def _put_together(step: Step, parts: Sequence[Reached]) -> Reached:
    """Join the results of a step's parts."""
    if len(parts) == 1:
        return parts[0]
    counts = [len(costs) for _, costs in parts]
    origin = np.repeat(np.arange(len(parts)), counts)
    place = np.concatenate([np.arange(count) for count in counts])
    remedy = f"pass --batch_size with a small number from 2, or {SMALLER}"
    with step.target.limit.halving(len(origin), len(origin), remedy):
        state = step.target.gather([state for state, _ in parts], origin, place)
    return state, np.concatenate([costs for _, costs in parts])


STEP_SPLITTER = Splitter(Step.part, _put_together)
"""Splits a step so that some of its rows can be answered at a time."""
